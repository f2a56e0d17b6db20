from pathlib import Path

import pytest

from ingest.local.stack import Stack
from tests.support.server import Cli, Server


@pytest.fixture
def cli(stack: Stack, tmp_path: Path, spark) -> Cli:
    return Cli(stack, tmp_path, spark)


@pytest.fixture
def mysql(server: Server) -> Server:
    return server
