"""`where_to_go_on`: what a start writes into the manifest, one decision after the other."""

import sys
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.batch.doubtful_tables import Retaking
from ingest.changes.restarted_snapshots import Cleanup, lost_rows
from ingest.config.pipeline_file import parse as parsed
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import HighWater, TableState
from ingest.model.position import Position
from ingest.model.start_facts import Foreign, KafkaFacts, LakeFacts
from ingest.model.topics import TableId
from ingest.observe.pipeline_status import excluded
from ingest.source.binlog import MySqlLog
from ingest.source.resync import Requests
from ingest.start import where_to_go_on as decision
from ingest.start.gather_facts import _untaken, topics_of
from ingest.start.where_to_go_on import where_to_go_on
from tests.support.mutants import Mutant
from tests.support.sound_start import TABLE, entry, facts

A, B, C, E = (f"d.{name}" for name in "abce")
TOPIC_OF = {name: f"p.{name}" for name in (A, B, C, E)}
AT = Position(0, 1, 7)
PIPELINE = """
name: p
source: {mysql: "mysql://u@h:3306", password: {env: P}, tables: ["d.*"]}
kafka: {bootstrap_servers: "h:9092"}
connect: {url: "http://h:8083"}
lake: {path: "LAKE"}
"""


APPLIED = {
    ("p.d.b", 0): HighWater(4, AT, "", "B"),
    ("p.d.a", 0): HighWater(9, AT, "", "A"),
}


def after_everything_at_once():
    """Tables gone and restored, policies changed, topics deleted, made again and cut by retention."""
    held = {
        A: TableState("/l/d/a", 7, left_out=("w",), kept=("old",)),
        B: TableState("/l/d/b", 7, paused=AT, paused_by="ALTER TABLE b DROP v"),
        C: TableState("/l/d/c", 7),
        E: TableState("/l/d/e", 7, kept=("x", "y")),
    }
    places = {(topic, 0): (9, 9) for topic in TOPIC_OF.values()}
    then = entry(2, offsets={("p.d.c", 0): (0, 3)}, tables={C: TableState("/l/d/c", 5)})
    newest = entry(3, offsets=places, tables=held, high_water=APPLIED)
    return where_to_go_on(
        facts(
            newest=newest,
            history=[newest, then],
            topic_of=TOPIC_OF,
            lake=[
                LakeFacts(E, "/l/d/e", None),
                LakeFacts(C, "/l/d/c", 8, foreign=Foreign(8, "RESTORE", restored_to=6)),
            ],
            kafka={
                ("p.d.a", 0): KafkaFacts(0, 9, "new"),
                ("p.d.b", 0): KafkaFacts(6, 9, "B"),
                ("p.d.c", 0): KafkaFacts(0, 9, "C"),
            },
        ),
        newest,
    )


def test_each_decision_is_said_in_the_order_in_which_it_was_taken():
    """Tables first, then policies table by table, then what Kafka has lost; texts are the manifest's, too."""
    found = after_everything_at_once()
    left_out = "the columns 'w' were left out of the lake until now"
    made_again = "the topic was deleted and made again"
    removed = "Kafka removed records before they were applied (retention)"
    assert found.because == (
        "d.e is gone from the lake; filling it again",
        "d.c was restored to an older version; applying again what came after batch 2",
        f"d.a: {left_out}; taking the table again",
        "d.a: the columns 'old', kept until now, go",
        "d.b: going on with what waited behind 'ALTER TABLE b DROP v'",
        f"d.a: {made_again}; taking the table again",
        f"d.b: {removed}; taking the table again",
        "d.e: the topic was deleted; taking the table again",
    )
    assert found.resync == (A, B, E)
    assert found.restore == (("/l/d/c", 5),)
    assert found.gaps == (
        Gap(A, "p.d.a", 0, 9, 9, left_out, 4),
        Gap(A, "p.d.a", 0, 9, 0, made_again, 4),
        Gap(B, "p.d.b", 0, 4, 6, removed, 4),
        Gap(E, "p.d.e", 0, 0, 0, "the topic was deleted", 4),
    )
    assert found.tables == {
        A: TableState("/l/d/a", 7),
        B: TableState("/l/d/b", 7),
        C: TableState("/l/d/c", 9),  # once it is restored to version 5
    }
    assert {topic: at for (topic, _), at in found.offsets.items()} == {
        "p.d.a": 0,
        "p.d.b": 6,
        "p.d.c": 3,
        "p.d.e": 0,
    }
    assert found.marks == {
        ("p.d.a", 0): HighWater(0, AT, "", "new"),
        ("p.d.b", 0): APPLIED["p.d.b", 0],
        ("p.d.c", 0): HighWater(),
        ("p.d.e", 0): HighWater(),
    }


def test_a_table_restored_to_a_batch_of_before_a_new_beginning_goes_on_behind_that_batch():
    """It holds all that the batch had read, though the newest row of the manifest was set back to the first record."""
    then = entry(2, offsets={("p.d.c", 0): (0, 7)}, tables={C: TableState("/l/d/c", 5)})
    newest = entry(3, offsets={("p.d.c", 0): (0, 0)}, tables={C: TableState("/l/d/c", 6)})
    start = facts(
        newest=newest,
        history=[newest, then],
        topic_of=TOPIC_OF,
        lake=[LakeFacts(C, "/l/d/c", 8, foreign=Foreign(8, "RESTORE", restored_to=5))],
        kafka={("p.d.c", 0): KafkaFacts(0, 9, "C")},
    )
    found = where_to_go_on(start, newest)
    assert (found.offsets, found.gaps, found.resync) == ({("p.d.c", 0): 7}, (), ())


def of_hidden(earliest=0):
    """A snapshot of a table without a key was not whole when the job ended: it waits from offset 4 on, 9 are read."""
    place = ("p.d.c", 0)
    state = TableState("/l/d/c", 6, position=AT, hidden=Position(0, 2, 4))
    marks = {place: HighWater(4, AT, "", "C")}
    newest = entry(3, offsets={place: (9, 9)}, tables={C: state}, high_water=marks)
    kafka = {place: KafkaFacts(earliest, 12, "C")}
    lake = [LakeFacts(C, "/l/d/c", 6)]
    return facts(newest=newest, history=[newest], topic_of=TOPIC_OF, lake=lake, kafka=kafka)


def test_a_snapshot_that_waits_in_kafka_is_read_again_from_where_it_begins():
    start = of_hidden()
    found = where_to_go_on(start, start.newest)
    assert (found.offsets, found.tables[C].hidden) == ({("p.d.c", 0): 4}, None)
    assert found.mark(("p.d.c", 0)).offset == 4
    assert (found.gaps, found.resync) == ((), ())
    (said,) = found.because
    assert "its snapshot is looked at again" in said


def test_one_of_which_kafka_has_lost_rows_is_a_gap_and_its_table_is_taken_again():
    start = of_hidden(earliest=6)
    found = where_to_go_on(start, start.newest)
    assert (found.offsets, found.resync) == ({("p.d.c", 0): 6}, (C,))
    (gap,) = found.gaps
    assert (gap.start, gap.end, gap.is_open) == (4, 6, True)


def of_moved_away(**more):
    newest = entry(3, offsets={("p.d.c", 0): (9, 9)}, tables={C: TableState("/l/d/c", 6)})
    kafka = {("p.d.c", 0): KafkaFacts(0, 9, "C")}
    lake = [LakeFacts(C, "/l/d/c", None)]
    return facts(newest=newest, history=[newest], topic_of=TOPIC_OF, lake=lake, kafka=kafka, **more)


def test_a_table_that_is_not_taken_any_more_and_was_moved_away_is_forgotten_and_not_filled_again():
    start = of_moved_away(untaken=frozenset({C}))
    found = where_to_go_on(start, start.newest)
    assert (found.tables, found.offsets) == ({}, {("p.d.c", 0): 9})
    assert (found.gaps, found.resync) == ((), ())
    (said,) = found.because
    assert "d.c is gone from the lake" in said
    assert "it is forgotten" in said
    taken = of_moved_away()
    assert where_to_go_on(taken, taken.newest).offsets == {("p.d.c", 0): 0}


def test_tables_that_the_pipeline_file_does_not_take_any_more_are_known_by_its_patterns():
    newest = entry(3, tables={"d.t": TableState("/l/d/t", 1), "x.`a.b`": TableState("/l/x/a", 1)})
    assert _untaken(newest, ["d.*"]) == {"x.`a.b`"}
    assert _untaken(newest, ["*.*", "!d.t"]) == {"d.t"}
    assert _untaken(None, ["d.*"]) == frozenset()


@pytest.mark.parametrize(
    ("untaken", "snapshot", "pinned", "hidden", "has_gap"),
    [
        (True, 5, 9, False, True),
        (True, 5, 9, True, True),
        (True, 9, 9, True, True),
        (True, 9, 9, False, False),
        (True, 9, None, False, False),
        (False, 5, 9, True, False),
    ],
)
def test_a_table_that_is_excluded_while_it_is_read_has_a_gap_which_that_reading_does_not_close(
    untaken, snapshot, pinned, hidden, has_gap
):
    def place(pos):
        return None if pos is None else Position(0, 1, pos)

    state = replace(TABLE, snapshot=place(snapshot), hidden=AT if hidden else None)
    newest = entry(tables={"d.t": state})
    told = {} if pinned is None else {"d.t": place(pinned)}
    start = facts(newest=newest, pinned=told, untaken=frozenset({"d.t"} if untaken else ()))
    found = where_to_go_on(start, newest)
    assert [gap.reason for gap in found.gaps] == [reasons.EXCLUDED.says] * has_gap
    if has_gap:
        assert lost_rows(Cleanup(TableId("d", "t"), place(pinned)), found.gaps)
        again = replace(newest, gaps=found.gaps)
        assert where_to_go_on(replace(start, newest=again), again).gaps == found.gaps


GONE = "p.d.aside"
"""A topic that was read, of a table without a row in the lake."""


def of_gone(**more):
    newest = entry(3, offsets={(GONE, 0): (5, 5)}, high_water={}, tables={}, **more)
    return facts(newest=newest, history=[newest], lake=[], kafka={}, topic_of={})


def test_a_table_without_a_row_in_the_lake_is_known_by_the_schemas_that_were_streamed():
    """Set aside from the start, or with all of its changes in quarantine: it has a topic and no row in the manifest."""
    pipeline = parsed(PIPELINE)
    newest = entry(3, offsets={("p.d.t", 0): (9, 9), ("p.d.aside", 0): (5, 5)})
    streamed = [TableId("d", "aside"), TableId("d", "never_read"), TableId("d", "t")]
    known = topics_of(pipeline, newest, streamed)
    assert known == {"d.t": "p.d.t", "d.aside": "p.d.aside"}
    start = facts(newest=newest, topic_of=known, kafka={("p.d.t", 0): KafkaFacts(0, 9, "T")})
    assert where_to_go_on(start, newest).resync == ("d.aside",)


def test_what_kafka_lost_of_a_topic_whose_table_nobody_knows_is_an_open_gap_and_no_table_to_ask_for():
    start = of_gone()
    found = where_to_go_on(start, start.newest)
    (gap,) = found.gaps
    assert (gap.table, gap.of, gap.is_open) == (GONE, None, True)
    assert found.resync == ()
    assert found.because == (
        "p.d.aside: the topic was deleted; which table that topic carries is not known",
    )


def test_a_gap_that_an_earlier_start_knew_by_its_topic_alone_is_its_table_s_once_that_is_known():
    """So a lake goes on that an earlier version could not start any more."""
    old = Gap(GONE, GONE, 0, 5, 0, "the topic was deleted", 3)
    closed = replace(old, resync=AT)
    start = of_gone(gaps=(closed, old))
    known = replace(start, topic_of={"d.aside": GONE}, kafka={(GONE, 0): KafkaFacts(0, 9, "new")})
    found = where_to_go_on(known, known.newest)
    assert found.gaps == (closed, replace(old, table="d.aside"))
    assert found.resync == ("d.aside",)
    assert found.because == ("d.aside: the topic was deleted; taking the table again",)


def test_a_table_that_only_a_person_has_taken_again_keeps_its_gap_and_is_not_asked_for():
    start = of_gone()
    known = replace(start, topic_of={"d.aside": GONE}, by_hand=frozenset({"d.aside"}))
    found = where_to_go_on(known, known.newest)
    (gap,) = found.gaps
    assert (gap.table, gap.is_open, found.resync) == ("d.aside", True, ())
    (said,) = found.because
    assert said.startswith("d.aside: the topic was deleted; it is not taken again by itself")
    sound = facts(by_hand=frozenset({"d.t"}))
    assert not where_to_go_on(sound, sound.newest).changes(sound.newest)


def test_a_gap_that_is_known_by_its_topic_alone_stops_neither_a_batch_nor_a_report(tmp_path):
    pipeline = parsed(PIPELINE.replace("LAKE", str(tmp_path)))
    unknown, excluded_one = (Gap(name, GONE, 0, 5, 0, "deleted", 3) for name in (GONE, "x.y"))
    requests = Requests(pipeline)
    Retaking(pipeline, requests, MySqlLog(pipeline, [])).ask(entry(gaps=(unknown,)), {})
    assert requests.open() == []
    assert excluded([unknown, excluded_one], pipeline.source.tables) == {"x.y"}


MUTANTS = [
    Mutant(
        "what a policy lets go is not let go",
        decision,
        "_released",
        lambda _: lambda facts, decided: decided,
        test_each_decision_is_said_in_the_order_in_which_it_was_taken,
    ),
    Mutant(
        "a gap keeps its topic's name",
        decision,
        "_with_gaps_named",
        lambda _: lambda facts, decided: decided,
        test_a_gap_that_an_earlier_start_knew_by_its_topic_alone_is_its_table_s_once_that_is_known,
    ),
    Mutant(
        "a topic's name is taken for a table's",
        Gap,
        "of",
        lambda _: property(lambda gap: TableId.parse(gap.table)),
        test_what_kafka_lost_of_a_topic_whose_table_nobody_knows_is_an_open_gap_and_no_table_to_ask_for,
    ),
    Mutant(
        "only tables with a row are known",
        sys.modules[__name__],
        "topics_of",
        lambda of: lambda pipeline, newest, _: of(pipeline, newest),
        test_a_table_without_a_row_in_the_lake_is_known_by_the_schemas_that_were_streamed,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    with mutant.in_place(), pytest.raises((AssertionError, ValueError)):
        mutant.killed_by()


OFFSETS = st.integers(0, 9)
PLACES = [(topic, number) for topic in TOPIC_OF.values() for number in (0, 1)]
STATES = st.builds(
    TableState,
    st.just("/l"),
    st.integers(0, 8),
    paused=st.none() | st.just(AT),
    paused_by=st.just("ALTER"),
    left_out=st.sampled_from([(), ("w",)]),
    kept=st.sampled_from([(), ("old",)]),
)
MARKS = st.builds(HighWater, OFFSETS, st.just(AT), st.just(""), st.sampled_from(["", "T", "U"]))
HELD = st.dictionaries(st.sampled_from(sorted(TOPIC_OF)), STATES)
RESTORED = st.builds(Foreign, st.just(9), st.just("RESTORE"), st.integers(0, 8))


@st.composite
def entries(draw, batch_id=3):
    ends = draw(st.dictionaries(st.sampled_from(PLACES), OFFSETS))
    return entry(
        batch_id,
        offsets={place: (end, end) for place, end in ends.items()},
        high_water=draw(st.dictionaries(st.sampled_from(PLACES), MARKS)),
        tables=draw(HELD),
    )


@st.composite
def starts(draw):
    newest = draw(entries())
    lake = [
        LakeFacts(name, "/l", *draw(st.sampled_from([(None,), (9,)])))
        for name in draw(st.lists(st.sampled_from(sorted(TOPIC_OF)), unique=True))
    ]
    kafka = {
        place: KafkaFacts(*sorted((draw(OFFSETS), draw(OFFSETS))), draw(st.sampled_from("TU")))
        for place in draw(st.sets(st.sampled_from(PLACES)))
    }
    return facts(
        newest=newest,
        history=[newest, draw(entries(2))],
        lake=[
            replace(one, foreign=draw(st.none() | RESTORED)) if one.version else one for one in lake
        ],
        kafka=kafka,
        topic_of=TOPIC_OF,
        from_beginning=draw(st.booleans()),
        barred=draw(st.frozensets(st.sampled_from(sorted(TOPIC_OF)))),
        untaken=draw(st.frozensets(st.sampled_from(sorted(TOPIC_OF)))),
        ignored=draw(
            st.dictionaries(
                st.sampled_from(sorted(TOPIC_OF)),
                st.frozensets(st.sampled_from(["add_column", "drop_column"])),
            )
        ),
    )


@given(starts())
def test_a_decision_leaves_its_facts_as_they_were(start):
    before = deepcopy(start)
    where_to_go_on(start, start.newest)
    assert start == before


@given(starts())
def test_no_record_is_skipped_but_by_a_gap_whose_table_is_taken_again(start):
    """A restored table may go on behind an older batch, which may have read more than the newest, that was set back. Of a
    topic that the manifest does not know, nothing was read.
    """
    found = where_to_go_on(start, start.newest)
    restored = {start.topic_of.get(one.name) for one in start.lake if one.foreign}
    for place, at in found.offsets.items():
        known = start.history if place[0] in restored else [start.newest]
        was_read = max(one.ends.get(place, 0) for one in known)
        gaps = [gap for gap in found.gaps if (gap.topic, gap.partition) == place]
        assert {gap.table for gap in gaps} <= {*found.resync}
        if at > was_read:
            # From the beginning, a topic that was made again may have lost its own: its table is taken again anyhow.
            assert start.from_beginning or at in [gap.end for gap in gaps]
            assert all(gap.start < at for gap in gaps if gap.end == at)
            assert gaps


@given(starts())
def test_whatever_kafka_still_has_of_a_topic_is_read_or_was_read(start):
    """So that a topic that nobody has read yet is begun where it begins, and no later."""
    found = where_to_go_on(start, start.newest)
    for place, now in start.kafka.items():
        if place not in start.newest.ends and place not in found.marks:
            assert found.offsets.get(place, 0) in (0, now.earliest)


@given(starts())
def test_what_is_decided_is_not_decided_again(start):
    """Nor of topics that are not there, until the connector has made them again. One made again with its first records gone
    already takes a second decision, and never a third.
    """
    start = replace(start, from_beginning=False)
    for _ in range(2):
        decided = where_to_go_on(start, start.newest)
        start = replace(start, newest=decided.as_entry(start.newest), lake=[])
    settled = where_to_go_on(start, start.newest)
    assert settled.because == ()
    assert not settled.changes(start.newest)
