"""A topic whose beginning is gone from Kafka is a gap, whether the manifest knows the topic or has no row at all."""

from dataclasses import replace

import pytest

from ingest.config.pipeline_file import parse
from ingest.lake.manifest import next_entry
from ingest.model.offset_ranges import left
from ingest.model.position import Position
from ingest.model.start_facts import KafkaFacts
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.start import start_decision, where_to_go_on
from ingest.start.gather_facts import taken
from ingest.start.start_decision import Start, decide
from tests.support.declared_tables import column, record
from tests.support.mutants import Mutant
from tests.support.small_lake import SmallLake
from tests.support.sound_start import GONE, IDLE, PLACE, SOUND, facts

NEW = ("p.d.new", 0)
LATE = {NEW: KafkaFacts(500, 600, "N")}
HERE = facts().kafka
PINNED = Position(0, 1, 5)
TAKEN = {"taken": {"d.new": "p.d.new"}, "pinned": {"d.new": PINNED}}


def first(**more):
    """Before the manifest's first row."""
    nothing = {"newest": None, "history": [], "lake": [], "topic_of": {}, "checkpoint": GONE}
    return facts(**{**nothing, "kafka": LATE, **TAKEN, **more})


@pytest.mark.parametrize("checkpoint", [SOUND, GONE])
def test_a_new_topic_without_its_beginning_is_a_gap_and_the_table_is_taken(checkpoint):
    """With the old checkpoint Spark refuses it (it starts from 500 instead of 0), so there is a new one."""
    start = decide(facts(kafka=HERE | LATE, checkpoint=checkpoint, **TAKEN))
    assert isinstance(start, Start)
    (gap,) = start.entry.gaps
    assert (gap.table, gap.topic, gap.start, gap.end, gap.since) == ("d.new", *NEW[:1], 0, 500, 4)
    assert gap.position == PINNED, "its snapshot is among what is lost"
    assert (start.resync, start.resume) == (("d.new",), False)
    assert start.entry.ends == {PLACE: 9, IDLE: 4, NEW: 500}


def test_so_it_is_beside_a_topic_that_has_lost_records():
    kafka = {PLACE: KafkaFacts(15, 20, "T"), IDLE: KafkaFacts(0, 4, "I"), **LATE}
    start = decide(facts(kafka=kafka, **TAKEN))
    assert [(gap.table, gap.start, gap.end) for gap in start.entry.gaps] == [
        ("d.new", 0, 500),
        ("d.t", 9, 15),
    ]


@pytest.mark.parametrize("checkpoint", [GONE, replace(SOUND, begins={NEW: 500})])
def test_the_very_first_start_records_what_is_gone_before_it_streams(checkpoint):
    start = decide(first(checkpoint=checkpoint))
    assert isinstance(start, Start)
    assert (start.entry.batch_id, start.entry.ends) == (1, {NEW: 500})
    assert [(gap.table, gap.start, gap.end) for gap in start.entry.gaps] == [("d.new", 0, 500)]
    assert (start.resync, start.resume) == (("d.new",), False)
    assert start.because == (
        "d.new: Kafka removed records before they were applied (retention); taking the table again",
    )


def test_a_first_start_with_all_that_was_ever_written_needs_no_row():
    assert decide(first(kafka={NEW: KafkaFacts(0, 600, "N")})) == Start()
    assert decide(first(kafka={})) == Start()


def test_a_checkpoint_from_which_a_first_batch_would_leave_something_out_does_not_go_on():
    whole = {NEW: KafkaFacts(0, 600, "N")}
    assert decide(first(kafka=whole, checkpoint=replace(SOUND, begins={NEW: 0}))).resume
    assert not decide(first(kafka=whole, checkpoint=replace(SOUND, begins={NEW: 500}))).resume


def test_a_new_partition_of_a_known_topic_without_its_beginning_is_one_too():
    start = decide(facts(kafka=HERE | {("p.d.t", 1): KafkaFacts(3, 8, "T")}))
    assert [(gap.table, gap.partition, gap.end) for gap in start.entry.gaps] == [("d.t", 1, 3)]


@pytest.mark.parametrize("newest", [True, False])
def test_a_topic_of_no_table_that_is_taken_is_no_gap_and_is_begun_where_it_begins(newest):
    """Of a table that was dropped or is excluded, perhaps of an earlier pipeline by this name. Spark reads it all the
    same, and would refuse to begin it behind its first offset.
    """
    start = decide(
        facts(kafka=HERE | LATE) if newest else first(taken={}, pinned={}, checkpoint=SOUND)
    )
    assert isinstance(start, Start)
    assert (start.entry.gaps, start.resync, start.resume) == ((), (), False)
    assert start.entry.ends[NEW] == 500
    assert "of no table that is taken" in start.because[0]


def test_who_asks_for_the_beginning_is_told_what_of_it_is_gone():
    kafka = {PLACE: KafkaFacts(15, 20, "T"), IDLE: KafkaFacts(2, 4, "I"), **LATE}
    start = decide(facts(kafka=kafka, from_beginning=True, **TAKEN))
    assert [(gap.table, gap.start, gap.end) for gap in start.entry.gaps] == [
        ("d.new", 0, 500),
        ("d.t", 9, 15),
    ]
    assert start.entry.ends == {PLACE: 15, IDLE: 2, NEW: 500}
    assert start.because[0] == "reading every topic again from its beginning"


def test_a_batch_that_would_begin_behind_a_new_topic_s_first_record_is_decided_anew():
    """Whatever is removed between the decision and Spark's first look."""
    newest = next_entry.before_the_first()
    assert left(newest, {NEW: (0, 4)})
    assert left(newest, {NEW: (500, 600)}) is None
    assert left(decide(first()).entry, {NEW: (500, 600)}) == {NEW: (500, 600)}


PIPELINE = """
name: p
source: {mysql: "mysql://u@h:3306", password: {env: P}, tables: ["d.*", "!d.hidden"]}
kafka: {bootstrap_servers: "h:9092"}
connect: {url: "http://h:8083"}
lake: {path: "/l"}
"""


def test_what_is_taken_is_what_the_source_has_and_no_pattern_excludes():
    known = Catalog()
    for name, kind in (("t", "CREATE"), ("hidden", "CREATE"), ("gone", "CREATE"), ("gone", "DROP")):
        known.add(record(100, kind, [column("id")], table=f'"d"."{name}"'), 0)
    current = {version.table: None for version in known.current()}
    assert taken(parse(PIPELINE), current) == {"d.t": "p.d.t"}
    assert TableId("d", "hidden") in current


def test_a_lake_that_begins_with_a_gap_is_gone_on_with_and_decided_once(tmp_path):
    lake = SmallLake(tmp_path / "lake")
    (tmp_path / "lake" / "d").mkdir(parents=True)
    lake.kafka = {("p.d.a", 0): KafkaFacts(5, 9, "a")}
    more = {"taken": {"d.a": "p.d.a"}}
    start = decide(lake.facts(**more))
    lake.publish(start.entry.without_changes("rewind", start.entry.batch_id, 1))
    assert (lake.newest.batch_id, lake.gaps()) == (1, {"d.a"})
    again = decide(lake.facts(**more))
    assert (again.entry, again.resync) == (None, ())
    lake.batch({"a": 8})
    assert (lake.newest.batch_id, lake.rows("a")) == (2, [5, 6, 7])
    assert decide(lake.facts(**more)).resume


MUTANTS = [
    Mutant(
        "only topics that the manifest knows have gaps",
        where_to_go_on,
        "_over_beginnings_lost",
        lambda _: lambda facts, decided: decided,
        lambda: test_a_new_topic_without_its_beginning_is_a_gap_and_the_table_is_taken(GONE),
    ),
    Mutant(
        "a first start decides nothing",
        start_decision,
        "_first",
        lambda _: lambda facts: Start(),
        lambda: test_the_very_first_start_records_what_is_gone_before_it_streams(GONE),
    ),
    Mutant(
        "each topic is some table's",
        where_to_go_on,
        "_names",
        lambda _: lambda facts: {"p.d.new": "d.new", "p.d.t": "d.t"},
        lambda: test_a_topic_of_no_table_that_is_taken_is_no_gap_and_is_begun_where_it_begins(True),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    with mutant.in_place(), pytest.raises((AssertionError, AttributeError)):
        mutant.killed_by()
