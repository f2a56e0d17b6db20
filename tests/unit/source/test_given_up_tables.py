"""What Debezium gives up, and what it has spoilt of others by then, is asked for again, each in its turn."""

import time

import pytest

from ingest.model.position import Position
from ingest.source import resync
from ingest.source.resync_request import Request
from tests.unit.source.wire import complete, said


@pytest.mark.parametrize("status", ["SQL_EXCEPTION", "SKIPPED", "UNKNOWN_SCHEMA", "NO_PRIMARY_KEY"])
def test_a_scan_that_failed_says_nothing_and_is_asked_for_again(wire, status, monkeypatch):
    both = "resync-a,resync-b"
    wire.look()
    wire.notifications = [said("TABLE_SCAN_COMPLETED", both, "d.a", status)]
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    assert (wire.sent, complete(wire)) == ([], []), "the other table is being read"
    wire.notifications = [said("TABLE_SCAN_COMPLETED", both, "d.b")]
    wire.look()
    spoilt = status == "SQL_EXCEPTION"  # that is read again first
    assert (wire.sent, complete(wire)) == ([] if spoilt else ["d.a"], ["d.b"])
    if spoilt:
        wire.done(next(one for one in wire.open() if one.table == "d.b"))
        wire.look()
    assert wire.sent == ["d.a"]
    wire.notifications = [said("STARTED", "resync-a")]
    wire.look()
    assert wire.sent == ["d.a"], "it is being read"


def test_nothing_is_sent_beside_one_that_was_sent_and_has_not_begun(wire):
    """Debezium calls all it does by the name of the newest: the older one would never be known to be over."""
    wire.add(Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 6), sent=time.time()))
    every = "resync-a,resync-b,resync-c"
    wire.notifications = [said("STARTED", every)]
    wire.look()
    wire.notifications = [
        said("TABLE_SCAN_COMPLETED", every, "d.a", "SQL_EXCEPTION"),
        said("TABLE_SCAN_COMPLETED", every, "d.b"),
        said("TABLE_SCAN_COMPLETED", every, "d.c"),
    ]
    wire.look()
    assert wire.sent == [], "it would spoil what is asked for anew as it has spoilt that"
    wire.done(next(one for one in wire.open() if one.table == "d.b"))
    wire.look()
    assert wire.sent == ["d.a"]
    wire.add(Request("resync-b2", "d.b", "INCREMENTAL", Position(0, 1, 9), sent=time.time()))
    wire.look()
    assert wire.sent == ["d.a"], "the other of the first signal is read, and not applied yet"


def test_what_a_table_that_was_given_up_has_spoilt_is_read_again_before_that_one_is_tried(
    wire, monkeypatch
):
    """Each by the timer; seen: tried in between, it spoilt every reading."""
    both = "resync-a,resync-b"
    wire.notifications = [
        said("STARTED", both),
        said("TABLE_SCAN_COMPLETED", both, "d.a", "SQL_EXCEPTION"),
        said("TABLE_SCAN_COMPLETED", both, "d.b"),
    ]
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    wire.done(next(one for one in wire.open() if one.table == "d.b"))
    wire.add(Request("resync-b2", "d.b", "INCREMENTAL", Position(0, 1, 9), sent=time.time()))
    wire.look()
    assert wire.sent == ["d.b"]
    anew = "resync-b2"
    wire.notifications = [said("STARTED", anew), said("TABLE_SCAN_COMPLETED", anew, "d.b")]
    wire.look()
    assert wire.sent == ["d.b", "d.a"]
    assert [one.id for one in wire.open() if wire.holds_other_rows(one)] == []


def test_one_that_is_never_read_keeps_no_other_away(wire, monkeypatch):
    """Its key is gone since it was asked for."""
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    both = "resync-a,resync-b"
    wire.notifications = [
        said("STARTED", both),
        said("TABLE_SCAN_COMPLETED", both, "d.a", "SQL_EXCEPTION"),
        said("TABLE_SCAN_COMPLETED", both, "d.b", "NO_PRIMARY_KEY"),
    ]
    for _ in range(4):
        wire.look()
        table = wire.sent[-1]
        one = table.replace("d.", "resync-")
        failed = {"d.a": "SQL_EXCEPTION", "d.b": "NO_PRIMARY_KEY"}[table]
        wire.notifications = [
            said("STARTED", one),
            said("TABLE_SCAN_COMPLETED", one, table, failed),
        ]
    assert {*wire.sent} == {"d.a", "d.b"}, wire.sent


def test_one_that_was_given_up_is_asked_for_alone(wire, monkeypatch):
    """Rows of it may stand among those that are read behind it in the same signal."""
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    both = "resync-a,resync-b"
    wire.notifications = [
        said("STARTED", both),
        said("TABLE_SCAN_COMPLETED", both, "d.a", "SQL_EXCEPTION"),
        said("TABLE_SCAN_COMPLETED", both, "d.b", "SQL_EXCEPTION"),
    ]
    for name in "cd":
        wire.add(Request(f"resync-{name}", f"d.{name}", "INCREMENTAL", Position(0, 1, 6)))
    wire.look()
    assert wire.sent == ["d.c d.d"]
    both = "resync-c,resync-d"
    done = [said("TABLE_SCAN_COMPLETED", both, table) for table in ("d.c", "d.d")]
    wire.notifications = [said("STARTED", both), *done]
    wire.look()
    for one in wire.open():
        if wire.is_complete(one):
            wire.done(one)
    for _ in range(3):  # neither is heard: each has its turn
        wire.look()
    assert wire.sent[1:] in (["d.a", "d.b", "d.a"], ["d.b", "d.a", "d.b"])
