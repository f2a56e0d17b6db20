from pathlib import Path

import pytest

from ingest.local.stack import Stack
from tests.support.server import Cli, Server


@pytest.fixture
def cli(stack: Stack, tmp_path: Path) -> Cli:
    return Cli(stack, tmp_path)


@pytest.fixture
def mysql(server: Server) -> Server:
    return server
