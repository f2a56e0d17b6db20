"""A table whose definition the connector does not know: that is read first, its rows then."""

import time
from dataclasses import replace

from ingest.model.position import Position
from ingest.source.resync_request import Request
from tests.unit.source.wire import FILE, INITIAL, Wire, complete, said


def untold(wire, **more):
    """One table that has joined later: the connector does not know its definition."""
    for one in wire.open():
        wire.done(one)
    one = Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 9), untold=True, **more)
    wire.add(one)
    return one


def test_a_table_s_rows_are_asked_for_once_its_definition_is_read(wire):
    untold(wire, heard=1, sent=time.time())
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "before", "d.c", by=INITIAL)]
    (one,) = wire.look()
    assert (one.untold, one.blocks, wire.sent) == (True, True, []), (
        "that was before it was asked for"
    )
    wire.notifications = [
        said("STARTED", "x", by=INITIAL),
        said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL),
        said("COMPLETED", "x", by=INITIAL),
    ]
    (one,) = wire.look()
    assert (one.untold, one.blocks, wire.sent) == (False, False, [FILE, "d.c"])
    assert not wire.is_complete(one), "no row of it was read"
    assert wire.open() == [replace(one, sent=wire.open()[0].sent)], "kept for the next run"
    wire.look()
    assert wire.sent == [FILE, "d.c"]
    wire.notifications = [
        said("STARTED", "resync-c"),
        said("TABLE_SCAN_COMPLETED", "resync-c", "d.c"),
    ]
    wire.look()
    assert complete(wire) == ["d.c"]


def test_a_definition_that_was_read_before_a_crash_is_not_read_again(wire):
    untold(wire, heard=0, sent=time.time())
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL)]
    after = Wire(
        wire.pipeline
    )  # nothing of it was kept; the notifications are read from their beginning
    after.notifications = list(wire.notifications)
    (one,) = after.look()
    assert (one.untold, after.sent) == (False, [FILE, "d.c"])


def test_no_rows_are_asked_for_while_a_definition_is_read(wire):
    untold(wire, heard=0, sent=time.time())
    wire.add(Request("resync-d", "d.d", "INCREMENTAL", Position(0, 1, 9)))
    wire.look()
    assert wire.sent == []
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL)]
    wire.look()
    assert wire.sent == [FILE, "d.c d.d"]


def test_rows_are_asked_for_only_once_the_connector_would_know_the_definition_after_a_restart(wire):
    untold(wire, sent=time.time())
    asked, may = [], [False, True]

    def keep(tables):
        asked.extend(map(str, tables))
        return may.pop(0)

    wire.keep = keep
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL)]
    (one,) = wire.look()  # it is in its snapshot still
    assert (one.untold, wire.sent, asked) == (True, [], ["d.c"])
    (one,) = wire.look()
    assert (one.untold, wire.sent, asked) == (False, [FILE, "d.c"], ["d.c", "d.c"])
    wire.look()
    assert len(asked) == 2
