from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ingest.local.stack import Stack
from tests.support.server import Cli, Server


@pytest.fixture
def cli(stack: Stack, tmp_path: Path, spark) -> Iterator[Cli]:
    """`ingest` in a folder of the test's own; its connectors are gone afterwards."""
    yield Cli(stack, tmp_path, spark)
    url = f"{stack.connect().url}/connectors"
    for name in httpx.get(url, timeout=30).json():
        httpx.delete(f"{url}/{name}", timeout=30)


@pytest.fixture
def mysql(server: Server) -> Server:
    return server
