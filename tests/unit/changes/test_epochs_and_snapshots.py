"""`epochs` and `snapshots`: which log a record was read from, and what a snapshot makes void."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.changes.restarted_snapshots import (
    Cleanup,
    awaited,
    begins_again,
    closed,
    is_complete,
    is_uncertain,
    lost_rows,
    settled,
)
from ingest.lake.manifest.next_entry import Note, gaps, table_states
from ingest.model import reasons
from ingest.model.epochs import Epoch, Moved, after_losses, epoch_of, following, newest_restart
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import PART_REREAD, PART_WRITE, Position
from ingest.model.start_facts import KafkaFacts
from ingest.schema.catalog import Catalog
from ingest.schema.steps import Applied, Attempt, TableFacts
from ingest.source.epoch_registry import EpochRegistry
from ingest.source.resync_request import Request
from tests.support.declared_tables import CREATE, T, at, catalog, column, facts, record
from tests.support.sound_start import entry

FIRST = following([], "one", "the first log", {("p.d.t", 0): 7})


def test_the_first_log_has_no_boundary():
    assert (FIRST.number, FIRST.starts) == (0, {})
    assert epoch_of([FIRST], ("p.d.t", 0), 0) == 0


def test_a_record_belongs_to_the_log_that_had_begun_where_it_stands_in_kafka():
    second = following([FIRST], "two", "failover", {("p.d.t", 0): 7})
    third = following([FIRST, second], "two", "reset", {("p.d.t", 0): 9, ("p", 0): 3})
    epochs = [FIRST, second, third]
    assert [epoch_of(epochs, ("p.d.t", 0), n) for n in (6, 7, 8, 9)] == [0, 1, 1, 2]
    assert epoch_of(epochs, ("p", 0), 2) == 1
    assert epoch_of(epochs, ("p.d.new", 0), 0) == 2, "a topic made since is all of the newest log"


def test_an_epoch_survives_its_text():
    epoch = Epoch(3, "uuid", "reset", {("p.d.t", 0): 9})
    assert Epoch.from_json(epoch.as_json()) == epoch


def test_a_boundary_is_of_the_topic_that_stood_there_when_it_was_drawn():
    place, newest = ("p.d.t", 0), entry()  # which was read while its topic was T
    second = following([FIRST], "two", "failover", {place: 5000})
    drawn_since = following([FIRST, second], "two", "reset", {place: 3}, topics={"p.d.t": "U"})
    kafka = {place: KafkaFacts(0, 40, "U")}
    found = after_losses([FIRST, second, drawn_since], newest, kafka)
    assert [epoch_of(found, place, offset) for offset in (0, 2, 3)] == [1, 1, 2]
    assert after_losses(found, newest, kafka) == found
    again = after_losses(found, newest, {place: KafkaFacts(0, 40, "V")})
    assert epoch_of(again, place, 0) == 2


def epoch_then(epochs, place, offset, waits_since):
    """The epoch of a record that waits since a batch, by the boundaries of then; of one that does not (None), by today's."""
    then = [
        replace(epoch, starts={place: was.start})
        for epoch in epochs
        for was in reversed(epoch.moved)
        if waits_since is not None and was.place == place and waits_since <= was.batch
    ]
    moved = {epoch.number: epoch for epoch in then}
    return epoch_of([moved.get(epoch.number, epoch) for epoch in epochs], place, offset)


def test_what_waits_since_before_a_topic_was_made_again_is_of_the_log_it_was_read_from():
    """Read as of the newest, it would be newer than all that has come since."""
    place, newest = ("p.d.t", 0), entry()
    second = following([FIRST], "two", "failover", {place: 5000})
    once = after_losses([FIRST, second], newest, {place: KafkaFacts(0, 40, "U")})
    later = replace(newest, batch_id=newest.batch_id + 5)
    found = after_losses(once, later, {place: KafkaFacts(0, 40, "U")})
    assert found == once
    since = newest.batch_id
    assert [epoch_then(found, place, 7, waits) for waits in (None, since, since + 1)] == [1, 0, 1]
    assert epoch_then(found, place, 5000, since) == 1


def test_what_no_manifest_says_was_read_keeps_its_boundary_but_for_one_beyond_its_end():
    second = following([FIRST], "two", "failover", {("p.d.t", 0): 9, ("p", 0): 3, ("p.d.u", 0): 7})
    found = after_losses([FIRST, second], None, {("p.d.t", 0): KafkaFacts(0, 8, "T")})
    assert found[1].starts == {("p.d.t", 0): 8, ("p", 0): 3, ("p.d.u", 0): 7}


def test_an_epoch_notes_its_topics_where_earlier_versions_do_not_look(tmp_path, monkeypatch):
    pipeline = SimpleNamespace(name="p", lake=SimpleNamespace(path=str(tmp_path)))
    kafka, place = "ingest.source.epoch_registry.broker", ("p.d.t", 0)
    monkeypatch.setattr(f"{kafka}.data_topics", lambda _: ["p.d.t"])
    monkeypatch.setattr(f"{kafka}.end_offsets", lambda _, topics: {place: 7})
    monkeypatch.setattr(f"{kafka}.topic_ids", lambda _, topics: {"p.d.t": "T"})
    registry = EpochRegistry(pipeline)
    registry._add(FIRST)
    begun = registry.begin("two", "failover", continues=True)
    assert registry.known() == [FIRST, begun]
    assert begun.topics == {"p.d.t": "T"}
    (text,) = [path.read_text() for path in tmp_path.rglob("1.json")]
    assert set(json.loads(text)) == {"number", "server", "reason", "starts", "continues"}
    registry.over_losses(entry(), {place: KafkaFacts(0, 9, "U")})
    moved = (Moved(place, 7, entry().batch_id),)
    assert registry.known() == [FIRST, replace(begun, starts={place: 0}, moved=moved)]


def test_without_gtids_no_server_takes_over_from_another(tmp_path, monkeypatch):
    pipeline = SimpleNamespace(name="p", source=None, lake=SimpleNamespace(path=str(tmp_path)))
    registry, mysql = EpochRegistry(pipeline), "ingest.source.epoch_registry.mysql"
    registry._add(FIRST)
    monkeypatch.setattr(f"{mysql}.server_uuid", lambda _: "two")
    monkeypatch.setattr(f"{mysql}.server_facts", lambda _: SimpleNamespace(gtid_mode="OFF"))
    with pytest.raises(IngestError, match="E-SOURCE-REPLACED"):
        registry.follow(SimpleNamespace(), print)  # the connector is not touched
    assert registry.known() == [FIRST]


def test_only_a_log_that_was_reset_makes_transaction_numbers_begin_anew():
    failover = following([FIRST], "two", "failover", {})
    reset = following([FIRST, failover], "two", "reset", {}, continues=False)
    later = following([FIRST, failover, reset], "three", "failover", {})
    assert newest_restart([FIRST, failover]) == 0
    assert newest_restart([FIRST, failover, reset, later]) == 2
    assert Epoch.from_json(reset.as_json()) == reset


def test_positions_of_a_later_epoch_come_after_all_of_an_earlier_one():
    assert Position(1, 1, 4) > Position(0, 999_999, 2**40)


def test_a_row_that_is_read_again_comes_after_the_event_whose_position_it_carries():
    assert Position(0, 1, 9, 0, PART_REREAD) > Position(0, 1, 9, 0, PART_WRITE)


STATE = TableState("/t", 1, floor=at(100), run="one", snapshot=at(100))


@pytest.mark.parametrize(
    ("attempt", "again"),
    [
        (None, False),
        (Attempt("one", at(100)), False),
        (Attempt("two", at(100)), True),
        (Attempt("one", at(200)), True),
        (Attempt("two", at(50)), False),
    ],
    ids=["no snapshot rows", "the same", "another run", "a later position", "an older leftover"],
)
def test_a_snapshot_attempt_makes_the_one_before_void_when_it_is_a_newer_one(attempt, again):
    found = replace(facts(at(100), at(300)), attempt=attempt)
    assert begins_again(found, STATE) == (attempt if again else None)


@pytest.mark.parametrize(
    ("attempt", "again"),
    [
        (Attempt("one@7", at(100)), False),
        (Attempt("one@7", at(200)), False),
        (Attempt("one@8", at(100)), True),
        (Attempt("two@7", at(100)), True),
    ],
    ids=["the same", "at a later place", "read again at the same place", "another run"],
)
def test_a_reading_is_told_by_its_run_and_its_second_and_not_by_its_place(attempt, again):
    found = replace(facts(at(100), at(300)), attempt=attempt)
    state = replace(STATE, run="one@7")
    assert begins_again(found, state) == (attempt if again else None)
    before = entry(tables={"d.t": state})
    done = [Applied(T, STATE.path, 2, 1)]
    then = table_states(before, {T: found}, done, catalog(CREATE))["d.t"]
    assert (then.run, then.floor) == (attempt.run, attempt.position if again else at(100))


def test_the_rest_of_a_reading_that_an_earlier_version_has_begun_is_known_by_its_run_and_place():
    found = replace(facts(at(100), at(300)), attempt=Attempt("one@7", at(100)))
    assert begins_again(found, STATE) is None
    then = table_states(
        entry(tables={"d.t": STATE}),
        {T: found},
        [Applied(T, STATE.path, 2, 1)],
        catalog(CREATE),
    )
    assert then["d.t"].run == "one@7"
    assert begins_again(replace(found, attempt=Attempt("one@7", at(200))), STATE) is not None


@pytest.mark.parametrize(
    ("lowest", "highest", "uncertain"),
    [
        (Position(0, 1, 200, part=1), None, False),
        (Position(0, 1, 200, part=1), Position(0, 1, 235, part=1), False),
        (Position(0, 1, 195, part=1), Position(0, 1, 200, part=1), True),
    ],
    ids=["one place", "moved on behind its definition", "moved back before it"],
)
def test_rows_that_stand_before_the_definition_of_their_own_reading_are_uncertain(
    lowest, highest, uncertain
):
    read_anew = record(200, "CREATE", [column("id")])
    attempt = Attempt("one@7", lowest, highest)
    assert is_uncertain(attempt, catalog(CREATE, read_anew), T) is uncertain


def test_a_reading_s_place_is_the_lowest_of_its_rows_over_all_partitions():
    def part(partition, run, pos, high):
        place = {"attempt": {"run": run, "pos": pos.as_dict(), "high": high.as_dict()}}
        common = {"database": "d", "table": "t", "topic": "p.d.t", "partition": partition}
        rest = {"changes": 1, "low": pos.as_dict(), "high": high.as_dict(), "high_water": None}
        return {**common, **rest, **place, "source_time_us": None, "truncates": [], "keys": []}

    parts = [part(0, "one@7", at(120), at(120)), part(1, "one@7", at(100), at(120))]
    older = part(2, "one@6", at(50), at(90))
    found = TableFacts.combine([*parts, older])
    assert found[T].attempt == Attempt("one@7", at(100), at(120))


def test_a_snapshot_of_a_table_that_was_only_streamed_makes_what_was_streamed_void():
    found = replace(facts(at(100), at(300)), attempt=Attempt("one", at(200)))
    assert begins_again(found, replace(STATE, floor=None)) is not None
    assert begins_again(found, None) is None


def test_a_newer_snapshot_is_awaited_until_it_is_settled():
    again = record(200, "CREATE", [column("id")], snapshot="true")
    pinned = Position(0, 1, 200)
    states = {"d.t": replace(STATE, snapshot=Position(0, 1, 100))}
    assert awaited(catalog(CREATE), states) == []
    assert awaited(catalog(CREATE, again), states) == [Cleanup(T, pinned)]
    assert awaited(catalog(CREATE, again), {"d.t": replace(STATE, snapshot=pinned)}) == []
    assert awaited(catalog(CREATE, again), {}) == []


def test_a_snapshot_that_is_settled_says_nothing_of_another_one_that_is_under_way():
    """An incremental one would look as if it had read nothing, and its rows would go."""
    pinned, read = Position(0, 1, 100), Position(0, 1, 200, part=PART_REREAD)
    state = replace(STATE, snapshot=None, reread=read)
    assert settled(state, Cleanup(T, pinned), pinned) == replace(state, snapshot=pinned)
    assert settled(state, Cleanup(T, read), read) == replace(state, snapshot=read, reread=None)
    later = Position(0, 1, 300)
    assert settled(state, Cleanup(T, later), later) == replace(state, snapshot=later, reread=None)


@pytest.mark.parametrize(
    ("held", "replayed", "then"),
    [
        (None, 200, None),  # of a reading that is over: the next one begins at its own first row
        (300, 200, 200),  # the first rows of the one that is under way had waited
        (200, 300, 200),
    ],
)
def test_what_waited_in_quarantine_begins_no_reading_of_a_table(held, replayed, then):
    def read(pos):
        return None if pos is None else Position(0, 1, pos, part=PART_REREAD)

    state = replace(STATE, reread=read(held))
    before, fresh = entry(tables={"d.t": state}), entry(tables={"d.t": STATE})
    found = {T: replace(facts(at(replayed), at(replayed)), reread=read(replayed))}
    done = [Applied(T, STATE.path, 2, 1)]
    states = table_states(before, found, done, catalog(CREATE), replay=True)
    assert states["d.t"].reread == read(then)
    first = table_states(fresh, found, done, catalog(CREATE))
    assert first["d.t"].reread == read(replayed)


def test_a_reading_begins_at_the_lowest_place_of_its_rows_in_whatever_order_they_come():
    """A task of the connector's that ends in the middle of a chunk goes on from a place before: 75831, then 75716, was seen."""

    def read(pos):
        return Position(0, 1, pos, part=PART_REREAD)

    state = replace(STATE, reread=read(75831))
    found = {T: replace(facts(at(75716), at(75716)), reread=read(75716))}
    before, done = entry(tables={"d.t": state}), [Applied(T, STATE.path, 2, 1)]
    assert table_states(before, found, done, catalog(CREATE))["d.t"].reread == read(75716)


@pytest.mark.parametrize(("held", "wiped", "floor"), [(None, 20, 20), (30, 20, 30), (20, None, 20)])
def test_nothing_counts_that_is_older_than_the_newest_drop_that_took_a_tables_rows(
    held, wiped, floor
):
    def place(pos):
        return None if pos is None else at(pos)

    before = entry(tables={"d.t": replace(STATE, floor=place(held))})
    done = [Applied(T, STATE.path, 2, 1, wiped=place(wiped))]
    states = table_states(before, {T: facts(at(40), at(50))}, done, catalog(CREATE))
    assert states["d.t"].floor == place(floor)


@pytest.mark.parametrize(
    ("attempt", "high", "gap"),
    [
        (None, Position(1, 2, 700, part=1), True),
        # The snapshot's own definition, which has a column that the lake's table had not.
        (Position(1, 2, 700), Position(1, 2, 700, part=1), False),
        (Position(1, 2, 700), Position(1, 2, 701, part=1), True),  # or a DDL that came behind it
        (Position(1, 2, 700), Position(1, 2, 600, part=1), False),
    ],
)
def test_what_a_ddl_made_of_rows_is_not_asked_of_mysql_where_a_snapshot_behind_it_brings_them(
    attempt, high, gap
):
    found = facts(at(100), high)
    found = replace(found, attempt=Attempt("run", attempt) if attempt else None)
    note = Note(5, "c", {("p.d.t", 0): (3, 9)}, 0)
    done = [Applied(T, STATE.path, 2, 1, unknown=("what rows hold in the new column 'c'",))]
    made = gaps(None, {T: found}, done, note, lambda _: "p.d.t", {})
    assert [one.position for one in made] == ([high] if gap else [])


def test_what_was_read_before_a_gap_does_not_close_it():
    early = Gap("d.t", "p.d.t", 0, 9, 9, "a DDL", 3, position=Position(0, 1, 150))
    late = replace(early, position=Position(0, 1, 250))
    other = replace(early, table="d.other")
    gaps = (early, late, other)
    before, between = (Cleanup(T, Position(0, 1, pos)) for pos in (120, 200))
    assert [gap.is_open for gap in closed(gaps, before)] == [True, True, True]
    assert [gap.is_open for gap in closed(gaps, between)] == [False, True, True]


def test_a_gap_of_what_kafka_lost_is_closed_by_what_was_asked_for_since_whatever_the_positions():
    lost = Gap("d.t", "p.d.t", 0, 9, 15, reasons.RETENTION.says, 101, position=Position(0, 1, 150))
    cleanup = Cleanup(T, Position(0, 3, 400))
    assert closed((lost,), cleanup, 100) == (lost,), "asked for before it"
    assert not closed((lost,), cleanup, 101)[0].is_open
    early = Cleanup(T, Position(0, 1, 120))
    assert not closed((lost,), early, 101)[0].is_open, "its rows may be old"


def test_of_a_snapshot_that_nobody_asked_for_the_position_says_whether_it_began_behind_a_gap():
    lost = Gap("d.t", "p.d.t", 0, 9, 15, reasons.RETENTION.says, 101, position=Position(0, 1, 150))
    for pos, is_open in ((149, True), (150, True), (151, False)):
        cleanup = Cleanup(T, Position(0, 1, pos))
        assert closed((lost,), cleanup)[0].is_open == is_open
        assert lost_rows(cleanup, (lost,)) == is_open
    assert not lost_rows(Cleanup(T, Position(0, 1, 149)), (replace(lost, reason="a DDL"),))
    assert not lost_rows(Cleanup(T, Position(0, 1, 149)), (replace(lost, resync=at(1)),))


@pytest.mark.parametrize(
    ("gap", "after", "void"),
    [
        ({}, 100, True),
        ({}, 101, False),
        ({"table": "d.other"}, 100, False),
        ({"resync": Position(0, 1, 1)}, 100, False),
        ({"reason": "a DDL"}, 100, False),
    ],
)
def test_a_request_is_void_by_an_open_gap_of_its_table_that_lost_records_after_it(gap, after, void):
    lost = Gap("d.t", "p.d.t", 0, 9, 15, reasons.RETENTION.says, 101)
    assert replace(lost, **gap).makes_void("d.t", after) == void


def test_a_snapshot_is_complete_only_when_the_connector_streams_beyond_it():
    cleanup = Cleanup(T, Position(0, 1, 200))
    assert not is_complete(cleanup, None)
    assert not is_complete(cleanup, Position(0, 1, 199))
    assert is_complete(cleanup, Position(0, 1, 200))


def test_a_batch_that_is_finished_later_sees_the_schemas_of_its_first_attempt():
    known = Catalog()
    known.add(CREATE, 0, 3)
    known.add(record(500, "ALTER", [column("id"), column("v")]), 0, 9)
    assert len(known.until(9).at(T, at(900)).columns) == 1
    assert len(known.until(10).at(T, at(900)).columns) == 2


def test_a_request_survives_its_text():
    request = Request("resync-1", "`a.b`.c", "INCREMENTAL", Position(1, 2, 3))
    assert Request.from_json(request.as_json()) == request
    later = replace(request, after=7, snapshot=Position(0, 1, 2, part=2))
    assert Request.from_json(later.as_json()) == later


def test_a_request_of_an_earlier_version_is_older_than_every_gap():
    text = (
        '{"id": "resync-1", "table": "d.t", "kind": "INCREMENTAL", "below": '
        '{"epoch": 0, "file": 1, "pos": 2, "row": 0, "part": 0}, "heard": 4, "select": "", "sent": 5.0}'
    )
    found = Request.from_json(text)
    assert (found.after, found.snapshot, found.heard) == (0, None, 4)
