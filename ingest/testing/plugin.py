"""pytest's fixtures. In ``conftest.py``: ``pytest_plugins = ["ingest.testing.plugin"]``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.job import spark_session
from ingest.testing.lake import Lake


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with Delta on two cores, one for the whole test run. The first one on a machine fetches Delta's jars. A
    fixture of the same name in a ``conftest.py`` takes its place.
    """
    created = spark_session.create(
        "ingest.testing",
        master="local[2]",
        driver_memory="2g",
        conf=dict(spark_session.SHORT),
        log=tmp_path_factory.mktemp("spark") / "spark.log",
    )
    yield created
    created.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """An empty lake, of the test's own."""
    made = Lake(spark, tmp_path / "lake")
    yield made
    made.close()
