"""A table's change log: each change once, in every lane, and folded it is the table."""

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from ingest.testing.frames import assert_rows
from ingest.testing.source import Source
from tests.support.change_log import folded, frozen, log_of
from tests.support.lanes import LANES

COLUMNS = {"id": "INT", "v": "VARCHAR(9)", "amount": "DECIMAL(10,2)", "at": "DATETIME(3)"}
AT = datetime(2026, 1, 1, 0, 0, 0, 500_000)  # noqa: DTZ001 - a DATETIME has no zone
SOURCE = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["*.*"]}


def operations(lake, table="d.t"):
    return [(row["operation"], row["origin"]) for row in log_of(lake, table)]


LONG = ("driver, merged by Spark", "tasks, rows that Spark folds")
"""Lanes in which nothing of a log is another than in those before them."""


@pytest.mark.parametrize(
    "lane",
    [pytest.param(one, marks=pytest.mark.long) if one in LONG else one for one in LANES],
)
def test_every_change_stands_in_it_once_with_both_images_whichever_lane_read_it(logged, lane):
    settings, _ = LANES[lane]
    lake, source = logged(spark=settings), Source()
    rows = [{"id": n, "v": f"a{n}", "amount": "1.50", "at": AT} for n in (1, 2)]
    table = source.table("d.t", COLUMNS, ["id"], rows=rows)
    lake.follow(source)
    table.insert(id=3, v="c", amount=None)
    table.update(1, v="b")
    table.update(1, v="c")
    table.delete(2)
    table.update(3, id=4)
    lake.follow(source)
    assert operations(lake) == [
        ("read", "snapshot"),
        ("read", "snapshot"),
        ("insert", "stream"),
        ("update", "stream"),
        ("update", "stream"),
        ("delete", "stream"),
        ("delete", "stream"),
        ("insert", "stream"),
    ]
    found = log_of(lake)
    assert [row["before"] and row["before"]["v"] for row in found[3:6]] == ["a1", "b", "a2"]
    assert [row["after"] and row["after"]["v"] for row in found[3:6]] == ["b", "c", None]
    assert found[2]["before"] is None
    assert [bool(row["transaction"]) for row in found] == [False] * 2 + [True] * 6
    assert all(row["committed_at"] for row in found)
    assert folded(found, ["id"]) == Counter(map(frozen, table.rows))
    assert_rows(lake.live(table), table.rows)


SOME = {"driver": {"lane": "driver"}, "kept in Spark": {"lane": "spark", "merge_engine": "spark"}}


@pytest.mark.parametrize("lane", SOME)
def test_ddl_and_truncate_are_rows_and_columns_only_come(logged, lane):
    lake, source = logged(spark=SOME[lane]), Source()
    table = source.table("d.t", {"id": "INT", "a": "INT", "b": "VARCHAR(9)"}, ["id"])
    table.insert(id=1, a=1, b="x")
    lake.follow(source)
    source.now = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    table.add_column("c", "DECIMAL(5,2)")
    table.update(1, c="1.25")
    table.rename_column("b", "name")
    table.update(1, name="y")
    table.modify_column("a", "BIGINT")
    table.update(1, a=2**40)
    table.drop_column("c")
    table.insert(id=2, a=5, name="z")
    table.truncate()
    table.insert(id=3, a=6, name="zz")
    lake.follow(source, batches=1)
    found = log_of(lake)
    assert [row["operation"] for row in found] == [
        *("insert", "schema", "update", "schema", "update", "schema", "update"),
        *("schema", "insert", "truncate", "insert"),
    ]
    assert {row["committed_at"] for row in found[1:]} == {source.now}
    assert found[3]["statement"] == "ALTER TABLE `d`.`t` RENAME COLUMN `b` TO `name`"
    assert [*found[-1]["after"]] == ["id", "a", "b", "c", "name", "a__2"]
    assert found[4]["before"]["name"] == "x", "as MySQL writes it, behind the DDL"
    assert found[2]["after"] == {"id": 1, "a": 1, "b": "x", "c": Decimal("1.25"), "name": None, "a__2": None}  # fmt: skip
    now = [row.after.asDict() for row in lake.changes(table, today=True).filter("after IS NOT NULL").orderBy("position").collect()]  # fmt: skip
    assert now[0] == {"id": 1, "a": 1, "name": "x"}
    assert now[-1] == {"id": 3, "a": 6, "name": "zz"}
    assert [one["a"] for one in now] == [1, 1, 1, 2**40, 5, 6]
    features = DeltaTable(lake.pipeline.change_log_path(table.name)).protocol()
    assert not {"columnMapping", "typeWidening"} & {*(features.writer_features or ())}


def test_what_comes_again_adds_nothing_under_whatever_checkpoint(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", COLUMNS, ["id"], rows=[{"id": 1, "v": "a"}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}, {"n": 1}])
    table.update(1, v="b")
    bag.delete({"n": 1})
    lake.follow(source)
    before = {name: log_of(lake, name) for name in ("d.t", "d.bag")}
    lake.start(from_beginning=True)
    lake.apply(lake.log.ends())
    streamed = [one for one in source.log if b'"op":"r"' not in (one.value or b"")]
    lake.replay([one for one in streamed if one.topic in (table.topic, bag.topic)])
    assert {name: log_of(lake, name) for name in ("d.t", "d.bag")} == before
    assert folded(before["d.bag"]) == Counter(map(frozen, bag.rows))


def test_a_table_without_a_key_has_one_and_a_snapshot_that_brings_its_rows_again_says_so(logged):
    lake, source = logged(), Source()
    bag = source.table("d.bag", {"n": "INT", "v": "VARCHAR(9)"}, rows=[{"n": 1, "v": "a"}] * 2)
    bag.insert(n=2, v="b")
    lake.follow(source)
    bag.update({"n": 2, "v": "b"}, v="c")
    bag.delete({"n": 1, "v": "a"})
    lake.follow(source)
    bag.snapshot()
    bag.insert(n=3)
    lake.follow(source)
    lake.settle()
    found = log_of(lake, "d.bag")
    assert folded(found) == Counter(map(frozen, bag.rows))
    assert [row["origin"] for row in found if row["operation"] == "read"].count("resync") == 2
    assert [row["operation"] for row in found].count("restart") == 1


def test_rows_that_a_snapshot_did_not_find_are_void_in_the_log(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    lake.follow(source)
    del table._rows[0]  # as by a foreign key's cascade, which no log has
    table.snapshot()
    table.insert(id=3)
    lake.follow(source)
    lake.settle()
    assert_rows(lake.live(table), table.rows)
    found = log_of(lake)
    assert [row["operation"] for row in found].count("void") == 1
    assert folded(found, ["id"]) == Counter(map(frozen, table.rows))


def test_what_waited_in_quarantine_comes_into_the_log_when_it_is_taken_in(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"])
    table.insert(id=1, v=1)
    lake.follow(source)
    table.update(1, v=2)
    (record,) = source.log[-1:]
    bad = replace(record, value=record.value.replace(b'"v":2', b'"v":"two"'))
    lake.replay([bad], quarantine=True)
    assert [row["operation"] for row in log_of(lake)] == ["insert"]


def test_a_row_before_an_update_that_fits_no_more_keeps_no_change_from_the_table(logged):
    columns = {"id": "INT", "d": "DATE", "v": "INT"}
    lake, source = logged(source={**SOURCE, "epoch_dates": "keep"}), Source()
    table = source.table("d.t", {**columns, "d": "DATE NOT NULL"}, ["id"])
    table.insert(id=1, d=date(1970, 1, 1), v=1)
    lake.follow(source)
    lake = logged(source={**SOURCE, "epoch_dates": "quarantine"})
    table.update(1, d=date(1980, 1, 1))
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)
    (found,) = [row for row in log_of(lake) if row["operation"] == "update"]
    assert found["after"]["d"] == date(1980, 1, 1)
    assert found["before"] == {"id": 1, "d": date(1970, 1, 1), "v": 1}


def test_what_an_append_only_table_ignores_is_in_its_log(logged):
    lake, source = logged(tables={"d.*": {"append_only": True}}), Source()
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}, {"n": 2}])
    bag.delete({"n": 1})
    bag.insert(n=3)
    lake.follow(source)
    assert folded(log_of(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    assert lake.table(bag).count() == 3


def test_a_definition_that_changes_no_column_is_in_force_in_every_lane(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"])
    table.insert(id=1)
    table._define("ALTER TABLE `d`.`t` ADD INDEX (`id`)")
    table.insert(id=2)
    lake.follow(source)
    first, ddl, second = log_of(lake)
    assert ddl["operation"] == "schema"
    assert first["schema_version"] < ddl["schema_version"] == second["schema_version"]


def test_an_update_that_an_append_only_table_refuses_is_not_in_its_log(logged):
    lake, source = logged(tables={"d.*": {"append_only": True}}), Source()
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    bag.update({"n": 1}, n=2)
    lake.follow(source, quarantine=True)
    lake.start()
    assert [row["operation"] for row in log_of(lake, "d.bag")] == ["read"]
