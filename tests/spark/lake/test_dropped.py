"""Changes in quarantine that a person gives up: they wait no longer, nothing waits behind them, and a mark stays."""

from itertools import product
from unittest.mock import patch

import pytest

from ingest.batch import dropping
from ingest.changes import quarantine_rows
from ingest.lake.quarantine.waiting_list import records
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop
from tests.conformance.scenarios import insert, update
from tests.conformance.targets import Crash, dying
from tests.spark.lake.test_held_back import Lake, unreadable

AT, DAY = Position(0, 1, 500), "2026-01-31"


@pytest.fixture
def lake(spark, tmp_path):
    """Of key 1 a change that cannot be read and one that waits behind it; of key 2 one that cannot be read."""
    found = Lake(spark, tmp_path)
    with unreadable():
        found.take(
            insert(10, 1, "a"),
            update(11, 1, "a", "bad"),
            update(12, 1, "a", "c"),
            insert(13, 2, "bad"),
        )
        assert (found.rows(), found.waiting()) == ([(1, "a")], 3)
        yield found
    found.target.remove()


def chosen(lake, **more):
    newest = lake.target.batches.newest
    return Drop("d.t0", newest.batch_id, DAY, **{"reason": "the decoder", "at": AT, **more})


def first_of(lake):
    return min(one.offset for one in records(str(lake.target.path)))


def test_what_is_dropped_waits_no_longer_what_waited_behind_it_goes_on_and_a_mark_stays(lake):
    batches, at = lake.target.batches, first_of(lake)
    assert batches.drop(chosen(lake, last=at)) == 1
    newest = batches.newest
    assert newest.kind == "drop"
    (gap,) = newest.gaps
    assert (gap.table, gap.start, gap.end) == ("d.t0", at, at + 1)
    assert (gap.since, gap.position, gap.by_hand) == (newest.batch_id, AT, True)
    assert gap.reason.endswith("changes: 1")
    (dropped,) = records(str(lake.target.path), dropped=True)
    assert (dropped.offset, dropped.settled) == (at, -newest.batch_id)
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(1, "c")], 1)
    lake.target.start()
    assert lake.target.batches.newest.gaps == (gap,)
    assert (lake.rows(), lake.waiting()) == ([(1, "c")], 1)


def test_a_drop_of_nothing_commits_nothing_and_the_next_batch_s_changes_still_go_to_quarantine(
    lake,
):
    """Its number goes to that batch, whose part would be taken for committed were it noted anywhere."""
    batches = lake.target.batches
    before = batches.newest.batch_id
    assert batches.drop(chosen(lake, first=10**6)) == 0
    assert batches.newest.batch_id == before
    lake.take(insert(20, 3, "bad"))
    assert (batches.newest.batch_id, lake.waiting()) == (before + 1, 4)


def test_a_drop_that_a_crash_tore_is_finished_by_the_next_start(lake):
    at = first_of(lake)
    with (
        patch.object(dropping, "reached", dying("quarantine_committed")),
        pytest.raises(Crash),
    ):
        lake.target.batches.drop(chosen(lake, last=at))
    before = lake.target.batches.newest
    assert before.gaps == ()
    lake.target.start()
    newest = lake.target.batches.newest
    assert (newest.kind, newest.batch_id) == ("drop", before.batch_id + 1)
    (gap,) = newest.gaps
    assert (gap.table, gap.start, gap.position) == ("d.t0", at, AT)
    lake.take(insert(20, 3, "d"))
    assert (3, "d") in lake.rows()


def test_spark_takes_the_very_records_that_were_shown(spark):
    tables, reasons = [("d", "t"), ("d", "u"), (None, None)], ["odd", "odder", "waits"]
    rows = [
        (batch, why, *table, f"p.d.{table[1] or 'x'}", part, offset, *[None] * 4, settled)
        for batch, why, table, part, offset, settled in product(
            (4, 6), reasons, tables, (0, 1), (3, 5), (None, 5, -5)
        )
    ]
    held = spark.createDataFrame(rows, quarantine_rows.SCHEMA).cache()
    for drop in (
        Drop("d.t", 9, DAY),
        Drop("d.t", 5, DAY, reason="odd"),
        Drop("p.d.x", 9, DAY, partition=1),
        Drop("d.u", 9, DAY, first=4, last=5),
        Drop("d.u", 9, DAY, last=4),
        Drop("p.d.t", 9, DAY),
    ):
        found = held.filter(quarantine_rows.chosen(drop)).collect()
        wanted = [
            row
            for row in rows
            if row[-1] is None
            and drop.takes(f"d.{row[3]}" if row[3] else row[4], row[5], row[6], row[1], row[0])
        ]
        assert sorted(map(str, map(tuple, found))) == sorted(map(str, wanted))
    held.unpersist()
