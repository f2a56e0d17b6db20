from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from ingest.local.stack import Stack
from tests.support.flows import OneFlow
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


@pytest.fixture
def flow_to_servers(spark, tmp_path, server, redis, stack):
    """Makes a flow with both servers at hand, and an empty table `counts`."""
    server.database("results")
    server.sql(
        "CREATE TABLE results.counts (word VARCHAR(8) COLLATE utf8mb4_0900_bin PRIMARY KEY, n INT, newest DATETIME(6))"
    )
    with closing(redis.client()) as client:
        client.flushall()
    mysql = stack.mysql()
    connections = {
        "results": {
            "url": f"mysql://root@127.0.0.1:{mysql.port}/results",
            "password": {"file": str(mysql.secret("root"))},
        },
        "cache": {"url": redis.url, "password": {"file": str(redis.secret)}},
    }

    def flow(function, **settings):
        return OneFlow(spark, tmp_path, function, connections=connections, **settings)

    return flow
