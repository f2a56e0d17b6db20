"""Which request is sent when, and what of Debezium's notifications says that a table was read."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.source import absent_tables, resync
from ingest.source.absent_tables import LOOK_AGAIN
from ingest.source.resync_request import Request
from tests.support.sound_start import entry
from tests.unit.source.wire import INITIAL, blocking_one, complete, said


@pytest.mark.parametrize(
    ("floor", "gap", "end", "quiet"),
    [
        # A snapshot, and nothing since.
        (Position(1, 2, 700, part=1), None, Position(1, 2, 700), True),
        (Position(1, 2, 700, part=1), None, Position(1, 2, 736), True),
        (Position(1, 2, 700, part=1), None, Position(1, 2, 1050), False),
        (Position(0, 2, 900, part=1), None, Position(1, 2, 700), False),  # of an older log
        (None, Position(1, 2, 700, part=1), Position(1, 2, 700), True),
        # In a new file the rows of two readings were seen at 126 and at 161, and its end at 197.
        (None, Position(1, 2, 161, part=1), Position(1, 2, 197), True),
        (None, None, Position(1, 2, 700), False),
    ],
)
def test_rows_that_would_carry_a_place_of_before_get_a_binlog_file_of_their_own(
    floor, gap, end, quiet
):
    gaps = (Gap("d.a", "p.d.a", 0, 9, 9, "a DDL", 3, position=gap), Gap("d.b", "t", 0, 9, 9, "", 3))
    for state in (
        TableState("lake/d/a", 1, floor=floor),
        TableState("lake/d/a", 1, snapshot=floor),
    ):
        places = resync.settled(entry(tables={"d.a": state}, gaps=gaps), TableId("d", "a"))
        assert resync.is_quiet(places, end) == quiet
    assert not resync.is_quiet(resync.settled(None, TableId("d", "a")), end)


def test_what_waits_is_asked_for_together_once_the_signal_before_is_done(wire):
    wire.look()
    assert wire.sent == []  # whoever asked has sent the first
    wire.notifications = [said("STARTED", "resync-a")]
    wire.look()
    wire.add(Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 6), sent=time.time()))
    wire.look()
    assert wire.sent == []
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "resync-a", "d.a")]
    wire.look()
    wire.look()
    assert (wire.sent, complete(wire)) == (["d.b d.c"], ["d.a"])


def test_each_table_of_a_signal_is_complete_by_its_own_scan(wire):
    both = "resync-a,resync-b"
    wire.notifications = [said("STARTED", both), said("TABLE_SCAN_COMPLETED", both, "d.b")]
    wire.look()
    assert (wire.sent, complete(wire)) == ([], ["d.b"])
    wire.notifications = [said("TABLE_SCAN_COMPLETED", both, "d.a")]
    wire.look()
    assert complete(wire) == ["d.a", "d.b"]


def test_another_table_s_scan_under_our_id_is_not_ours(wire):
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "resync-b", "d.a")]
    wire.look()
    assert complete(wire) == []


def test_an_empty_table_is_read_when_nothing_was_found_in_it(wire):
    wire.notifications = [
        said("TABLE_SCAN_COMPLETED", "resync-a", "d.a", "EMPTY"),
        said("TABLE_SCAN_COMPLETED", "resync-b", "d.b"),
    ]
    wire.look()
    assert complete(wire) == ["d.a", "d.b"]
    assert [wire.was_empty(one) for one in wire.open()] == [True, False]
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "resync-a", "d.a")]  # it was sent again
    wire.look()
    assert not wire.was_empty(wire.open()[0])


def test_a_table_that_mysql_has_no_more_holds_no_other_up(wire, monkeypatch):
    """Debezium says nothing of it: its snapshot begins and ends without the table."""
    blocking_one(wire)
    wire.dropped = {"d.c"}
    wire.look()
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.look()
    wire.look()
    assert wire.sent == ["d.a d.b"]
    assert [one.table for one in wire.open() if wire.is_gone(one)] == ["d.c"]
    wire.look()
    (said,) = wire.said
    assert said.startswith("d.c: MySQL has no table of that name")


def test_a_table_that_mysql_has_no_more_is_not_asked_for_and_the_others_are(wire, monkeypatch):
    asked = []
    monkeypatch.setattr(resync, "request", lambda _, tables, *more, **how: asked.append(tables))
    monkeypatch.setattr(resync, "is_possible", lambda _: True)
    wire.dropped = {"d.x"}
    wire.ask(["d.a", "d.x", "d.y"])
    wire.ask(["d.x"])
    assert asked == [["d.y"]]
    assert len(wire.said) == 1, "once, and not behind every batch"
    wire.dropped = set()
    assert wire.absent.came_back() is False, "MySQL is not asked all the time"
    now = time.monotonic() + LOOK_AGAIN + 1
    monkeypatch.setattr(absent_tables.time, "monotonic", lambda: now)
    assert wire.absent.came_back() is True
    wire.ask(["d.x"])
    assert asked == [["d.y"], ["d.x"]]


def test_where_no_table_can_be_taken_again_that_is_said_once_and_the_run_goes_on(wire, monkeypatch):
    """Its gap stays open; nobody else's rows wait for it."""
    monkeypatch.setattr(resync, "is_possible", lambda _: False)
    for _ in range(2):
        wire.ask(["d.x", "d.y"])
    assert [len(wire.open()), len(wire.said)] == [2, 1]
    assert "GTIDs" in wire.said[0]


def test_a_mysql_that_does_not_answer_makes_no_table_seem_gone(wire, monkeypatch):
    def away(tables):
        raise IngestError("E-MYSQL-AWAY", "MySQL is away.", remedy="wait.", may_pass=True)

    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.absent.looked_up = away
    wire.look()
    assert (wire.sent, wire.said) == (["d.a d.b"], [])


@pytest.mark.parametrize("ago", [resync.SEND_AGAIN_AFTER + 1, 1e9])
def test_what_an_earlier_process_has_sent_and_nobody_heard_is_sent_again_by_the_next_at_once(
    wire, ago
):
    """A run with `--once` is shorter than the wait."""
    asked = {one.id: one for one in wire.open()}
    for one in asked.values():
        wire.add(replace(one, sent=one.sent - ago))
    wire.look()
    assert wire.sent == ["d.a d.b"]
    assert all(one.sent >= asked[one.id].sent for one in wire.open()), "and the next waits again"
    wire._sent.clear()
    wire.look()
    assert len(wire.sent) == 1


def test_a_wall_clock_that_was_set_back_costs_another_wait_and_no_more(wire):
    for one in wire.open():
        wire.add(replace(one, sent=one.sent + 1e6))
    wire.look()
    assert wire.sent == []


def test_a_request_outlasts_its_file():
    one = Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 9), untold=True)
    assert Request.from_json(one.as_json()) == one
    older = Request.from_json(one.as_json().replace(', "untold": true', ""))
    assert older == replace(one, untold=False), "by an earlier version"


def test_the_definition_of_a_table_without_a_key_is_kept_with_its_rows(wire):
    for one in wire.open():
        wire.done(one)
    wire.add(Request("resync-c", "d.c", "BLOCKING", Position(0, 1, 9), sent=time.time()))
    asked = []
    wire.keep = lambda tables: bool(asked.append(list(map(str, tables))) or True)
    wire.notifications = [said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL)]
    wire.look()
    wire.look()
    assert (complete(wire), asked) == (["d.c"], [["d.c"]])


def test_one_that_waits_behind_another_s_reading_is_not_sent_again_meanwhile(wire, monkeypatch):
    """Debezium keeps every signal, so its table would be read once more for nobody."""
    for one in wire.open():
        wire.done(one)
    monkeypatch.setattr(resync, "SEND_AGAIN_AFTER", -1.0)
    wire.notifications = [said("STARTED", "x", by=INITIAL)]
    blocking_one(wire, heard=1)
    wire.look()
    assert wire.sent == []
    wire.notifications = [said("COMPLETED", "x", by=INITIAL)]
    wire.look()
    assert wire.sent == ["d.c"]


def test_the_moment_of_a_reading_is_that_of_the_newest_one(wire):
    for one in wire.open():
        wire.done(one)
    heard = []
    wire.moments = SimpleNamespace(heard=lambda told: heard.append(dict(told)))
    blocking_one(wire, heard=1)

    def begins():
        found = said("IN_PROGRESS", "x", by=INITIAL)
        found["additional_data"] = {"current_collection_in_progress": "d.c"}
        return found

    wire.notifications = [said("STARTED", "x", by=INITIAL), begins()]
    wire.look()
    wire.notifications = [said("ABORTED", "x", by=INITIAL), begins()]
    wire.look()
    first, second = (told["resync-c"] for told in heard)
    assert first < second


def begun(table):
    found = said("IN_PROGRESS", "x", by=INITIAL)
    found["additional_data"] = {"current_collection_in_progress": table}
    return found


def test_a_reading_that_had_begun_before_it_was_asked_for_is_another_one_s(wire):
    """What Kafka lost in between may be rows of it, and the gap would be closed by them."""
    for one in wire.open():
        wire.done(one)
    blocking_one(wire, heard=2)
    ends = said("TABLE_SCAN_COMPLETED", "x", "d.c", by=INITIAL)
    wire.notifications = [said("STARTED", "x", by=INITIAL), begun("d.c"), ends]
    wire.look()
    wire.look()
    assert complete(wire) == []
    wire.notifications = [said("STARTED", "x", by=INITIAL), begun("d.c"), ends]
    wire.look()
    wire.look()
    assert complete(wire) == ["d.c"]
