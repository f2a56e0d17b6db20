"""The two handles of a table are one to whoever commits: by Spark and by delta-rs they answer the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLake

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable, typed
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.targets.target import KEYED_META

APP, OTHER = "ingest/p/c/d.t/mirror", "somebody/else"
VERSION = SchemaVersion(
    TableId("d", "t"),
    Position(0, 1, 9),
    "CREATE",
    (Column("id", "INT", None, None, optional=False),),
    ("id",),
    "",
)


def row(spark, number):
    place = "named_struct('epoch', 0, 'file', 1, 'pos', 1, 'row', 0, 'part', 1)"
    meta = f"named_struct('position', {place}, 'op', 'c', 'committed_at', timestamp'2026-01-01')"
    return spark.sql(f"SELECT {number} AS id, CAST({meta} AS {KEYED_META}) AS _ingest")


def appended(handle: TableHandle, spark, number):
    """One row by whoever the handle is."""
    if isinstance(handle, DeltaRsTable):
        with handle.scratch(()) as work:
            schema = pa.schema(work.table.schema().to_arrow())
        handle.append(typed(row(spark, number).toArrow(), schema))
    else:
        row(spark, number).write.format("delta").mode("append").save(handle.path)


@pytest.fixture
def handles(spark, folder):
    table = SparkTable(spark, str(folder / "t"))
    table.create(VERSION, ("id",))
    return table, DeltaRsTable(table, folder / "scratch")


def said(metadata):
    return json.loads(metadata["schemaString"]), metadata["configuration"]


ASKED: dict[str, Callable[[TableHandle, range], Any]] = {
    "path": lambda handle, _: handle.path,
    "version": lambda handle, _: handle.version(),
    "id": lambda handle, _: handle.id(),
    "committed": lambda handle, _: [handle.committed(one) for one in (APP, OTHER, "nobody")],
    "commits": lambda handle, _: [list(handle.commits(start)) for start in (0, 2, 99)],
    "metadata_at": lambda handle, versions: [said(handle.metadata_at(one)) for one in versions],
    "make_lasting": lambda handle, _: handle.make_lasting(0),
    "read_back": lambda handle, _: (handle.read_back(APP, 2), handle.read_back(APP, 2, 1)),
}
"""By a handle's member; ``identified`` has a test of its own."""


def asked(handles):
    """What each handle answers, also of all versions."""
    versions = range(handles[0].version() + 1)
    return [{name: ask(handle, versions) for name, ask in ASKED.items()} for handle in handles]


def test_every_member_of_a_handle_is_asked_here():
    members = {name for name in vars(TableHandle) if not name.startswith("_")}
    assert members | {"path"} == ASKED.keys() | {"identified"}


def test_both_handles_answer_the_same_whoever_has_committed(spark, handles):
    for number, writer in enumerate((*handles, *handles), 1):
        with writer.identified(APP, number, f"note {number}"):
            writer.version()
            appended(writer, spark, number)
        one, other = asked(handles)
        assert one == other
        assert one["committed"] == [number, None, None]
        assert one["version"] == number
    options = {"txnAppId": OTHER, "txnVersion": "7"}
    nothing = handles[0].frame().limit(0).write.format("delta").mode("append").options(**options)
    nothing.save(handles[0].path)
    one, other = asked(handles)
    assert one == other
    assert one["committed"] == [4, 7, None]


def test_what_a_table_was_at_each_version_is_known_while_its_log_is_there(spark, handles):
    table = handles[0]
    mapping = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    for change in ("ADD COLUMN v INT", mapping, "DROP COLUMN v"):
        spark.sql(f"ALTER TABLE delta.`{table.path}` {change}")
    there = []
    for number in range(table.version() + 1):
        one, other = (said(handle.metadata_at(number)) for handle in handles)
        assert one == other
        there.append("v" in [field["name"] for field in one[0]["fields"]])
    assert there == [False, True, True, False]
    DeltaLake(table.path).create_checkpoint()
    for number in (0, 1):
        (Path(table.path) / "_delta_log" / f"{number:020d}.json").unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for handle in handles:
        assert [handle.metadata_at(number) for number in (0, 1)] == [None, None]
    one, other = (said(handle.metadata_at(3)) for handle in handles)
    assert one == other


def test_a_version_whose_file_is_gone_has_no_actions_by_either(spark, handles):
    for number in (1, 2):
        appended(handles[0], spark, number)
    DeltaLake(handles[0].path).create_checkpoint()
    (Path(handles[0].path) / "_delta_log" / f"{0:020d}.json").unlink()
    one, other = (list(handle.commits(0)) for handle in handles)
    assert one == other
    assert [(version, bool(actions)) for version, actions in one] == [(0, False), (1, True), (2, True)]  # fmt: skip


def test_what_is_committed_under_an_identity_says_the_same_of_itself(spark, handles):
    said = []
    for number, handle in enumerate(handles, 1):
        before = handle.version()
        with handle.identified(APP, number, "a note"):
            appended(handle, spark, number)
        ((_, actions),) = handle.commits(before + 1)
        (txn,) = (action["txn"] for action in actions if "txn" in action)
        (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        said.append((txn["appId"], txn["version"] - number, info["userMetadata"]))
    assert said == [(APP, 0, "a note")] * 2


@pytest.mark.parametrize("first", [0, 1], ids=["by Spark", "by delta-rs"])
def test_what_one_handle_has_committed_is_not_committed_again_by_the_other(spark, handles, first):
    one, other = handles[first], handles[1 - first]
    identity = Identity(APP, 3)
    assert Committer(1).once(one, identity, lambda: appended(one, spark, 1))
    assert not Committer(1).once(other, identity, lambda: appended(other, spark, 2))
    assert [held.id for held in handles[0].frame().collect()] == [1]
