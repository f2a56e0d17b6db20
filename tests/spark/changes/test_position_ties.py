"""Several changes at one place of the log: never taken for one that was sent again, and never the other way round."""

from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.arrow import change_facts
from ingest.arrow.column_values import UnfitError
from ingest.changes import batch_facts, envelope
from ingest.kafka.record_stream import SCHEMA
from ingest.model import position_ties
from ingest.model.epochs import Epoch
from ingest.model.manifest import HighWater
from ingest.model.position import Position
from ingest.model.position_ties import Tie
from ingest.model.specification import row
from ingest.model.topics import TableId
from ingest.source.resync import Requests
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import SNAPSHOT, delete, insert, update
from tests.conformance.targets import SparkTarget
from tests.support.binlog import PlainLog
from tests.support.events import message
from tests.support.mutants import Mutant

T = TableId("d", "t")
READERS = {"in the driver": {}, "by Spark": {"merge_engine": "spark"}}


class World:
    """One table of a job without MySQL: batches of changes, and what became of them."""

    def __init__(
        self, session, folder, changes, *, keyed=True, compressed=(), engine=(), epochs=(), **more
    ):
        records = [each if isinstance(each, Record) else Record(each) for each in changes]
        history = History(keyed, 1, snapshots=[SNAPSHOT], records=[records])
        self.asked = []
        self.target = SparkTarget(session, folder, history, spark=dict(engine), **more)
        self.target.binlog, self.target.epochs = PlainLog(*compressed), epochs
        self.target.start()

    def take(self, *ends):
        ask = lambda _, tables: self.asked.extend(tables)  # noqa: E731 (a method of that shape)
        with patch.object(Requests, "ask", ask):
            for end in ends:
                self.target.take({0: [end]})

    @property
    def gaps(self):
        return [gap for gap in self.target.batches.newest.gaps if gap.is_open]


COMPRESSED = {
    "an update and a delete of one row": (
        True,
        [insert(10, 1, "a"), update(20, 1, "a", "b"), delete(20, 1, "b")],
    ),
    "two updates of one row": (
        True,
        [insert(10, 1, "a"), update(20, 1, "a", "b"), update(20, 1, "b", "c")],
    ),
    "two rows by two statements": (
        True,
        [insert(10, 1, "a"), insert(20, 2, "b"), insert(20, 3, "c")],
    ),
    "an update behind a statement of many rows": (
        True,
        [
            insert(10, 1, "a"),
            insert(20, 2, "b"),
            insert(20, 3, "c", line=1),
            update(20, 1, "a", "z"),
        ],
    ),
    "rows without a key by two statements": (
        False,
        [insert(10, 1, "a", keyed=False), *[insert(20, n, "b", keyed=False) for n in (2, 3)]],
    ),
    "the same row without a key by two statements": (
        False,
        [insert(10, 1, "a", keyed=False), *[insert(20, 2, "b", keyed=False) for _ in range(2)]],
    ),
}


BY_SPARK_TOO = ["an update and a delete of one row", "two rows by two statements"]


@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "a batch ends in between"])
@pytest.mark.parametrize(
    ("name", "reader"),
    [*((name, "in the driver") for name in COMPRESSED), *((n, "by Spark") for n in BY_SPARK_TOO)],
)
def test_changes_of_a_compressed_transaction_open_a_gap(spark, tmp_path, name, reader, apart):
    keyed, changes = COMPRESSED[name]
    at, engine = [(1, 20)], READERS[reader]
    world = World(spark, tmp_path, changes, keyed=keyed, compressed=at, engine=engine)
    world.take(*([len(changes) - 1] if apart else []), len(changes))
    (gap,) = world.gaps[-1:]
    assert (gap.table, gap.position.file, gap.position.pos) == ("d.t0", 1, 20)
    assert "binlog_transaction_compression" in gap.reason
    assert "file 1, byte 20" in gap.reason
    assert set(world.asked) == {"d.t0"}
    world.target.remove()


SENT_AGAIN = {
    "at once": [insert(10, 1, "a"), update(20, 1, "a", "b"), update(20, 1, "a", "b")],
    "from the middle of a statement on": [
        insert(10, 1, "a"),
        *[insert(20, n, "b", line=n) for n in (2, 3, 4)],
        *[insert(20, n, "b", line=n) for n in (2, 3, 4)],
        update(30, 2, "b", "c"),
    ],
    "from before it on": [
        insert(10, 1, "a"),
        update(20, 1, "a", "b"),
        insert(10, 1, "a"),
        update(20, 1, "a", "b"),
        delete(30, 1, "b"),
    ],
}


@pytest.mark.parametrize(
    ("name", "reader"), [*((n, "in the driver") for n in SENT_AGAIN), ("at once", "by Spark")]
)
def test_what_is_sent_again_opens_none_wherever_a_batch_ends(spark, tmp_path, name, reader):
    changes = SENT_AGAIN[name]
    for end in range(1, len(changes)):
        world = World(spark, tmp_path, changes, compressed=[(1, 77)], engine=READERS[reader])
        world.take(end, len(changes))
        assert not world.gaps
        assert not world.asked
        last = {"at once": {row(id=1, v="b")}, "from before it on": set()}.get(name)
        if last is not None:
            assert set(world.target.content()) == last
        world.target.remove()


def test_a_compressed_transaction_that_is_one_statement_is_as_good_as_any_other(spark, tmp_path):
    changes = [
        insert(10, 1, "a"),
        *[insert(20, n, "b", line=n) for n in (2, 3)],
        delete(30, 1, "a"),
    ]
    world = World(spark, tmp_path, changes, compressed=[(1, 20)])
    world.take(2, 4)
    assert not world.gaps
    assert not world.target.binlog.asked
    assert set(world.target.content()) == {row(id=2, v="b"), row(id=3, v="b")}
    world.target.remove()


@pytest.mark.parametrize("by", ["both", "watermark"])
@pytest.mark.parametrize("ends", [(3,), (2, 3)], ids=["in one batch", "a batch ends in between"])
def test_changes_that_spark_s_state_has_dropped_are_looked_at_too(spark, tmp_path, by, ends):
    _, changes = COMPRESSED["two updates of one row"]
    world = World(spark, tmp_path, changes, compressed=[(1, 20)], dedup={"by": by})
    log, start = world.target.log, 0
    for number, end in enumerate(ends):
        log.batches.append({("h.d.t0", 0): (start, end)})
        kept = log.read({("h.d.t0", 0): (start, min(end, 2))})
        with patch.object(Requests, "ask", lambda *_: None):
            world.target.batches.apply(kept, number)
        start = end
    assert [gap.table for gap in world.gaps] == ["d.t0"]
    world.target.remove()


def test_parts_of_a_batch_that_are_read_one_after_the_other_are_compared_too(spark, tmp_path):
    _, changes = COMPRESSED["an update and a delete of one row"]
    world = World(spark, tmp_path, changes, compressed=[(1, 20)])
    whole = world.target.log.bring

    def in_parts(ranges, enough, keyed=()):
        for found in whole(ranges, enough, keyed):
            for place, part in found.items():
                yield from ({place: part.slice(at, 1)} for at in range(len(part)))

    with patch.object(world.target.log, "bring", in_parts):
        world.take(len(changes))
    assert [gap.table for gap in world.gaps] == ["d.t0"]
    world.target.remove()


def test_a_transaction_that_a_failover_cuts_in_two_opens_a_gap(spark, tmp_path):
    first, second = insert(10, 1, "a"), insert(12, 2, "b")
    rest = [
        Record(insert(5, 3, "the rest of it"), transaction=2),
        Record(insert(9, 4, "new"), transaction=3),
    ]
    records = [Record(first, transaction=1), Record(second, transaction=2), *rest]
    epochs = [Epoch(0, "a", "", {}), Epoch(1, "b", "", {("h.d.t0", 0): 2})]
    world = World(spark, tmp_path, records, epochs=epochs)
    world.take(2, 4)
    (gap,) = world.gaps
    assert "another server took over" in gap.reason
    assert gap.position >= Position(1, 1, 5)
    assert world.asked[0] == "d.t0"
    assert row(id=4, v="new") in world.target.content()
    world.target.remove()


def messages(places):
    return [
        message(op, pos, row=line, offset=offset, key={"id": 1}, **{image: {"id": 1}})
        for offset, (pos, line, op) in enumerate(places)
        for image in ["before" if op == "d" else "after"]
    ]


def grows(places):
    """The rule in Python."""
    parts = [(pos, line, 0 if op == "d" else 1) for pos, line, op in places]
    return all(one < other for one, other in pairwise(parts))


def by_arrow(places):
    fields = {
        "offset": pa.array(range(len(places)), pa.int64()),
        "op": pa.array([op for *_, op in places], pa.string()),
        "epoch": pa.array([0] * len(places), pa.int32()),
        "file": pa.array([1] * len(places), pa.int64()),
        "pos": pa.array([pos for pos, *_ in places], pa.int64()),
        "row": pa.array([line for _, line, _ in places], pa.int32()),
        "part": pa.array([0 if op == "d" else 1 for *_, op in places], pa.int32()),
    }
    try:
        change_facts.refuse_repeated(pa.table(fields))
    except UnfitError:
        return False
    return True


places = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from("cd")), min_size=1, max_size=6
)


@given(places | places.map(sorted))
def test_the_driver_leaves_to_spark_whatever_does_not_grow(drawn):
    assert by_arrow(drawn) == grows(drawn)


@settings(max_examples=25)
@given(places)
def test_spark_finds_a_tie_just_where_the_places_do_not_grow(spark, drawn):
    changes = envelope.changes(spark.createDataFrame(messages(drawn), SCHEMA))
    found = batch_facts.ties(changes, {})
    assert bool(found) == (not grows(drawn))
    parts = [(pos, line, 0 if op == "d" else 1) for pos, line, op in drawn]
    pairs = pairwise(parts)
    same = {one[0] for before, one in pairs if one <= before and one[0] == before[0]}
    assert {tie.position.pos for tie in found if tie.same} == same


def test_a_partition_s_mark_counts_as_the_change_before_it(spark):
    changes = envelope.changes(
        spark.createDataFrame(messages([(20, 0, "c"), (30, 0, "c")]), SCHEMA)
    )
    mark = {("p.d.t", 0): HighWater(0, Position(0, 1, 20, 0, 1), "uuid:1")}
    assert batch_facts.ties(changes, mark) == [Tie(T, Position(0, 1, 20, 0, 1), same=True)]
    beyond = {("p.d.t", 0): HighWater(0, Position(0, 1, 25, 0, 1), "uuid:1")}
    assert batch_facts.ties(changes, beyond) == [Tie(T, Position(0, 1, 20, 0, 1), same=False)]
    applied = {("p.d.t", 0): HighWater(1, Position(0, 1, 20, 0, 1), "uuid:1")}
    assert not batch_facts.ties(changes, applied), "below the offset all was applied"


def in_one_batch(spark, folder):
    name = "an update and a delete of one row"
    test_changes_of_a_compressed_transaction_open_a_gap(spark, folder, name, "in the driver", False)


def with_a_batch_end_in_between(spark, folder):
    name = "the same row without a key by two statements"
    test_changes_of_a_compressed_transaction_open_a_gap(spark, folder, name, "by Spark", True)


def sent_again(spark, folder):
    test_what_is_sent_again_opens_none_wherever_a_batch_ends(spark, folder, "at once", "by Spark")


MUTANTS = [
    Mutant(
        "the driver takes places that do not grow",
        change_facts,
        "refuse_repeated",
        lambda _: lambda notes: None,
        in_one_batch,
    ),
    Mutant(
        "the driver does not compare parts of a batch",
        change_facts,
        "follows",
        lambda _: lambda newest, then: True,
        test_parts_of_a_batch_that_are_read_one_after_the_other_are_compared_too,
    ),
    Mutant(
        "the change before a batch is forgotten",
        batch_facts,
        "ties",
        lambda original: lambda changes, marks: original(changes, {}),
        with_a_batch_end_in_between,
    ),
    Mutant(
        "whatever has the place of another was sent again",
        position_ties,
        "_other",
        lambda _: lambda tie, event: "",
        in_one_batch,
    ),
    Mutant(
        "nothing was sent again",
        position_ties,
        "_other",
        lambda _: lambda tie, event: "other",
        sent_again,
    ),
    Mutant(
        "what another server sends of the last transaction was sent again",
        position_ties,
        "torn",
        lambda _: lambda places: {},
        test_a_transaction_that_a_failover_cuts_in_two_opens_a_gap,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant_is_killed(spark, tmp_path, mutant):
    with mutant.in_place(), pytest.raises((AssertionError, ValueError)):
        mutant.killed_by(spark, tmp_path)
