"""The two handles of a table are one to whoever commits: by Spark and by delta-rs they answer the same."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
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


ASKED: dict[str, Callable[[TableHandle, list[str]], Any]] = {
    "path": lambda handle, _: handle.path,
    "version": lambda handle, _: handle.version(),
    "id": lambda handle, _: handle.id(),
    "committed": lambda handle, _: [handle.committed(one) for one in (APP, OTHER, "nobody")],
    "commits": lambda handle, _: [list(handle.commits(start)) for start in (0, 2, 99)],
    "version_at": lambda handle, times: [handle.version_at(one) for one in times],
    "make_lasting": lambda handle, _: handle.make_lasting(0),
    "read_back": lambda handle, _: (handle.read_back(APP, 2), handle.read_back(APP, 2, 1)),
}
"""By a handle's member; ``identified`` has a test of its own."""


def asked(spark, handles):
    """What each handle answers; times are those of all versions, one before them and one after."""
    history = DeltaTable.forPath(spark, handles[0].path).history()
    found = [row.t for row in history.selectExpr("cast(timestamp as string) t").collect()]
    times = [*sorted(found), "1970-01-01", "2999-01-01"]
    return [{name: ask(handle, times) for name, ask in ASKED.items()} for handle in handles]


def test_every_member_of_a_handle_is_asked_here():
    members = {name for name in vars(TableHandle) if not name.startswith("_")}
    assert members | {"path"} == ASKED.keys() | {"identified"}


def test_both_handles_answer_the_same_whoever_has_committed(spark, handles):
    for number, writer in enumerate((*handles, *handles), 1):
        with writer.identified(APP, number, f"note {number}"):
            writer.version()
            appended(writer, spark, number)
        time.sleep(0.01)  # versions of one millisecond are one time to a RESTORE
        one, other = asked(spark, handles)
        assert one == other
        assert one["committed"] == [number, None, None]
        assert one["version"] == number
    options = {"txnAppId": OTHER, "txnVersion": "7"}
    nothing = handles[0].frame().limit(0).write.format("delta").mode("append").options(**options)
    nothing.save(handles[0].path)
    one, other = asked(spark, handles)
    assert one == other
    assert one["committed"] == [4, 7, None]
    assert one["version_at"] == [0, 1, 2, 3, 4, 5, None, 5]


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
