"""Of tables without a key a blocking snapshot is asked for: what counts as one, and what waits for it."""

import time

import pytest

from ingest.model.position import Position
from ingest.source import resync
from ingest.source.resync_request import Request
from tests.unit.source.wire import INITIAL, blocking_one, complete, said


def test_a_blocking_snapshot_counts_from_when_it_was_asked_for(tmp_path, wire, monkeypatch):
    for one in wire.open():
        wire.done(one)
    initial = "Initial Snapshot"
    before = [
        said("STARTED", "x", by=initial),
        said("TABLE_SCAN_COMPLETED", "y", "d.c", by=initial),
        said("COMPLETED", "x", by=initial),
    ]
    asked = Request("resync-c", "d.c", "BLOCKING", Position(0, 1, 9), heard=3, sent=time.time())
    wire.add(asked)
    wire.notifications = before
    wire.look()
    assert (complete(wire), wire.sent) == ([], [])
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    assert wire.sent == ["d.c"], "nothing has begun since: the connector did not hear it"
    wire.notifications = [
        said("STARTED", "x", by=initial),
        said("TABLE_SCAN_COMPLETED", "y", "d.c", "EMPTY", by=initial),
    ]
    wire.look()
    wire.look()
    assert (complete(wire), wire.sent) == (["d.c"], ["d.c"])
    assert wire.was_empty(asked)


@pytest.mark.parametrize("ended", ["ABORTED", "COMPLETED", "SKIPPED"])
def test_a_blocking_snapshot_that_ended_without_the_table_is_asked_for_again(
    wire, monkeypatch, ended
):
    """Debezium gave it up, or what ended was another one and ours was lost."""
    for one in wire.open():
        wire.done(one)
    blocking_one(wire)
    wire.notifications = [said("STARTED", "x", by=INITIAL)]
    wire.look()
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    assert wire.sent == [], "it is being read"
    wire.notifications = [said(ended, "x", by=INITIAL)]
    wire.look()
    assert (complete(wire), wire.sent) == ([], ["d.c"])


def test_the_next_blocking_snapshot_is_given_time_to_begin(wire, monkeypatch):
    for one in wire.open():
        wire.done(one)
    blocking_one(wire)
    now = [0.0]
    monkeypatch.setattr(resync.time, "monotonic", lambda: now[0])
    wire.look()
    wire.notifications = [said("STARTED", "x", by=INITIAL)]
    wire.look()
    now[0] = 10 * resync.SEND_AGAIN_AFTER
    wire.notifications = [said("COMPLETED", "x", by=INITIAL)]
    wire.look()
    assert wire.sent == []
    now[0] += resync.SEND_AGAIN_AFTER + 1
    wire.look()
    assert wire.sent == ["d.c"]


def test_incremental_snapshots_are_not_sent_again_while_a_blocking_one_is_open(wire, monkeypatch):
    """One connection of Debezium's reads both: where they begin together one of them is given up."""
    blocking_one(wire)
    wire.look()
    wire.notifications = [said("STARTED", "x", by=INITIAL)]
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    assert wire.sent == []
    wire.notifications = [
        said("TABLE_SCAN_COMPLETED", "y", "d.c", by=INITIAL),
        said("COMPLETED", "x", by=INITIAL),
    ]
    wire.look()
    assert (complete(wire), wire.sent) == (["d.c"], ["d.a d.b"])
