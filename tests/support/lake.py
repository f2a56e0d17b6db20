"""Reads a table of the lake without the job: by delta-rs where it can, else by a Spark of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from ingest.job import spark_session
from tests.support.cold import CONF

_PLAIN = {"timestampNtz", "timestamp_ntz"}


def read(path: Path, version: int | None = None) -> pa.Table:
    """A version of a table, the newest by default, with all its columns."""
    table = DeltaTable(str(path), version=version)
    # docs/readers.md says who reads what.
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - _PLAIN
    if protocol.min_reader_version == 1 or (protocol.reader_features and not features):
        return table.to_pyarrow_table()
    if features <= {"columnMapping", "deletionVectors"}:
        found = QueryBuilder().register("t", table).execute("SELECT * FROM t")
        return pa.table(found.read_all())
    reader = _spark().read.format("delta").option("versionAsOf", table.version())
    return reader.load(str(path)).toArrow()


def _spark() -> SparkSession:
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    # A process has one Spark: where this one comes first, it is what the tests behind it get by their fixture.
    log = Path(tempfile.mkdtemp(prefix="ingest-read-")) / "spark.log"
    return spark_session.create("read", master="local[2]", driver_memory="2g", conf=CONF, log=log)
