"""What waits in quarantine, record by record, and what of it a drop takes."""

import json
from dataclasses import replace
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ingest.batch.doubtful_tables import Retaking
from ingest.changes.restarted_snapshots import Cleanup, closed
from ingest.cli.app import app
from ingest.cli.quarantine_records import readable, taken
from ingest.lake.quarantine.waiting_list import (
    count,
    grouped,
    records,
    waiting_list,
    with_bytes,
)
from ingest.model import reasons
from ingest.model.names import quarantine_path
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop, Dropped, gaps
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.observe.audit import _note
from ingest.source.binlog import MySqlLog
from ingest.source.resync import Requests
from ingest.start.where_to_go_on import where_to_go_on
from ingest.testing.lake import pipeline_at
from tests.support.sound_start import entry, facts

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
AT = Position(0, 3, 70)
DAY = "2026-01-31"
UNREAD = reasons.NOT_AN_ENVELOPE.says
SCHEMA = pa.schema(
    [
        *[("batch_id", pa.int64()), ("reason", pa.string()), ("database", pa.string())],
        *[("table", pa.string()), ("topic", pa.string()), ("partition", pa.int32())],
        *[("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))],
        *[("key", pa.binary()), ("value", pa.binary()), ("run", pa.string())],
        ("settled", pa.int64()),
    ]
)


def waits(offset, reason="odd", table="t", batch=4, settled=None, partition=0, value=b"{}"):
    topic = f"p.d.{table or 'unread'}"
    names = ("d", table) if table else (None, None)
    at = (topic, partition, offset, NOON, b"k", value, "run", settled)
    return dict(zip(SCHEMA.names, (batch, reason, *names, *at), strict=True))


HELD = [
    waits(3, batch=4),
    waits(5, batch=6),
    waits(7, "waits behind", batch=6),
    waits(2, "odd", "u"),
    waits(9, UNREAD, table=None, value=b"\xff\x1b[2J\x00"),
    waits(1, settled=5),
    waits(4, settled=-8),
]


@pytest.fixture
def lake(tmp_path):
    write_deltalake(quarantine_path(str(tmp_path)), pa.Table.from_pylist(HELD, SCHEMA))
    return str(tmp_path)


def test_what_waits_is_listed_by_table_partition_and_reason_with_its_place_and_its_batch(lake):
    found = [
        (one.table, one.reason, one.changes, one.first, one.last, one.since)
        for one in grouped(records(lake))
    ]
    assert found == [
        ("d.t", "odd", 2, 3, 5, 4),
        ("d.t", "waits behind", 1, 7, 7, 6),
        ("d.u", "odd", 1, 2, 2, 4),
        ("p.d.unread", UNREAD, 1, 9, 9, 4),
    ]
    assert sum(one.changes for one in waiting_list(lake)) == count(lake) == 5


def test_what_was_dropped_stays_and_is_told_apart_from_what_was_applied(lake):
    assert [(one.offset, one.settled) for one in records(lake, dropped=True)] == [(4, -8)]


def test_keys_and_values_are_read_of_the_records_that_are_shown_alone(lake):
    (unread,) = taken(records(lake), Drop("p.d.unread", 9, DAY))
    assert unread.value is None
    (shown,) = with_bytes(lake, [unread])
    assert (shown.key, shown.value) == (b"k", b"\xff\x1b[2J\x00")
    assert with_bytes(lake, []) == []
    assert records(lake + "/none") == []


def test_two_records_at_one_place_are_shown_each_with_its_own_bytes(tmp_path):
    """A topic that is made again gives offsets anew."""
    held = [waits(3, batch=4, value=b"old"), waits(3, batch=6, value=b"new")]
    write_deltalake(quarantine_path(str(tmp_path)), pa.Table.from_pylist(held, SCHEMA))
    shown = with_bytes(str(tmp_path), records(str(tmp_path)))
    assert {one.batch_id: one.value for one in shown} == {4: b"old", 6: b"new"}


def test_a_screen_gets_no_byte_of_a_record_that_could_move_its_cursor():
    assert readable(b"\xff\x1b[2J\x00\n") == r"\xff\x1b[2J\x00\n"
    assert readable("订单".encode()) == "订单"
    assert readable(None) == "(none)"


@pytest.mark.parametrize(
    ("which", "offsets"),
    [
        (Drop("d.t", 9, DAY), [3, 5, 7]),
        (Drop("d.t", 4, DAY), [3]),
        (Drop("d.t", 9, DAY, reason="od"), [3, 5]),
        (Drop("d.t", 9, DAY, first=4, last=5), [5]),
        (Drop("d.t", 9, DAY, first=5), [5, 7]),
        (Drop("d.t", 9, DAY, partition=1), []),
        (Drop("d", 9, DAY), []),
    ],
)
def test_a_drop_takes_what_its_table_reason_and_place_name_and_nothing_newer(lake, which, offsets):
    assert [one.offset for one in taken(records(lake), which)] == offsets


drops = st.builds(
    Drop,
    st.sampled_from(["d.t", "p.d.unread", "`a.b`.c"]),
    st.integers(0, 9),
    st.just(DAY),
    st.text(),
    st.none() | st.integers(0, 3),
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.just(AT),
)


@given(drops)
def test_the_note_of_a_drop_says_all_of_it_so_that_a_start_can_finish_it(drop):
    note = Note(7, "c", schema_offset=3, drop=drop)
    assert Note.from_json(note.as_json()) == note
    assert Note.from_json(Note(7, "c").as_json()).drop is None


GIVEN_UP = [
    Dropped(TableId("d", "t"), "p.d.t", 0, 3, 5, 2),
    Dropped(None, "p.d.unread", 0, 9, 9, 1),
    Dropped(None, "p.d.unknown", 1, 2, 2, 1),
]
MARKS = gaps(Drop("d.t", 9, DAY, at=AT), GIVEN_UP, 8, {"p.d.t": "d.t", "p.d.unread": "d.unread"})


def test_the_mark_of_a_drop_is_an_open_gap_of_its_table_with_the_day_and_the_number():
    assert [(one.table, one.start, one.end, one.since) for one in MARKS] == [
        ("d.t", 3, 6, 8),
        ("d.unread", 9, 10, 8),
        ("p.d.unknown", 2, 3, 8),
    ]
    assert all(one.is_open and one.by_hand for one in MARKS)
    assert "2026-01-31" in MARKS[0].reason
    assert MARKS[0].reason.endswith("changes: 2")


def test_what_is_read_of_the_table_after_the_drop_closes_its_mark_and_nothing_before():
    for below, is_open in ((replace(AT, pos=69), True), (AT, False)):
        found = closed(MARKS, Cleanup(TableId("d", "t"), below))
        assert [one.is_open for one in found] == [is_open, True, True]


def test_a_table_of_which_a_person_gave_changes_up_is_not_taken_again_by_itself(tmp_path):
    """A snapshot of a large table is what the person did not ask for; a gap beside it is mended as ever."""
    pipeline = pipeline_at(tmp_path)
    asked = []
    requests = Requests(pipeline)
    requests.ask = lambda tables: asked.append(list(tables))
    retaking = Retaking(pipeline, requests, MySqlLog(pipeline, []))
    retaking.ask(entry(gaps=MARKS), {})
    another = replace(MARKS[0], reason="the topic was deleted")
    retaking.ask(entry(gaps=(*MARKS, another)), {})
    assert asked == [[], ["d.t"]]


def test_a_mark_that_was_known_by_its_topic_alone_gets_its_table_s_name_and_asks_for_nothing():
    topic = "p.d.unknown"
    newest = entry(3, offsets={}, high_water={}, tables={}, gaps=(MARKS[2],))
    start = facts(newest=newest, history=[newest], lake=[], kafka={}, topic_of={"d.unknown": topic})
    found = where_to_go_on(start, newest)
    assert [one.table for one in found.gaps] == ["d.unknown"]
    assert (found.resync, found.because) == ((), ())


def test_the_audit_names_a_table_of_which_changes_were_dropped_until_it_was_taken_again():
    assert "dropped from quarantine on 2026-01-31" in _note(None, MARKS[:1])
    assert _note(None, [replace(MARKS[0], resync=AT)]) == ""
    deleted = replace(MARKS[0], reason="the topic was deleted")
    assert _note(None, [deleted]) == ""
    assert _note(None, [deleted], outlives=True) == "the topic was deleted; it may differ"


PIPELINE = """
name: p
source: {mysql: "mysql://u@127.0.0.1:1", password: {env: P}, tables: ["d.*"]}
kafka: {bootstrap_servers: "127.0.0.1:1"}
connect: {url: "http://127.0.0.1:1"}
lake: {path: "LAKE"}
"""


@pytest.fixture
def told(lake, tmp_path):
    """`ingest quarantine` of a pipeline around this lake: its exit code and what it says."""
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE.replace("LAKE", lake))

    def run(command, *words):
        done = CliRunner().invoke(app, ["quarantine", command, str(file), *words])
        return done.exit_code, done.stdout, done.output

    return run


def test_the_commands_list_and_show_what_waits_without_any_server(told):
    code, listed, _ = told("list", "--json")
    assert (code, [one["changes"] for one in json.loads(listed)]) == (0, [2, 1, 1, 1])
    code, shown, _ = told("show", "d.t", "--reason", "odd", "--limit", "1", "--json")
    assert (code, [one["offset"] for one in json.loads(shown)]) == (0, [3])
    code, shown, _ = told("show", "p.d.unread")
    assert r"\xff\x1b[2J\x00" in shown
    assert "\x1b[2J" not in shown
    code, shown, _ = told("show", "d.t", "--dropped", "--json")
    assert [one["settled"] for one in json.loads(shown)] == [-8]


def test_nothing_is_dropped_that_is_not_there_or_that_nobody_has_confirmed(told):
    for words, code in (
        (["d.none", "--yes"], "E-QUARANTINE-NONE"),
        (["d.t", "--offsets", "100"], "E-QUARANTINE-NONE"),
        (["d.t", "--offsets", "three"], "E-QUARANTINE-OFFSETS"),
        (["d.t"], "E-QUARANTINE-CONFIRM"),
    ):
        exit_code, _, said = told("drop", *words)
        assert (exit_code, code in said) == (2, True), said
