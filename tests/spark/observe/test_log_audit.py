"""The audit of change logs: a log, folded, is its table; and where it is not, the audit says where."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from ingest.lake.manifest.manifest_reader import Ledger
from ingest.observe.log_audit import LogAudit
from ingest.testing.source import Source

COLUMNS = {"id": "INT", "Order": "VARCHAR(20)", "a.b": "DECIMAL(9,2)", "at": "DATE"}


@pytest.fixture
def filled(logged):
    """A lake whose tables have met everything that a log may hold, with hostile names and values."""
    lake, source = logged(), Source()
    rows = [{"id": n, "Order": "a\u2028b", "a.b": "1.50", "at": date(2026, 1, 1)} for n in range(4)]
    table = source.table("d.t", COLUMNS, ["id"], rows=rows)
    bag = source.table("d.bag", {"n": "INT", "v": "DOUBLE"}, rows=[{"n": 1, "v": -0.0}] * 3)
    lake.follow(source)
    table.insert(id=7, Order=None)
    table.update(0, Order="")
    table.update(1, id=10)
    table.delete(2)
    bag.delete({"n": 1, "v": -0.0})
    bag.insert(n=None, v=None)
    lake.follow(source)
    return lake, source, table, bag


def audited(lake, **versions):
    """By table. ``versions``: of tables as somebody else has left them."""
    entry = Ledger(str(lake.path)).last()
    for name, version in versions.items():
        state = entry.tables[f"d.{name}"]
        entry = replace(
            entry, tables={**entry.tables, f"d.{name}": replace(state, version=version)}
        )
    with patch.object(Ledger, "last", return_value=entry):
        return {one.name: one for one in LogAudit(lake.pipeline, lake.session).execute()}


def test_each_log_is_its_table_behind_everything_that_a_log_may_hold(filled):
    lake, source, table, bag = filled
    found = audited(lake)
    assert [(one.differences, one.note) for one in found.values()] == [(0, "")] * 2
    assert (found["d.t"].changes, found["d.t"].compared) == (9, 4)
    assert found["d.bag"].compared == 2
    table.truncate()
    bag.truncate()
    table.insert(id=1, Order="x")
    bag.insert(n=3, v=1.5)
    bag.snapshot()
    lake.follow(source)
    lake.settle()
    found = audited(lake)
    assert [(one.compared, one.differences) for one in found.values()] == [(1, 0)] * 2


@pytest.mark.parametrize(
    ("name", "act", "found"),
    [
        ("t", lambda table: table.delete("id = 3"), [("id=3", "missing in the table")]),
        ("t", lambda table: table.update({"Order": "'z'"}, None, "id = 3"), [("id=3", "differs")]),
        (
            "bag",
            lambda table: table.delete("n is null"),
            [("n=NULL, v=NULL", "missing in the table")],
        ),
    ],
)
def test_a_row_that_somebody_has_touched_is_named(filled, name, act, found):
    lake = filled[0]
    changed = DeltaTable(str(lake.path / "d" / name))
    act(changed)
    result = audited(lake, **{name: changed.version()})[f"d.{name}"]
    assert (result.differences, list(result.examples)) == (len(found), found)


def test_a_change_that_a_log_lacks_is_named(filled):
    lake, source, table, bag = filled
    before = {name: state.log for name, state in lake.batches.newest.tables.items()}
    table.insert(id=50)
    bag.insert(n=50, v=0.0)
    lake.follow(source)
    entry = Ledger(str(lake.path)).last()
    tables = {name: replace(state, log=before[name]) for name, state in entry.tables.items()}
    with patch.object(Ledger, "last", return_value=replace(entry, tables=tables)):
        results = LogAudit(lake.pipeline, lake.session).execute()
    assert sorted(one.examples for one in results) == [
        (("id=50", "missing in the log"),),
        (("n=50, v=0.0", "missing in the log"),),
    ]


def test_of_a_log_that_was_asked_for_later_what_it_has_is_compared(logged):
    source = Source()
    lake = logged(defaults={"targets": ["mirror"]})
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    lake.follow(source)
    lake = logged()
    table.update(1, v=5)
    bag.insert(n=2)
    lake.follow(source)
    found = audited(lake)
    assert (found["d.t"].compared, found["d.t"].differences) == (1, 0)
    assert "has not all of its table" in found["d.t"].note
    assert found["d.bag"].note.startswith("not compared: its log has not all of it")
    changed = DeltaTable(str(lake.path / "d" / "t"))
    changed.update({"v": "6"}, None, "id = 1")
    assert audited(lake, t=changed.version())["d.t"].examples == (("id=1", "differs"),)


def test_what_a_ddl_made_of_rows_is_in_no_log_and_not_held_against_it(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    lake.follow(source)
    table.add_column("c", "INT", default=7)
    table.modify_column("v", "BIGINT")
    table.insert(id=2, v=2**40)
    bag.add_column("c", "INT", default=7)
    bag.insert(n=2)
    lake.follow(source)
    found = audited(lake)
    assert (found["d.t"].compared, found["d.t"].differences) == (2, 0)
    assert found["d.t"].note == "1 rows compared in part, as a DDL came behind their change"
    assert found["d.bag"].note.startswith("not compared: a DDL came behind changes")


def test_behind_a_time_in_which_nobody_asked_for_it_only_what_came_since_is_compared(logged):
    lake, source = logged(), Source()
    rows = [{"id": n, "v": n} for n in range(5)]
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=rows)
    lake.follow(source)
    lake = logged(defaults={"targets": ["mirror"]})
    table.update(1, v=50)
    table.delete(2)
    lake.follow(source)
    lake = logged()
    table.update(3, v=70)
    table.delete(4)
    lake.follow(source)
    found = audited(lake)["d.t"]
    assert (found.compared, found.differences) == (1, 0)
    assert "3 rows not compared: what came of them since may be missing" in found.note
    changed = DeltaTable(str(lake.path / "d" / "t"))
    changed.update({"v": "6"}, None, "id = 3")
    assert audited(lake, t=changed.version())["d.t"].examples == (("id=3", "differs"),)


def test_a_row_that_stands_though_its_log_has_deleted_it_is_named(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    lake.follow(source)
    before = lake.batches.newest.tables["d.t"].version
    table.delete(1)
    lake.follow(source)
    assert audited(lake, t=before)["d.t"].examples == (("id=1", "deleted in the log"),)


def test_rows_of_before_another_key_are_not_compared(logged):
    lake, source = logged(), Source()
    rows = [{"a": 1, "b": 1}, {"a": 2, "b": 1}]
    table = source.table("d.t", {"a": "INT", "b": "INT"}, ["a"], rows=rows)
    lake.follow(source)
    table.update(1, b=2)
    table.key = ("a", "b")
    table._define("ALTER TABLE `d`.`t` DROP PRIMARY KEY, ADD PRIMARY KEY (`a`, `b`)")
    table.insert(a=1, b=7)
    lake.follow(source)
    found = audited(lake)["d.t"]
    assert (found.compared, found.differences) == (1, 0)
    assert "a DDL may have changed their key" in found.note


def test_where_every_row_was_passed_over_nothing_is_called_equal(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    lake.follow(source)
    table._define("ALTER TABLE `d`.`t` ADD INDEX (`v`)")
    lake.follow(source)
    lake.settle()
    changed = DeltaTable(str(lake.path / "d" / "t"))
    changed.delete("id = 1")
    (found,) = audited(lake, t=changed.version()).values()
    assert (found.compared, found.differences, found.is_compared) == (0, 0, False)
    assert found.note.startswith("not compared: 1 rows: what came of them since")


def test_where_a_log_names_no_row_that_is_there_nothing_is_called_equal(logged):
    source = Source()
    lake = logged(defaults={"targets": ["mirror"]})
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    lake.follow(source)
    lake = logged()
    table.delete(2)
    lake.follow(source)
    (found,) = audited(lake).values()
    assert (found.compared, found.differences, found.is_compared) == (0, 0, False)
    assert found.note.startswith("not compared: the log has not all of its table")
    table.delete(1)
    lake.follow(source)
    assert [one.is_compared for one in audited(lake).values()] == [True], "nothing is left there"


def test_what_upkeep_has_removed_and_what_cannot_be_read_stops_no_audit(filled):
    lake = filled[0]
    held = DeltaTable(str(lake.path / "d" / "t"))
    held.optimize.compact()
    held.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [one.differences for one in audited(lake).values()] == [0, 0]
    for file in DeltaTable(str(lake.path / "d" / "bag")).file_uris():
        Path(file).unlink()
    found = audited(lake)
    assert found["d.t"].differences == 0
    assert found["d.bag"].note.startswith("not compared: it cannot be read")


def test_where_a_policy_keeps_rows_that_the_log_has_truncated_nothing_is_compared(logged):
    lake = logged(tables={"d.t": {"ddl": {"truncate": "ignore"}}})
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    table.truncate()
    lake.follow(source)
    assert audited(lake)["d.t"].note.startswith(
        "not compared: the pipeline file has its rows outlive"
    )
