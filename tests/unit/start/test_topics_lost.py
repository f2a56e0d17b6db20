"""What Kafka lost is a gap that the manifest says, and a table that is taken again."""

from dataclasses import replace

import pytest

from ingest.model import reasons
from ingest.model.manifest import HighWater
from ingest.model.position import Position
from ingest.model.start_facts import (
    KafkaFacts,
)
from ingest.start.start_decision import Start, decide
from tests.support.sound_start import IDLE, PLACE, SOUND, entry, facts


@pytest.mark.parametrize(
    ("now", "word", "onward"),
    [
        (KafkaFacts(15, 20, "T"), "retention", 15),
        (KafkaFacts(0, 3, "other"), "made again", 0),
        (KafkaFacts(0, 3, "T"), "its end was lost", 3),
        (None, "deleted", 0),
    ],
    ids=["retention", "made again", "cut short", "deleted"],
)
def test_records_that_kafka_lost_are_a_recorded_gap_and_a_resync_never_skipped(now, word, onward):
    kafka = {IDLE: KafkaFacts(0, 4, "I")} | ({PLACE: now} if now else {})
    start = decide(facts(kafka=kafka))
    assert isinstance(start, Start)
    assert start.resync == ("d.t",)
    assert start.entry is not None
    (gap,) = start.entry.gaps
    assert (gap.table, gap.start, gap.end, gap.since, gap.is_open) == ("d.t", 9, onward, 4, True)
    assert word in gap.reason
    assert start.entry.ends[PLACE] == onward


DELETED = {IDLE: KafkaFacts(0, 4, "I")}
"""Kafka without the topic of `d.t`."""


def after_the_deletion(**more):
    """Decided once; what a second start finds, which goes on with the checkpoint that the first one made."""
    first = decide(facts(kafka=DELETED, **more))
    assert [gap.reason for gap in first.entry.gaps] == [reasons.TOPIC_DELETED.says]
    checkpoint = replace(SOUND, ends={IDLE: 4}, begins={IDLE: 4})
    return facts(newest=first.entry, history=[first.entry], kafka=DELETED, checkpoint=checkpoint)


def test_a_topic_that_stays_deleted_is_one_gap_and_the_next_start_goes_on_as_ever():
    assert decide(after_the_deletion()) == Start(resume=True)


@pytest.mark.parametrize("read", [0, 3])
def test_a_topic_that_is_made_again_later_is_read_from_its_first_record(read):
    back = KafkaFacts(read, 5, "new")
    start = decide(replace(after_the_deletion(), kafka={PLACE: back, **DELETED}))
    if not read:
        assert start == Start(resume=True), "there is the manifest's offset 0"
        return
    (_, gap) = start.entry.gaps
    assert (gap.reason, gap.start, gap.end) == (reasons.RETENTION.says, 0, 3)
    assert start.entry.ends[PLACE] == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"offsets": {PLACE: (0, 2), IDLE: (4, 4)}},
        {"high_water": {PLACE: HighWater(0, None, "", "new")}},
    ],
    ids=["records of it were read", "another topic was seen"],
)
def test_one_that_was_read_since_and_is_deleted_once_more_is_another_gap(changed):
    again = after_the_deletion()
    newest = replace(again.newest, batch_id=5, **changed)
    start = decide(replace(again, newest=newest, history=[newest]))
    assert [(gap.since, gap.is_open) for gap in start.entry.gaps] == [(4, True), (6, True)]
    assert start.resync == ("d.t",)


def test_one_that_stays_deleted_after_its_table_was_taken_again_is_another_gap():
    """What came and went meanwhile nobody has seen."""
    again = after_the_deletion()
    closed = tuple(replace(gap, resync=Position(0, 1, 9)) for gap in again.newest.gaps)
    newest = replace(again.newest, gaps=closed)
    start = decide(replace(again, newest=newest, history=[newest]))
    assert [gap.is_open for gap in start.entry.gaps] == [False, True]


def test_of_a_table_that_is_not_taken_any_more_nothing_is_said_to_be_taken_again():
    start = decide(facts(kafka=DELETED, untaken=frozenset({"d.t"})))
    assert start.because == (
        "d.t: the topic was deleted; `source.tables` does not take the table, which stays as it is",
    )


def test_a_connector_is_to_make_the_topics_again_of_tables_that_it_still_reads():
    """Of one that is excluded or dropped nothing comes, and of one that has brought no record there was no topic."""
    taken = {"d.t": "p.d.t", "d.new": "p.d.new"}
    topic_of = {"d.t": "p.d.t", "d.new": "p.d.new", "d.idle": "p.d.idle"}
    assert facts(kafka=DELETED, taken=taken, topic_of=topic_of).deleted == {"d.t"}
    assert facts(kafka={}, taken=taken, topic_of=topic_of).deleted == {"d.t"}
    assert facts(kafka=DELETED, topic_of=topic_of).deleted == set()
    assert facts(taken=taken, topic_of=topic_of).deleted == set()
    assert facts(newest=None, kafka={}, taken=taken).deleted == set()


def test_what_gets_an_offset_anew_behind_an_end_that_kafka_lost_is_not_taken_for_applied():
    start = decide(facts(kafka={PLACE: KafkaFacts(0, 3, "T"), IDLE: KafkaFacts(0, 4, "I")}))
    assert isinstance(start, Start)
    assert start.entry is not None
    mark = start.entry.high_water[PLACE]
    assert (mark.offset, mark.position) == (3, entry().high_water[PLACE].position)


def test_an_end_is_missed_also_where_changes_wait_before_it():
    stopped = replace(entry().tables["d.t"], stopped="why")
    waits = replace(
        entry(),
        tables={"d.t": stopped},
        high_water={PLACE: replace(entry().high_water[PLACE], offset=5)},
    )
    start = decide(
        facts(newest=waits, kafka={PLACE: KafkaFacts(0, 7, "T"), IDLE: KafkaFacts(0, 4, "I")})
    )
    assert isinstance(start, Start)
    assert start.entry is not None
    (gap,) = start.entry.gaps
    assert (gap.end, "its end was lost" in gap.reason) == (7, True)
    assert (start.entry.ends[PLACE], start.entry.high_water[PLACE].offset) == (5, 5)
    assert start.resync == ("d.t",)
