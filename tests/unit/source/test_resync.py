"""Which request is sent when, and what of Debezium's notifications says that a table was read."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.config.pipeline_file import parse
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.source import absent_tables, resync
from ingest.source.absent_tables import LOOK_AGAIN
from ingest.source.resync import Requests
from ingest.source.resync_request import Request
from tests.unit.start.test_start_decision import entry


class Wire(Requests):
    """Requests whose Kafka is two lists: what was sent, and what the connector says."""

    def __init__(self, pipeline):
        super().__init__(pipeline)
        self.dropped, self.said = set(), []
        self.say = self.absent.say = self.said.append
        self.absent.looked_up = lambda tables: self.dropped & set(tables)
        self.sent: list[str] = []
        self.notifications: list[dict] = []
        self.offset = 0

    def send(self, asked):
        if asked:
            self.sent.append(" ".join(one.table for one in asked))
        self._sent.update({one.id: resync.time.monotonic() for one in asked})

    def _rotate_log(self):
        self.sent.append("(another binlog file)")

    def _read(self):
        while self.notifications:
            self._said.take(self.notifications.pop(0), self.offset, resync.time.monotonic())
            self.offset += 1


def said(kind, id_, table="", status="SUCCEEDED", by="Incremental Snapshot"):
    more = {"scanned_collection": table, "status": status} if table else {}
    return {
        "aggregate_type": by,
        "type": kind,
        "id": id_,
        "additional_data": more,
    }


def pipeline_of_d(lake):
    """Which takes all of the database `d`."""
    return parse(f"""
name: p
source: {{mysql: "mysql://u@h", password: {{env: X}}, tables: ["d.*"]}}
kafka: {{bootstrap_servers: "k:1"}}
connect: {{url: "http://c:1"}}
lake: {{path: {lake}}}
""")


@pytest.fixture
def wire(tmp_path):
    found = Wire(pipeline_of_d(tmp_path))
    for name in "ab":
        found.add(
            Request(
                f"resync-{name}", f"d.{name}", "INCREMENTAL", Position(0, 1, 5), sent=time.time()
            )
        )
    return found


def complete(wire):
    return [one.table for one in wire.open() if wire.is_complete(one)]


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


INITIAL = "Initial Snapshot"
FILE = "(another binlog file)"


def blocking_one(wire, name="c", heard=0):
    found = Request(
        f"resync-{name}", f"d.{name}", "BLOCKING", Position(0, 1, 9), heard=heard, sent=time.time()
    )
    wire.add(found)
    return found


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


def untold(wire, **more):
    """One table that has joined later: the connector does not know its definition."""
    for one in wire.open():
        wire.done(one)
    one = Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 9), untold=True, **more)
    wire.add(one)
    return one


INITIAL = "Initial Snapshot"
FILE = "(another binlog file)"


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


def test_a_request_outlasts_its_file():
    one = Request("resync-c", "d.c", "INCREMENTAL", Position(0, 1, 9), untold=True)
    assert Request.from_json(one.as_json()) == one
    older = Request.from_json(one.as_json().replace(', "untold": true', ""))
    assert older == replace(one, untold=False), "by an earlier version"


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
