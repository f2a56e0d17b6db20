"""A table's change log: each change once, in every lane, and folded it is the table."""

import shutil
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from ingest.batch import change_logs, micro_batch, side_by_side, table_applier
from ingest.batch.change_logs import ChangeLogs
from ingest.batch.micro_batch import Batches
from ingest.batch.side_by_side import Failures
from ingest.lake.delta import workspace
from ingest.model.errors import IngestError
from ingest.model.topics import TableId
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.conformance.targets import Crash, dying, eager_upkeep
from tests.support.change_log import folded, frozen, in_order, place, rows_of
from tests.support.lanes import LANES

COLUMNS = {"id": "INT", "v": "VARCHAR(9)", "amount": "DECIMAL(10,2)", "at": "DATETIME(3)"}
AT = datetime(2026, 1, 1, 0, 0, 0, 500_000)  # noqa: DTZ001 - a DATETIME has no zone
SOURCE = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["*.*"]}
LOGGED = {"defaults": {"targets": ["mirror", "change_log"]}}


@pytest.fixture
def opened(spark, tmp_path):
    """Makes a lake in the test's folder; again, as the next run does."""
    made = []

    def open_lake(**settings):
        if made:
            made[-1].close()
            settings["log"] = made[-1].log
        found = Lake(spark, tmp_path / "lake", **{**LOGGED, **settings})
        if made:
            found._followed = made[-1]._followed
        made.append(found)
        return found

    yield open_lake
    for one in made:
        one.close()


def log(lake, table="d.t"):
    return in_order(rows_of(lake.pipeline.change_log_path(TableId.parse(table))))


def operations(lake, table="d.t"):
    return [(row["operation"], row["origin"]) for row in log(lake, table)]


LONG = ("driver, merged by Spark", "tasks, rows that Spark folds")
"""Lanes in which nothing of a log is another than in those before them."""


@pytest.mark.parametrize(
    "lane",
    [pytest.param(one, marks=pytest.mark.long) if one in LONG else one for one in LANES],
)
def test_every_change_stands_in_it_once_with_both_images_whichever_lane_read_it(opened, lane):
    settings, _ = LANES[lane]
    lake, source = opened(spark=settings), Source()
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
    found = log(lake)
    assert [row["before"] and row["before"]["v"] for row in found[3:6]] == ["a1", "b", "a2"]
    assert [row["after"] and row["after"]["v"] for row in found[3:6]] == ["b", "c", None]
    assert found[2]["before"] is None
    assert [bool(row["transaction"]) for row in found] == [False] * 2 + [True] * 6
    assert all(row["committed_at"] for row in found)
    assert folded(found, ["id"]) == Counter(map(frozen, table.rows))
    assert_rows(lake.live(table), table.rows)


SOME = {"driver": {"lane": "driver"}, "kept in Spark": {"lane": "spark", "merge_engine": "spark"}}


@pytest.mark.parametrize("lane", SOME)
def test_ddl_and_truncate_are_rows_and_columns_only_come(opened, lane):
    lake, source = opened(spark=SOME[lane]), Source()
    table = source.table("d.t", {"id": "INT", "a": "INT", "b": "VARCHAR(9)"}, ["id"])
    table.insert(id=1, a=1, b="x")
    lake.follow(source)
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
    found = log(lake)
    assert [row["operation"] for row in found] == [
        *("insert", "schema", "update", "schema", "update", "schema", "update"),
        *("schema", "insert", "truncate", "insert"),
    ]
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


def test_what_comes_again_adds_nothing_under_whatever_checkpoint(opened):
    lake, source = opened(), Source()
    table = source.table("d.t", COLUMNS, ["id"], rows=[{"id": 1, "v": "a"}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}, {"n": 1}])
    table.update(1, v="b")
    bag.delete({"n": 1})
    lake.follow(source)
    before = {name: log(lake, name) for name in ("d.t", "d.bag")}
    lake.start(from_beginning=True)
    lake.apply(lake.log.ends())
    streamed = [one for one in source.log if b'"op":"r"' not in (one.value or b"")]
    lake.replay([one for one in streamed if one.topic in (table.topic, bag.topic)])
    assert {name: log(lake, name) for name in ("d.t", "d.bag")} == before
    assert folded(before["d.bag"]) == Counter(map(frozen, bag.rows))


def test_a_table_without_a_key_has_one_and_a_snapshot_that_brings_its_rows_again_says_so(opened):
    lake, source = opened(), Source()
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
    found = log(lake, "d.bag")
    assert folded(found) == Counter(map(frozen, bag.rows))
    assert [row["origin"] for row in found if row["operation"] == "read"].count("resync") == 2
    assert [row["operation"] for row in found].count("restart") == 1


def test_rows_that_a_snapshot_did_not_find_are_void_in_the_log(opened):
    lake, source = opened(), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    lake.follow(source)
    del table._rows[0]  # as by a foreign key's cascade, which no log has
    table.snapshot()
    table.insert(id=3)
    lake.follow(source)
    lake.settle()
    assert_rows(lake.live(table), table.rows)
    found = log(lake)
    assert [row["operation"] for row in found].count("void") == 1
    assert folded(found, ["id"]) == Counter(map(frozen, table.rows))


def test_what_waited_in_quarantine_comes_into_the_log_when_it_is_taken_in(opened):
    lake, source = opened(), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"])
    table.insert(id=1, v=1)
    lake.follow(source)
    table.update(1, v=2)
    (record,) = source.log[-1:]
    bad = replace(record, value=record.value.replace(b'"v":2', b'"v":"two"'))
    lake.replay([bad], quarantine=True)
    assert [row["operation"] for row in log(lake)] == ["insert"]


class TestWhereTheLogDoesNotGoOn:
    """It says so by a row, and never has a change twice."""

    def test_one_that_is_asked_for_later_begins_where_the_table_is(self, opened):
        source = Source()
        lake = opened(defaults={"targets": ["mirror"]})
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        lake = opened()
        table.insert(id=2)
        lake.follow(source)
        assert operations(lake) == [("begin", "stream"), ("insert", "stream")]

    def test_what_came_while_nobody_asked_for_it_is_missing_behind_a_mark(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"])
        table.insert(id=1)
        lake.follow(source)
        lake = opened(defaults={"targets": ["mirror"]})
        table.insert(id=2)
        lake.follow(source)
        lake = opened()
        table.insert(id=3)
        table.insert(id=4)
        lake.follow(source, batches=2)
        assert [row["operation"] for row in log(lake)] == ["insert", "begin", "insert", "insert"]
        assert [row["after"]["id"] for row in log(lake) if row["after"]] == [1, 3, 4]

    def test_one_that_is_gone_begins_anew_and_one_of_last_week_says_what_it_lacks(
        self, opened, tmp_path
    ):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"])
        table.insert(id=1)
        lake.follow(source)
        folder = Path(lake.pipeline.change_log_path(table.name))
        shutil.copytree(folder, tmp_path / "copy")
        table.insert(id=2)
        lake.follow(source)
        lake.close()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "copy", folder)
        lake.start()
        table.insert(id=3)
        lake.follow(source)
        assert [row["operation"] for row in log(lake)] == ["insert", "begin", "insert"]
        lake.close()
        shutil.rmtree(folder)
        lake.start()
        table.insert(id=4)
        lake.follow(source)
        assert [row["operation"] for row in log(lake)] == ["begin", "insert"]
        assert_rows(lake.live(table), table.rows)

    def test_a_table_that_goes_back_gets_its_changes_once_more_and_the_log_does_not(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
        lake.follow(source)
        for number in range(2, 6):
            table.insert(id=number)
            bag.insert(n=number)
            lake.follow(source)
        before = {name: log(lake, name) for name in ("d.t", "d.bag")}
        for one in (table, bag):
            lake._held(one).restore(2)
        lake.start()
        for size in (2, 5):  # what comes once more, in other batches
            lake.apply({place: min(end, size) for place, end in lake.log.ends().items()})
        assert {name: log(lake, name) for name in ("d.t", "d.bag")} == before
        table.insert(id=9)
        bag.insert(n=9)
        lake.follow(source)
        assert_rows(lake.live(table), table.rows)
        assert folded(log(lake), ["id"]) == Counter(map(frozen, table.rows))
        assert folded(log(lake, "d.bag")) == Counter(map(frozen, bag.rows))
        assert all(row["operation"] != "begin" for row in log(lake))

    def test_a_table_whose_folder_is_gone_is_filled_again_and_the_log_is_not(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        table.insert(id=2)
        lake.follow(source)
        before = log(lake)
        lake.close()
        shutil.rmtree(lake.pipeline.path(table.name))
        with patch.object(Batches, "ensure_tables"):  # a run looks at what is there first
            lake.start()
        table.insert(id=3)
        lake.follow(source)
        assert_rows(lake.live(table), table.rows)
        assert log(lake)[:-1] == before
        assert folded(log(lake), ["id"]) == Counter(map(frozen, table.rows))

    def test_another_writer_s_rows_in_it_make_its_table_stand_still_and_no_other(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        lake.close()
        path = lake.pipeline.change_log_path(table.name)
        lake.session.read.format("delta").load(path).write.format("delta").mode("append").save(path)
        lake.start()
        table.insert(id=2)
        other.insert(id=2)
        lake.follow(source)
        assert_rows(lake.live(other), other.rows)
        assert "the change log of d.t was changed by another writer" in lake.batches.newest.tables["d.t"].stopped  # fmt: skip


PLACES = (
    *("log_started", "log_committed", "table_committed", "files_written", "tables_committed"),
    *("manifest_committed", "offsets_committed"),
)
"""Where a batch is torn that has a change log. ``files_written`` is met first in the mirror."""


@contextmanager
def torn(place):
    """The job dies there."""
    with ExitStack() as patched:
        for module in (change_logs, micro_batch, side_by_side, table_applier, workspace):
            patched.enter_context(patch.object(module, "reached", dying(place)))
        yield


@pytest.mark.parametrize("engine", ["delta-rs", pytest.param("spark", marks=pytest.mark.long)])
def test_a_batch_that_is_torn_anywhere_twice_is_there_once(opened, engine):
    lake, source = opened(spark={"merge_engine": engine}), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    with eager_upkeep():
        lake.follow(source)
        for number, at in enumerate((*PLACES, *reversed(PLACES)), 2):
            table.insert(id=number, v=number)
            table.update(1, v=number)
            bag.update({"n": number - 1}, n=number)
            if number == 6:
                table.add_column("c", "INT")
                bag.insert(n=100 + number)
            for act in (lambda: lake.follow(source), lambda: lake.apply(lake.log.ends())):
                with suppress(Crash), torn(at):
                    act()
                lake.start()
            lake.apply(lake.log.ends())
    assert_rows(lake.live(table), table.rows)
    assert_rows(lake.live(bag), bag.rows)
    assert folded(log(lake), ["id"]) == Counter(map(frozen, table.rows))
    assert folded(log(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    for name in ("d.t", "d.bag"):
        found = [(*place(row), row["operation"]) for row in log(lake, name)]
        assert len(found) == len(set(found)), "none is there twice"


class TestWhatAReviewFound:
    """Each of them lost a change, had one twice, or stopped what it should not."""

    def test_a_row_before_an_update_that_fits_no_more_keeps_no_change_from_the_table(self, opened):
        columns = {"id": "INT", "d": "DATE", "v": "INT"}
        lake, source = opened(source={**SOURCE, "epoch_dates": "keep"}), Source()
        table = source.table("d.t", {**columns, "d": "DATE NOT NULL"}, ["id"])
        table.insert(id=1, d=date(1970, 1, 1), v=1)
        lake.follow(source)
        lake = opened(source={**SOURCE, "epoch_dates": "quarantine"})
        table.update(1, d=date(1980, 1, 1))
        lake.follow(source)
        assert_rows(lake.live(table), table.rows)
        (found,) = [row for row in log(lake) if row["operation"] == "update"]
        assert found["after"]["d"] == date(1980, 1, 1)
        assert found["before"] == {"id": 1, "d": date(1970, 1, 1), "v": 1}

    def test_a_torn_batch_that_is_finished_over_an_older_log_says_what_it_lacks(
        self, opened, tmp_path
    ):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"])
        folder = Path(lake.pipeline.change_log_path(table.name))
        for number in range(1, 5):
            table.insert(id=number)
            lake.follow(source)
            if number == 2:
                shutil.copytree(folder, tmp_path / "copy")
        table.insert(id=5)
        with suppress(Crash), torn("table_committed"):
            lake.follow(source)
        lake.close()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "copy", folder)
        lake.start()
        assert any("finishing batch" in one for one in lake.said)
        found = [(row["operation"], row["after"] and row["after"]["id"]) for row in log(lake)]
        assert found == [("insert", 1), ("insert", 2), ("begin", None), ("insert", 5)]

    def test_a_commit_of_a_log_that_is_cut_off_stops_its_table_alone(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        lake.close()
        newest = max(Path(lake.pipeline.change_log_path(table.name)).glob("_delta_log/*.json"))
        newest.write_bytes(newest.read_bytes()[:-40])
        lake.start()
        table.insert(id=2)
        other.insert(id=2)
        lake.follow(source)
        assert_rows(lake.live(other), other.rows)
        assert "the change log of d.t cannot be read" in lake.batches.newest.tables["d.t"].stopped
        shutil.rmtree(newest.parents[1])
        lake.start()
        lake.apply(lake.log.ends())
        assert_rows(lake.live(table), table.rows)
        assert [row["operation"] for row in log(lake)] == ["begin", "insert"]

    def test_a_table_that_is_called_as_another_one_s_log_stands_still_and_the_log_stays(
        self, opened
    ):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        before = log(lake)
        named = source.table("d.t__changes", {"id": "INT"}, ["id"])
        named.insert(id=7)
        lake.follow(source)
        lake.start()
        table.insert(id=2)
        lake.follow(source)
        assert log(lake)[:-1] == before
        assert_rows(lake.live(table), table.rows)

    def test_a_log_that_nobody_writes_any_more_is_nobody_s_trouble(self, opened):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        path = lake.pipeline.change_log_path(table.name)
        lake = opened(defaults={"targets": ["mirror"]})
        lake.session.read.format("delta").load(path).write.format("delta").mode("append").save(path)
        lake.start()
        table.insert(id=2)
        lake.follow(source)
        assert_rows(lake.live(table), table.rows)

    def test_what_an_append_only_table_ignores_is_in_its_log(self, opened):
        lake, source = opened(tables={"d.*": {"append_only": True}}), Source()
        bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}, {"n": 2}])
        bag.delete({"n": 1})
        bag.insert(n=3)
        lake.follow(source)
        assert folded(log(lake, "d.bag")) == Counter(map(frozen, bag.rows))
        assert lake.table(bag).count() == 3

    def test_a_batch_of_which_nothing_can_be_applied_is_no_gap(self, opened):
        lake, source = opened(), Source()
        table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"])
        table.insert(id=1, v=1)
        lake.follow(source)
        table.insert(id=2, v=7)
        bad = replace(source.log[-1], value=source.log[-1].value.replace(b'"v":7', b'"v":"x"'))
        lake._followed += 1
        lake.replay([bad], quarantine=True)
        lake.start()
        table.insert(id=3, v=3)
        lake.follow(source)
        assert [row["operation"] for row in log(lake)] == ["insert", "insert"]

    def test_a_table_that_stood_still_and_goes_on_gets_each_change_into_its_log_once(self, opened):
        lake, source = opened(), Source()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        lake.follow(source)
        table.insert(id=2)
        other.insert(id=2)
        real = ChangeLogs._state

        def failing(self, log, *held):
            if log.path.endswith("t__changes"):
                raise ValueError("behind the log's own commit")
            return real(self, log, *held)

        with patch.object(ChangeLogs, "_state", failing):
            for _ in range(2):
                with suppress(ValueError):
                    lake.apply(lake.log.ends()) if _ else lake.follow(source)
        assert lake.batches.newest.tables["d.t"].stopped
        lake.failures = Failures()
        lake.start()
        table.insert(id=3)
        lake.follow(source)
        assert_rows(lake.live(table), table.rows)
        assert [row["after"]["id"] for row in log(lake)] == [1, 2, 3]

    def test_a_definition_that_changes_no_column_is_in_force_in_every_lane(self, opened):
        lake, source = opened(), Source()
        table = source.table("d.t", {"id": "INT"}, ["id"])
        table.insert(id=1)
        table._define("ALTER TABLE `d`.`t` ADD INDEX (`id`)")
        table.insert(id=2)
        lake.follow(source)
        first, ddl, second = log(lake)
        assert ddl["operation"] == "schema"
        assert first["schema_version"] < ddl["schema_version"] == second["schema_version"]

    def test_a_table_that_is_called_like_a_log_is_looked_at_where_nobody_has_one(self, opened):
        source, lake = Source(), opened(defaults={"targets": ["mirror"]})
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        named = source.table("d.t__changes", {"id": "INT"}, ["id"], rows=[{"id": 7}])
        lake.follow(source)
        lake.close()
        shutil.rmtree(lake.pipeline.path(named.name))
        with patch.object(Batches, "ensure_tables"):
            lake.start()
        lake.apply(lake.log.ends())
        assert_rows(lake.live(named), named.rows)
        assert_rows(lake.live(table), table.rows)

    def test_a_stranger_s_table_in_a_log_s_place_stops_its_table_alone_and_is_not_touched(
        self, opened
    ):
        source, lake = Source(), opened()
        table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        path = lake.pipeline.change_log_path(table.name)
        lake.session.range(3).write.format("delta").save(path)
        for number in (2, 3, 4):
            other.insert(id=number)
            table.insert(id=number)
            with suppress(IngestError):
                lake.follow(source)
            lake.start()
        assert_rows(lake.live(other), other.rows)
        assert DeltaTable(path).version() == 0
        assert DeltaTable(path).count() == 3

    def test_an_update_that_an_append_only_table_refuses_is_not_in_its_log(self, opened):
        lake, source = opened(tables={"d.*": {"append_only": True}}), Source()
        bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
        bag.update({"n": 1}, n=2)
        lake.follow(source, quarantine=True)
        lake.start()
        assert [row["operation"] for row in log(lake, "d.bag")] == ["read"]
