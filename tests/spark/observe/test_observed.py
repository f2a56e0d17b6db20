"""What a run tells machines of real batches: counts that are right, and no value of the rows that went through."""

import json

import pytest

from ingest.model.position import Position
from ingest.observe.event_log import EventLog
from ingest.observe.observer import Observer
from ingest.sample import values
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import delete, insert, update
from tests.conformance.targets import SparkTarget
from tests.spark.lake.test_held_back import unreadable

SECRET = next(
    value.json
    for value in values.values("VARCHAR(40)")
    if isinstance(value.json, str) and len(value.json) >= 8 and value.json.isprintable()
)


class Watched:
    """A table of a lake, fed batch by batch, and an observer of it."""

    def __init__(self, session, folder, **more):
        self.history = History(keyed=True, partitions=1, records=[[]])
        self.history.snapshots = [Position(0, 1, 5)]
        self.target = SparkTarget(session, folder, self.history, **more)
        self.log = folder / "events.jsonl"
        self.observer = Observer("h", str(self.target.path), term=1, log=EventLog(self.log, "json"))
        self.target.batches._tell = self.observer.published

    def take(self, *changes):
        self.history.records[0] += [Record(each, 0, each.position.pos) for each in changes]
        self.target.take({0: [len(self.history.records[0])]})

    def told(self):
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("engine", "reader"), [("auto", "driver"), ("spark", "columns")])
def test_batches_are_told_with_who_read_and_who_merged_and_never_with_what(
    spark, tmp_path, engine, reader
):
    watched = Watched(spark, tmp_path, spark={"merge_engine": engine})
    try:
        watched.take(insert(10, 1, SECRET), insert(11, 2, "b"))
        assert any(dict(row)["v"] == SECRET for row in watched.target.content())
        watched.take(update(20, 1, SECRET, "c"), delete(21, 2, "b"))
        newest = watched.target.batches.newest
    finally:
        watched.target.remove()
    totals = watched.observer.totals
    assert totals.failures == 0
    assert totals.changes["taken"] == totals.by_table["d.t0"] == totals.by_reader[reader] == 4
    assert totals.versions["d.t0"] == newest.tables["d.t0"].version + 1
    lines = watched.told()
    assert [
        (one["batch"], one["changes"]) for one in lines if one["event"] == "batch_published"
    ] == [
        (1, 2),
        (2, 2),
    ]
    applied = [one for one in lines if one["event"] == "table_applied"]
    assert {(one["table"], one["reader"]) for one in applied} == {("d.t0", reader)}
    assert all(one["why"] for one in applied)
    assert SECRET not in json.dumps(lines, ensure_ascii=False)


def test_quarantine_and_replay_are_told_in_numbers(spark, tmp_path):
    watched = Watched(spark, tmp_path)
    try:
        with unreadable():
            watched.take(insert(10, 1, "bad"), insert(11, 2, SECRET))
        watched.target.start()
        watched.target.batches._tell = watched.observer.published
        watched.target.batches.replay()
    finally:
        watched.target.remove()
    totals, lines = watched.observer.totals, watched.told()
    assert totals.changes["quarantined"] == 1
    assert totals.batches == {"batch": 1, "replay": 1}
    (held,) = [one for one in lines if one["event"] == "changes_quarantined"]
    assert (held["batch"], held["changes"]) == (1, 1)
    assert SECRET not in json.dumps(lines, ensure_ascii=False)
