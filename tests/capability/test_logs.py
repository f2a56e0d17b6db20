"""Each kind of log that we write, action by action: what the outside reader, Spark, delta-rs and DuckDB make of it."""

import json
import random
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.outside import tables
from tests.outside.log import Log
from tests.outside.packages import answers
from tests.outside.vectors import rows_of

KINDS = {"VARCHAR(500)", "BIGINT UNSIGNED", "DATETIME(6)", "TIMESTAMP(6)", "DOUBLE", "BIT(1)"}


@pytest.fixture(scope="module")
def held():
    return [one for one in tables.columns(random.Random(7)) if one.mysql in KINDS]


def outside(path):
    log = Log.read(path)
    assert log.falsehoods() == []
    return {
        "version": log.version,
        "id": log.metadata["id"],
        "schema": json.loads(log.metadata["schemaString"]),
        "configuration": dict(log.metadata.get("configuration") or {}),  # pairs, in a checkpoint
        "versions": (log.protocol["minReaderVersion"], log.protocol["minWriterVersion"]),
        "features": sorted(log.features),
        "markers": log.markers,
        "files": {
            unquote(file): {
                "size": add["size"],
                "stats": json.loads(add["stats"]) if add.get("stats") else None,
                "marked": len(rows_of(add.get("deletionVector"), path)),
                "vector": vector(add.get("deletionVector")),
            }
            for (file, _), add in log.files.items()
        },
    }


def vector(said):
    if not said:
        return None
    return (said["storageType"], said["pathOrInlineDv"], said["sizeInBytes"], said["cardinality"])


def by_spark(spark, path):
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    snapshot = log.forTable(spark._jsparkSession, str(path)).update(
        False, spark._jvm.scala.Option.empty(), spark._jvm.scala.Option.empty()
    )
    protocol = json.loads(snapshot.protocol().json())["protocol"]
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    adds = DataFrame(snapshot.allFiles().toDF(), spark)
    files = [row.add for row in adds.select(F.to_json(F.struct("*")).alias("add")).collect()]
    marks = snapshot.setTransactions()
    return {
        "version": snapshot.version(),
        "id": metadata["id"],
        "schema": json.loads(metadata["schemaString"]),
        "configuration": metadata.get("configuration") or {},
        "versions": (protocol["minReaderVersion"], protocol["minWriterVersion"]),
        "features": sorted(
            {*protocol.get("readerFeatures", []), *protocol.get("writerFeatures", [])}
        ),
        "markers": {
            marks.apply(at).appId(): marks.apply(at).version() for at in range(marks.size())
        },
        "files": {
            unquote(add["path"]): {
                "size": add["size"],
                "stats": json.loads(add["stats"]) if add.get("stats") else None,
                "marked": (add.get("deletionVector") or {}).get("cardinality", 0),
                "vector": vector(add.get("deletionVector")),
            }
            for add in map(json.loads, files)
        },
    }


def by_delta_rs(path, markers):
    table = DeltaTable(path)
    protocol = table.protocol()
    actions = pa.table(table.get_add_actions()).to_pylist()
    return {
        "version": table.version(),
        "id": str(table.metadata().id),
        "schema": json.loads(table.schema().to_json()),
        "configuration": table.metadata().configuration,
        "versions": (protocol.min_reader_version, protocol.min_writer_version),
        "features": sorted({*(protocol.reader_features or []), *(protocol.writer_features or [])}),
        "markers": {app: table.transaction_version(app) for app in markers},
        "files": {
            unquote(one["path"]): {
                "size": one["size_bytes"],
                "records": one["num_records"],
                "nulls": {
                    key: n for key, n in (one["null_count"] or {}).items() if key != "_ingest"
                },
            }
            for one in actions
        },
    }


def agree(spark, path):
    """Raises ``AssertionError`` where one of them has it otherwise than the outside reader."""
    ours = outside(path)
    assert by_spark(spark, path) == ours
    theirs = by_delta_rs(path, ours["markers"])
    files = theirs.pop("files")
    assert theirs == {key: held for key, held in ours.items() if key != "files"}
    assert {file: one["size"] for file, one in files.items()} == {
        file: one["size"] for file, one in ours["files"].items()
    }
    for file, one in files.items():
        if (said := ours["files"][file]["stats"]) is not None:
            nulls = {key: n for key, n in said["nullCount"].items() if key != "_ingest"}
            assert (one["records"], {key: one["nulls"].get(key) for key in nulls}) == (
                said["numRecords"],
                nulls,
            )
    (duckdb,) = answers([{"path": str(path), "reader": "duckdb", "files": True}])
    wanted = {}
    for file, one in ours["files"].items():
        rows = len(pq.read_table(path / file, columns=["id"])) - one["marked"]
        wanted[file] = rows
    assert duckdb["files"] == {file: rows for file, rows in wanted.items() if rows}


@pytest.mark.parametrize("marks", [pytest.param(False, marks=pytest.mark.long), True])
def test_all_make_the_same_of_a_log_by_delta_rs(spark, tmp_path, held, marks):
    made, lake = tables.direct(tmp_path, held, marks=marks)
    for act in (lambda: None, made.checkpoint, lambda: tables.compacted(lake), made.checkpoint):
        act()
        agree(spark, made.path)


def test_all_make_the_same_of_a_log_by_spark(spark, tmp_path, held):
    made, _ = tables.by_spark(spark, tmp_path, held)
    for act in (lambda: None, made.checkpoint):
        act()
        agree(spark, made.path)


def test_a_mutant_of_the_outside_reader_is_met(spark, tmp_path, held, monkeypatch):
    """One that forgets what was removed."""
    made, _ = tables.direct(tmp_path, held[:1], marks=False)
    agree(spark, made.path)
    take = Log._take
    monkeypatch.setattr(
        Log, "_take", lambda self, some: take(self, [one for one in some if "remove" not in one])
    )
    with pytest.raises(AssertionError):
        agree(spark, made.path)
