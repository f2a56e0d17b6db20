"""Days that a change log does not keep go, whole and from its beginning; who reads on from it misses nothing."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from deltalake import DeltaTable

from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.maintenance import schedule
from ingest.maintenance.compaction import compact, files
from ingest.maintenance.file_layout import Rewrite
from ingest.schema.change_log import BEGINS_PROPERTY
from ingest.testing.frames import assert_rows
from ingest.testing.source import Source
from tests.spark.batch.test_change_log_readers import Reader
from tests.support.change_log import log_of

NOON = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=0)
KEEPS = {"defaults": {"targets": ["mirror", "change_log"], "change_log_days": 2}}


def days_ago(days):
    return NOON - timedelta(days=days)


@pytest.fixture
def source():
    made = Source()
    made.now = days_ago(9)
    return made


@pytest.fixture
def table(source):
    return source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 0, "v": 0}])


def filled(lake, table, days):
    """A batch for each of these days, with a row of that number; the snapshot is nine days old."""
    lake.follow(table.source)
    for day in days:
        table.source.now = days_ago(day)
        table.insert(id=day, v=day)
        lake.follow(table.source)


def a_batch_more(lake, table, number):
    """After which upkeep is done, and what it did before is told."""
    table.source.now = NOON
    table.insert(id=number, v=number)
    lake.follow(table.source)


def put_together(lake, table):
    """All files of the log as one."""
    at = within_reach(SparkTable(lake.session, path_of(lake, table)), str(lake.path), lake.term)
    held = files(at, None)
    assert compact(at, Rewrite(tuple(held), 1000, orders=False), [])


def path_of(lake, table):
    return lake.pipeline.change_log_path(table.name)


def ids(lake):
    return [(row["operation"], row["after"] and row["after"]["id"]) for row in log_of(lake)]


def told(lake):
    return [str(one) for report in lake.seen for one in report.upkeep if one.what == "forgotten"]


@pytest.mark.parametrize("in_one_file", [False, True])
def test_days_that_are_not_kept_go_and_the_table_stays_as_it_is(logged, source, table, in_one_file):
    lake = logged()
    filled(lake, table, [8, 3, 2, 1])
    if in_one_file:
        put_together(lake, table)
    before = DeltaTable(path_of(lake, table)).version()
    lake = logged(**KEEPS)
    for number in (100, 101, 102):
        a_batch_more(lake, table, number)
    assert ids(lake) == [("insert", one) for one in (2, 1, 100, 101, 102)]
    (said,) = told(lake)
    assert "3 changes before" in said
    log = DeltaTable(path_of(lake, table))
    begins = json.loads(log.metadata().configuration[BEGINS_PROPERTY])
    assert begins["day"] == days_ago(2).date().isoformat()
    assert begins["batch"] == min(row["batch_id"] for row in log_of(lake))
    assert_rows(lake.live(table).drop("_ingest"), table.rows)
    old = lake.session.read.format("delta").option("versionAsOf", before)
    assert old.load(path_of(lake, table)).count() == 5, "until vacuum, as after any commit"
    lake.start()
    a_batch_more(lake, table, 103)
    assert ids(lake)[-1] == ("insert", 103)
    assert len(told(lake)) == 1, "nothing of it is old"


def test_a_stream_that_reads_the_log_goes_on_with_one_option_and_misses_nothing(
    logged, source, table, tmp_path
):
    lake = logged()
    filled(lake, table, [8, 1])
    put_together(lake, table)
    reader = Reader(lake, table, tmp_path, ignoreDeletes="true")
    reader.drain()
    lake = logged(**KEEPS)
    for number in (100, 101, 102):
        a_batch_more(lake, table, number)
    assert told(lake)
    reader.drain()
    assert reader.seen == [("read", 0), *(("insert", one) for one in (8, 1, 100, 101, 102))]
    later = Reader(lake, table, tmp_path / "later")
    later.drain()
    assert later.seen == [("insert", one) for one in (1, 100, 101, 102)]


@pytest.mark.long
def test_a_log_that_nothing_comes_to_is_left_as_it_is(logged, source, table):
    busy = source.table("d.busy", {"id": "INT", "v": "INT"}, ["id"])
    lake = logged()
    filled(lake, table, [8, 3])
    before = DeltaTable(path_of(lake, table)).version()
    lake = logged(**KEEPS)
    for number in (100, 101, 102):
        a_batch_more(lake, busy, number)
    assert DeltaTable(path_of(lake, table)).version() == before
    for number in (103, 104):
        a_batch_more(lake, table, number)
    assert ids(lake) == [("insert", 103), ("insert", 104)]


@pytest.mark.long
def test_a_clock_that_is_ahead_empties_no_log(logged, source, table, monkeypatch):
    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=4000)

    monkeypatch.setattr(schedule, "datetime", Ahead)
    lake = logged(**KEEPS)
    filled(lake, table, [2, 1])
    a_batch_more(lake, table, 100)
    assert ids(lake)[-3:] == [("insert", 2), ("insert", 1), ("insert", 100)]


@pytest.mark.long
def test_what_has_no_time_goes_only_with_an_older_change_behind_it(logged, source, table):
    lake = logged()
    filled(lake, table, [8])
    table.truncate()
    lake.follow(source)
    lake = logged(**KEEPS)
    for number in (100, 101):
        a_batch_more(lake, table, number)
    assert ids(lake) == [("truncate", None), ("insert", 100), ("insert", 101)]


@pytest.mark.long
def test_a_late_change_keeps_what_was_written_behind_the_days_that_stay(logged, source, table):
    lake = logged()
    filled(lake, table, [8, 1, 7])  # as one that has waited in quarantine
    lake = logged(**KEEPS)
    for number in (100, 101):
        a_batch_more(lake, table, number)
    assert ids(lake) == [("insert", one) for one in (1, 7, 100, 101)]


@pytest.mark.long
def test_without_a_number_of_days_nothing_goes_and_a_table_of_its_own_number_has_that(
    logged, source, table
):
    lake = logged(**KEEPS, tables={"d.t": {"change_log_days": 0}})
    filled(lake, table, [8, 1])
    a_batch_more(lake, table, 100)
    assert ids(lake) == [("read", 0), ("insert", 8), ("insert", 1), ("insert", 100)]
    assert told(lake) == []


@pytest.mark.long
def test_a_kill_between_cutting_files_in_two_and_removing_them_leaves_the_rest_to_the_next_job(
    logged, source, table, monkeypatch
):
    lake = logged()
    filled(lake, table, [8, 1])
    put_together(lake, table)
    lake = logged(**KEEPS)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(schedule.Maintenance, "_removed", dies)
        a_batch_more(lake, table, 100)
        with pytest.raises(KeyboardInterrupt):
            a_batch_more(lake, table, 101)
    assert ids(lake)[:3] == [("read", 0), ("insert", 8), ("insert", 1)]
    lake.start()
    for number in (102, 103):
        a_batch_more(lake, table, number)
    assert ids(lake)[0] == ("insert", 1)
    assert_rows(lake.live(table).drop("_ingest"), table.rows)
