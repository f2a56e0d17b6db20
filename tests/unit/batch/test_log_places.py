"""Up to where in Kafka a change log holds its topic behind a batch: never beyond what was applied."""

from dataclasses import replace

from ingest.batch.log_places import log_places
from ingest.lake.manifest.next_entry import before_the_first
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import HighWater, TableState
from ingest.model.position import Position
from ingest.model.start_facts import LogHeld, Note
from ingest.model.topics import TableId
from ingest.testing.lake import pipeline_at

TABLE, TOPIC, HIGH = TableId("d", "t"), "p.d.t", Position(0, 1, 100)
OTHER = TableId("d", "u")


def place(tmp_path, ranges, previous=None, waiting=None, ids=None, **note):
    made = Note(2, "c", {(TOPIC, p): r for p, r in ranges.items()}, **note)
    left = {(TOPIC, p): at for p, at in (waiting or {}).items()}
    pipeline = pipeline_at(tmp_path)
    return log_places(pipeline, [TABLE, OTHER], made, previous, left, ids or {})[TABLE]


def entry(ends, marks, state=None):
    return replace(
        before_the_first(),
        offsets={(TOPIC, p): (end, end) for p, end in ends.items()},
        high_water={(TOPIC, p): HighWater(at, topic_id="A") for p, at in marks.items()},
        tables={"d.t": state or TableState("/l/d/t", 1)},
    )


def test_what_a_policy_lets_wait_in_this_batch_is_not_held(tmp_path):
    found = place(tmp_path, {0: (0, 20), 1: (0, 5)}, waiting={0: 10})
    assert found.held.ends == {0: 10, 1: 5}


def test_nor_is_what_earlier_batches_have_left_there(tmp_path):
    paused = TableState("/l/d/t", 1, paused=Position(0, 1, 50))
    before = entry({0: 20, 1: 5}, {0: 10, 1: 5}, paused)
    found = place(tmp_path, {0: (20, 30), 1: (5, 9)}, before, waiting={0: 20})
    assert found.held.ends == {0: 10, 1: 9}
    shown = place(tmp_path, {0: (10, 30)}, before, whole=("d.t", HIGH))
    assert shown.held.ends == {0: 30}, "all that has waited is taken in"


def test_a_first_batch_is_told_its_topic_s_id_and_later_ones_know_it(tmp_path):
    assert place(tmp_path, {0: (0, 5)}, ids={TOPIC: "B"}).held.topic == "B"
    known = entry({0: 5}, {0: 5})
    assert place(tmp_path, {0: (5, 6)}, known, ids={TOPIC: "B"}).held.topic == "A"


def test_what_waited_in_quarantine_moves_nothing(tmp_path):
    found = place(tmp_path, {}, entry({0: 5}, {0: 5}), replay=True)
    assert (found.starts, found.held.ends) == ({}, {})


def test_offsets_of_another_topic_say_nothing_and_ends_never_go_back():
    held = LogHeld("A", {0: 20, 1: 3}, HIGH)
    again = held.and_then(LogHeld("A", {0: 7}, Position(0, 1, 50)))
    assert (again.ends, again.high) == ({0: 20, 1: 3}, HIGH)
    assert held.and_then(LogHeld("B", {0: 7}, None)).ends == {0: 7}
    assert not held.is_of("B")
    assert LogHeld.read(held.written('{"batch": 1}')) == replace(held, batch=1)
    assert LogHeld.read('{"batch": 1}') is None


def test_a_log_holds_nothing_of_what_gets_offsets_anew_behind_an_end_that_kafka_lost(tmp_path):
    lost = Gap("d.t", TOPIC, 0, 9, 7, reasons.END_LOST.says, since=5)
    other = replace(lost, partition=1, end=1, reason=reasons.RETENTION.says)
    before = replace(entry({0: 7, 1: 5}, {0: 7, 1: 5}), gaps=(lost, other))
    found = place(tmp_path, {0: (7, 8)}, before)
    assert found.lost == (lost,)
    held = LogHeld("A", {0: 9, 1: 3}, HIGH, batch=4)
    assert held.ends_lower(found.lost).ends == {0: 7, 1: 3}
    since = replace(held, batch=5)
    assert since.ends_lower(found.lost) == since, "what it said after that counts"
    again = replace(lost, end=8, since=6)
    assert held.ends_lower([lost, again]).ends == {0: 7, 1: 3}, "each that came since"
