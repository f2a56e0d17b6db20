"""What a benchmark has for itself: a Spark session, or MySQL, Kafka and Connect."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from ingest.job import spark_session
from ingest.local.stack import Stack


@contextmanager
def fresh_stack(name: str) -> Iterator[tuple[Stack, Path]]:
    """A stack that runs, and a folder for what else there is; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"ingest-{name}-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            yield stack, Path(folder)
        finally:
            stack.down()


@contextmanager
def fresh_spark(memory: str = "4g") -> Iterator[tuple[SparkSession, Path]]:
    """Spark on two cores, and a folder; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        folder = Path(name)
        log = folder / "spark.log"
        spark = spark_session.create(
            "bench", master="local[2]", driver_memory=memory, conf={}, log=log
        )
        try:
            yield spark, folder
        finally:
            spark.stop()
