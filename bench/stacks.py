"""What a benchmark has for itself: a Spark session, or MySQL, Kafka and Connect."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from ingest.config.lake_settings import Lake
from ingest.job import spark_session
from ingest.lake.files import object_store
from ingest.local.stack import Stack
from tests.support import s3


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
def fresh_spark(
    memory: str = "4g", *, conf: Mapping[str, str] | None = None, more: Sequence[str] = ()
) -> Iterator[tuple[SparkSession, Path]]:
    """Spark on two cores, and a folder; both are gone afterwards. ``conf``, ``more``: settings and groups of jars that it has besides."""
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        folder = Path(name)
        log = folder / "spark.log"
        spark = spark_session.create(
            "bench",
            master="local[2]",
            driver_memory=memory,
            conf=dict(conf or {}),
            log=log,
            more=more,
        )
        try:
            yield spark, folder
        finally:
            spark.stop()


ROOT_IN_STORE = f"s3a://{s3.BUCKET}/lakes"
"""Of lakes in :func:`lent_store`."""


@contextmanager
def lent_store() -> Iterator[s3.S3]:
    """An S3 server on this machine, which this process and those that it starts reach."""
    with tempfile.TemporaryDirectory(prefix="ingest-store-") as home:
        store = s3.start(Path(home))
        try:
            object_store.lend(lake_in(store))
            yield store
        finally:
            store.stop()


def lake_in(store: s3.S3) -> Lake:
    """As a pipeline file says it."""
    return Lake.model_validate({"path": ROOT_IN_STORE, "storage": store.storage()})
