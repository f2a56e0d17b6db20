"""Plain changes read in the driver, in Spark's tasks, or by Spark's columns: the table is the source's, whatever happens to it."""

import os
import random
import signal
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from ingest.arrow import folded_pieces
from ingest.batch import task_reader
from ingest.batch.parts import Part, Parts
from ingest.model import offset_ranges
from ingest.model.reasons import NO_TASK, NOT_FETCHED
from ingest.model.topics import TableId
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.support.lanes import LANES, each

SEED = 7


@pytest.fixture(params=each(long=["driver, merged by Spark", "tasks, rows to the driver"]))
def lane(spark, tmp_path, request, monkeypatch):
    settings, name = LANES[request.param]
    if request.param == "tasks, rows that Spark folds":
        monkeypatch.setattr(folded_pieces, "FEW", 0)
    lake = Lake(spark, tmp_path / "lake", spark=settings)
    yield lake, name
    lake.close()


def lanes_of(reports):
    return {name for one in reports for name in one.entry.lanes}


def test_columns_come_go_and_come_again_in_one_batch_and_no_change_is_read_another_way(lane):
    lake, name = lane
    source = Source()
    table = source.table(
        "d.t", {"id": "INT", "v": "VARCHAR(9)"}, ["id"], rows=[{"id": 1, "v": "a"}]
    )
    table.insert(id=2, v="b")
    table.add_column("n", "INT")
    table.update(1, n=7)
    table.drop_column("v")
    table.insert(id=3, n=8)
    table.add_column("v", "VARCHAR(9)")
    table.insert(id=4, n=9, v="again")
    table.delete(2)
    other = source.table("d.u", {"id": "INT"}, ["id"])
    other.insert(id=1)
    reports = lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    assert_rows(lake.table(other), other.rows)
    assert lanes_of(reports) == {name}
    assert sum(reports[-1].entry.lanes.values()) == reports[-1].entry.changes == 7


def test_a_truncate_between_two_changes_of_one_key_removes_only_what_stands_before_it(lane):
    lake, name = lane
    source = Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 9, "v": 0}])
    table.insert(id=1, v=1)
    table.insert(id=2, v=2)
    table.truncate()
    table.insert(id=1, v=3)
    table.truncate()
    table.insert(id=2, v=4)
    reports = lake.follow(source)
    assert_rows(lake.table(table), [{"id": 2, "v": 4}])
    assert lanes_of(reports) == {name}


def test_rows_of_any_kind_are_appended_to_an_empty_table_and_behind_a_full_one(lane):
    """Where no file can hold a key Spark makes an append of a MERGE, which casts no value by itself."""
    lake, name = lane
    source = Source()
    kinds = {"id": "BIGINT", "at": "DATETIME(6)", "seen": "TIMESTAMP(6)", "on": "DATE", "cost": "DECIMAL(20,4)",
             "rate": "DOUBLE", "raw": "VARBINARY(9)", "yes": "BIT(1)", "much": "BIGINT UNSIGNED"}  # fmt: skip
    table = source.table("d.t", kinds, ["id"])
    moment = datetime.fromisoformat("1969-12-31T23:59:59.999999")

    def insert(key):
        zoned = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)
        table.insert(id=key, at=moment, seen=zoned, on=date(1, 1, 1), cost=Decimal("-0.5000"),
                     rate=0.0, raw=b"\xff\x00", yes=True, much=2**64 - 1)  # fmt: skip

    insert(1)
    table.insert(id=2)
    reports = lake.follow(source)
    insert(3)
    reports += lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    assert lanes_of(reports) == {name}
    made = DeltaTable(lake.pipeline.path(TableId("d", "t"))).history()
    appends = [one["operation"] for one in made].count("WRITE")
    assert appends == (1 if name == "columns" else 2), "of the columns' rows no key is known before"


def test_any_statements_in_any_batches_leave_the_rows_of_the_source(lane):
    lake, name = lane
    drawn, source = random.Random(SEED), Source()
    tables = [
        source.table(f"d.t{n}", {"id": "INT", "v": "VARCHAR(9)"}, ["id"], rows=[{"id": 0}])
        for n in range(2)
    ]
    for turn in range(80):
        table = drawn.choice(tables)
        extra = [one for one in table.columns if one not in ("id", "v")]
        key = drawn.randrange(12)
        act = drawn.choices(
            ["write", "delete", "truncate", "add", "drop"], [60, 20, 2, 2, 2 if extra else 0]
        )[0]
        if act == "truncate":
            table.truncate()
        elif act == "add":
            table.add_column(f"c{turn}", drawn.choice(["INT", "DATE", "VARCHAR(5)"]))
        elif act == "drop":
            table.drop_column(drawn.choice(extra))
        elif not table.has(key):
            table.insert(id=key, v=drawn.choice(["a", "\u2028", 'x"y\\', None]))
        elif act == "delete":
            table.delete(key)
        else:
            table.update(key, v=f"{turn}")
    reports = lake.follow(source, batches=2)
    for table in tables:
        assert_rows(lake.table(table), table.rows)
    assert lanes_of(reports) == {name}


def tasks_of(lake, before, monkeypatch):
    """Have Spark's tasks call ``before`` with a share's ranges before they read it."""
    source = lake.log.source

    def asked(ranges, keyed=()):
        brought = source(ranges, keyed)

        def bring(ranges, enough):
            before(ranges)
            return brought(ranges, enough)

        return bring

    monkeypatch.setattr(lake.log, "source", asked)


@pytest.fixture
def filled(spark, tmp_path):
    lake, source = Lake(spark, tmp_path / "lake", spark={"lane": "spark"}), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"])
    for number in range(40):
        table.insert(id=number, v=number)
    yield lake, source, table
    lake.close()


def test_a_python_worker_that_is_killed_in_the_middle_is_begun_anew(filled, tmp_path, monkeypatch):
    lake, source, table = filled
    killed = tmp_path / "killed"

    def kill(_):
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    tasks_of(lake, kill, monkeypatch)
    reports = lake.follow(source)
    assert killed.exists()
    assert_rows(lake.table(table), table.rows)
    assert lanes_of(reports) == {"tasks"}


def test_each_record_is_read_by_one_task_and_there_are_as_many_as_cores(
    filled, tmp_path, monkeypatch
):
    lake, source, _ = filled
    said = tmp_path / "said"

    def say(ranges):
        with said.open("a") as text:
            text.writelines(f"{start} {end}\n" for start, end in ranges.values())

    tasks_of(lake, say, monkeypatch)
    (report,) = lake.follow(source)
    ranges = sorted(tuple(map(int, line.split())) for line in said.read_text().splitlines())
    assert ranges == [(0, 20), (20, 40)]
    assert report.entry.lanes == {"tasks": 40}


@pytest.mark.parametrize("failure", ["FetchError", "ModuleNotFoundError"])
def test_what_tasks_cannot_read_is_asked_of_sparks_columns(filled, monkeypatch, failure):
    lake, source, table = filled

    def fail(_):
        from ingest.kafka.fetch import FetchError

        known = {"FetchError": FetchError, "ModuleNotFoundError": ModuleNotFoundError}
        raise known[failure]("nobody answers")

    tasks_of(lake, fail, monkeypatch)
    (report,) = lake.follow(source)
    assert report.entry.lanes == {"columns": 40}
    why = report.entry.tables["d.t"].engine
    said = {
        "FetchError": NOT_FETCHED.of(words="nobody answers"),
        "ModuleNotFoundError": NO_TASK.of(),
    }
    assert why.endswith(said[failure])
    assert_rows(lake.table(table), table.rows)


def test_a_batch_that_has_to_be_whole_is_read_by_columns_where_it_is_too_large(filled, monkeypatch):
    lake, source, table = filled
    monkeypatch.setattr(task_reader, "MAX_BYTES", 100)
    monkeypatch.setattr(Parts, "next", whole)
    source_of = lake.log.source
    monkeypatch.setattr(lake.log, "source", lambda *asked: one_by_one(source_of(*asked)))
    (report,) = lake.follow(source)
    assert report.entry.lanes == {"columns": 40}
    assert_rows(lake.table(table), table.rows)


def whole(parts, newest, ranges, *, exact):
    """A part that must not end early, as one that finishes a torn batch."""
    del exact
    left = offset_ranges.left(newest, ranges)
    return Part(left) if offset_ranges.filled(left) else None


def one_by_one(brought):
    """The same records, each alone, as long as there are not enough."""

    def bring(ranges, enough):
        for place, (start, end) in ranges.items():
            for at in range(start, end):
                if enough.is_set():
                    return
                yield from brought({place: (at, at + 1)}, enough)

    return bring


def test_a_batch_ends_where_its_rows_are_enough_and_the_next_one_goes_on_there(
    spark, tmp_path, monkeypatch
):
    settings = {"lane": "spark", "max_megabytes_per_batch": 1}
    lake, source = Lake(spark, tmp_path / "lake", spark=settings), Source()
    large = source.table("d.large", {"id": "INT", "v": "LONGTEXT"}, ["id"])
    small = source.table("d.small", {"id": "INT"}, ["id"])
    source_of = lake.log.source
    monkeypatch.setattr(lake.log, "source", lambda *asked: one_by_one(source_of(*asked)))
    for number in range(9):
        large.insert(id=number, v=f"{number}" * 400_000)
        small.insert(id=number)
    reports = lake.follow(source)
    ends = [one.entry.ends["p.d.large", 0] for one in lake.seen]
    assert len(reports) > 1
    assert ends == sorted({*ends})
    assert ends[-1] == 9
    assert lanes_of(reports) == {"tasks"}
    assert_rows(lake.table(large), large.rows)
    assert_rows(lake.table(small), small.rows)
    lake.close()


def test_of_a_topic_of_two_partitions_nothing_behind_a_gap_is_applied(spark, tmp_path, monkeypatch):
    """One share may have the end of the first and the beginning of the second."""
    settings = {"lane": "spark", "max_megabytes_per_batch": 1}
    lake, source = Lake(spark, tmp_path / "lake", spark=settings), Source()
    table = source.table("d.t", {"id": "INT", "v": "LONGTEXT"}, ["id"])
    for number in range(14):
        table.insert(id=number, v=f"{number}" * 300_000)
    records = [
        replace(one, partition=number % 7 // 5) if one.topic != "p" else one
        for number, one in enumerate(source.log)
    ]
    source_of = lake.log.source
    monkeypatch.setattr(lake.log, "source", lambda *asked: one_by_one(source_of(*asked)))
    reports = lake.replay(records)
    assert lanes_of(reports) == {"tasks"}
    assert len(lake.seen) > 1
    path = lake.seen[0].entry.tables["d.t"].path
    for entry in (one.entry for one in lake.seen):
        rows = DeltaTable(path, version=entry.tables["d.t"].version).to_pyarrow_table()
        assert rows.num_rows == sum(entry.ends.values()), "each record is a row"
    assert_rows(lake.table(table), table.rows)
    lake.close()


def test_a_topic_with_an_odd_record_is_read_by_columns_and_no_other(filled):
    lake, source, table = filled
    other = source.table("d.other", {"id": "INT", "day": "DATE NOT NULL"}, ["id"])
    other.insert(id=1, day=date(1970, 1, 1))
    (report,) = lake.follow(source, quarantine=True)
    assert report.entry.lanes == {"tasks": 40, "columns": 1}
    assert report.entry.rejects == 1
    assert_rows(lake.table(table), table.rows)
