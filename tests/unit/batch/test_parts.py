"""Spark's batches become batches of ours: whatever each takes, whatever comes meanwhile, and wherever it dies, each record once."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.batch.batch_size import MUCH, TARGET
from ingest.batch.micro_batch import Batches
from ingest.batch.parts import Parts, StaleCheckpointError, number
from ingest.lake.manifest import next_entry
from ingest.model import offset_ranges
from ingest.model.offset_ranges import filled, records_of
from ingest.model.start_facts import Note
from tests.support.sound_start import IDLE, PLACE, entry

BIG, QUIET, NEW = ("p.d.big", 0), ("p.d.quiet", 0), ("p.d.new", 0)
BESIDE = ("p.d.big", 1)


class Kafka:
    """Partitions and where they end."""

    def __init__(self, ends):
        self.there = dict(ends)

    def ends(self, topics):
        return {place: end for place, end in self.there.items() if place[0] in topics}


def begun(kafka, most=200_000, megabytes=128):
    settings = SimpleNamespace(max_changes_per_batch=most, max_megabytes_per_batch=megabytes)
    return Parts(SimpleNamespace(spark=settings), kafka)


def published(newest, part, cut=(), spark=(0, 0), parts=None):
    """The manifest's next row. ``cut``: where the reader stopped; ``parts``: which are told of it."""
    newest = newest or next_entry.before_the_first("c")
    note = Note(newest.batch_id + 1, "c", part.ranges, spark=spark).up_to(dict(cut))
    touched = list(filled(note.ranges))
    entry = next_entry.entry(
        newest, note, {}, [], touched, catalog=None, topic_ids={}, topic=str, waiting={}, doubts={}
    )
    entry = replace(entry, seconds=TARGET if records_of(note.ranges) > MUCH else 0.1)
    if parts is not None:
        parts.took(entry, note.ranges, 0)
    return entry


@given(st.data())
def test_each_record_is_in_one_part_and_in_order_whatever_comes_and_wherever_a_run_dies(data):
    places = [BIG, BESIDE, QUIET, NEW]
    kafka = Kafka({place: data.draw(st.integers(0, 3 * MUCH)) for place in places})
    exact = data.draw(st.booleans(), "with state")
    parts, newest, spark_s = begun(kafka, data.draw(st.integers(1, 3 * MUCH))), None, {}
    for spark_batch in range(data.draw(st.integers(1, 4))):
        for place in places:
            kafka.there[place] += data.draw(st.integers(0, MUCH))
        at = {place: data.draw(st.integers(spark_s.get(place, 0), kafka.there[place])) for place in places}  # fmt: skip
        ranges = {place: (spark_s.get(place, 0), end) for place, end in at.items()}
        named = []
        while part := parts.next(newest, ranges, exact=exact):
            cut = {}
            if part.most and data.draw(st.booleans(), "a reader stops"):
                one = data.draw(st.sampled_from(sorted(filled(part.ranges))))
                start, end = part.ranges[one]
                cut = {one: data.draw(st.integers(start + 1, end))}
            which = number(newest, spark_batch, "c")
            grown = offset_ranges.grown(newest, part.ranges)
            whole = {place: kafka.there[place] for place in (BIG, BESIDE) if place[0] in grown}
            for place, end in whole.items():
                assert part.ranges[place][1] == end, "a key may have moved"
            after = published(newest, part, cut, (spark_batch, which), parts)
            for place, (start, end) in after.offsets.items():
                assert start == (newest.ends.get(place, 0) if newest else 0), "no hole, none twice"
                assert start <= end <= kafka.there[place]
                assert not exact or end <= max(ranges[place][1], start, whole.get(place, 0))
            assert filled(after.offsets)
            named.append((after.spark_batch, after.part))
            newest = after
            if data.draw(st.booleans(), "a run dies"):
                parts = begun(kafka, parts.pipeline.spark.max_changes_per_batch)
        assert named == [(spark_batch, which) for which in range(len(named))]
        spark_s = at
        assert all(newest is None or newest.ends.get(place, 0) >= end for place, end in at.items())


def test_a_table_that_is_fresh_is_brought_up_to_date_with_every_part_of_a_flood():
    kafka = Kafka({BIG: 1_000_000, QUIET: 10})
    parts = begun(kafka)
    first = parts.next(None, {QUIET: (0, 10), BIG: (0, 0)}, exact=False)
    newest = published(None, first, parts=parts)
    kafka.there[QUIET] = 11
    ranges, seen = {BIG: (0, 199_999), QUIET: (10, 11)}, []  # as Spark shares it out
    while part := parts.next(newest, ranges, exact=False):
        kafka.there[QUIET] += 7
        seen.append((filled(part.ranges)[BIG], part.ranges[QUIET][1]))
        newest = published(newest, part, parts=parts)
    assert len(seen) > 5, "parts are short, as somebody waits"
    ends = [end for _, end in seen[:-1]]  # of the last one nothing is left that would take long
    assert ends == [11 + 7 * n for n in range(len(ends))]


def test_a_drain_is_done_in_as_few_parts_as_its_limit_allows():
    kafka = Kafka({BIG: 1_000_000, QUIET: 10})
    parts, newest, many = begun(kafka), None, 0
    while part := parts.next(newest, {BIG: (0, 1_000_000), QUIET: (0, 10)}, exact=False):
        newest, many = published(newest, part, parts=parts), many + 1
    assert many == 5 + 1


def test_what_is_left_of_a_range_is_in_the_next_part_whole_however_much_waits_elsewhere():
    many = {(f"p.d.t{n}", 0): 1_000_000 for n in range(50)}
    parts = begun(Kafka({**many, QUIET: 4_900}), most=10_000)
    ranges = {**dict.fromkeys(many, (0, 100)), QUIET: (0, 4_900)}
    newest = published(None, parts.next(None, ranges, exact=False), parts=parts)
    left = offset_ranges.left(newest, ranges)
    assert 0 < records_of(left) <= MUCH
    part = parts.next(newest, ranges, exact=False)
    assert not filled(offset_ranges.left(published(newest, part, parts=parts), ranges))
    assert records_of(part.ranges) >= 9_990, "with as much of the others as there is room for"


@pytest.mark.parametrize("much", [2, MUCH * 2])
def test_a_partition_that_fills_behind_spark_s_range_is_not_reached_into_before_spark_names_it(
    much,
):
    """A key may have moved to it whose newest change is far on in the other one."""
    kafka = Kafka({BIG: 1_000_000, BESIDE: 0})
    parts = begun(kafka, most=10_000)
    newest = published(
        None, parts.next(None, {BIG: (0, 10_000), BESIDE: (0, 0)}, exact=False), parts=parts
    )
    kafka.there[BESIDE] = 5
    done = newest.ends[BIG]
    part = parts.next(newest, {BIG: (done, done + much), BESIDE: (0, 0)}, exact=False)
    assert part.ranges[BESIDE] == (0, 0)
    newest = published(newest, part, parts=parts)
    done = newest.ends[BIG]
    part = parts.next(newest, {BIG: (done, done + much), BESIDE: (0, 5)}, exact=False)
    assert part.ranges == {BIG: (done, 1_000_000), BESIDE: (0, 5)}


def test_no_part_is_left_over_of_what_spark_has_shared_out_in_another_way():
    """Ten tables with a backlog each, of which Spark takes ten thousand records at a time in proportion, and a part an equal share."""
    waits = {(f"p.d.t{n}", 0): 50_000 + 997 * n for n in range(10)}
    parts = begun(Kafka(waits), most=10_000)
    newest, at, many = None, dict.fromkeys(waits, 0), list[int]()
    for spark_batch in range(5):
        total = sum(waits[place] - at[place] for place in waits)
        ranges = {
            place: (at[place], at[place] + math.ceil(10_000 * (waits[place] - at[place]) / total))
            for place in waits
        }
        at = {place: end for place, (_, end) in ranges.items()}
        which = 0
        while part := parts.next(newest, ranges, exact=False):
            newest = published(newest, part, spark=(spark_batch, which), parts=parts)
            many, which = [*many, records_of(part.ranges)], which + 1
    assert all(9_990 <= one <= 10_010 for one in many), many


def test_a_partition_that_a_reader_has_cut_was_not_read_to_its_end_so_nobody_waits_for_it():
    kafka = Kafka({BIG: 100_000, QUIET: 70})
    parts = begun(kafka)
    ranges = {BIG: (0, 100_000), QUIET: (0, 70)}
    part = parts.next(None, ranges, exact=False)
    newest = published(None, part, {QUIET: 20, BIG: 40_000}, parts=parts)
    assert parts.next(newest, ranges, exact=False).ranges == {
        BIG: (40_000, 100_000),
        QUIET: (20, 70),
    }


def test_old_partitions_of_a_topic_come_whole_with_a_new_one_of_it():
    more = (PLACE[0], 1)
    kafka = Kafka({PLACE: 50_000, more: 40_000, IDLE: 4})
    part = begun(kafka, most=10).next(entry(), {PLACE: (9, 12), more: (0, 1)}, exact=False)
    assert part.ranges == {PLACE: (9, 50_000), more: (0, 40_000)}
    assert part.most is None, "nor may a reader stop between"


def test_a_range_behind_a_hole_is_decided_anew():
    with pytest.raises(StaleCheckpointError):
        begun(Kafka({})).next(entry(), {PLACE: (10, 12)}, exact=False)


def test_the_parts_of_another_checkpoint_s_batch_of_that_number_are_not_counted():
    newest = entry(spark_batch=3, part=4)
    assert number(newest, 3, newest.checkpoint_id) == 5
    assert number(newest, 4, newest.checkpoint_id) == 0
    assert number(newest, 3, "another") == 0
    assert number(None, 0, "c") == 0


def test_nobody_waits_for_what_a_table_that_stands_still_leaves_in_kafka():
    kafka = Kafka({BIG: 100_000, QUIET: 10})
    parts = begun(kafka)
    newest = published(None, parts.next(None, {QUIET: (0, 10), BIG: (0, 0)}, exact=False))
    mark = replace(newest.high_water[QUIET], offset=3)
    parts.took(replace(newest, high_water={QUIET: mark}), {}, 0)
    kafka.there[QUIET] = 12
    part = parts.next(newest, {QUIET: (10, 12), BIG: (0, 100_000)}, exact=False)
    assert part.ranges[BIG] == (0, 100_000), "no short part"


def test_what_was_not_read_says_nothing_of_how_large_messages_are():
    parts = begun(Kafka({BIG: 300_000, QUIET: 10}), megabytes=1)
    ranges = {BIG: (0, 200_000), QUIET: (0, 10)}
    newest = published(None, parts.next(None, ranges, exact=False))
    parts.took(newest, {QUIET: (0, 10)}, 10 * 2**18)  # the other table stands still
    part = parts.next(newest, {BIG: (0, 300_000)}, exact=True)
    assert records_of(part.ranges) == 4


def test_a_range_that_parts_have_been_beyond_takes_no_offset_of_the_consumer_group_back():
    kafka = Kafka({BIG: 9_000})
    newest = published(None, begun(kafka).next(None, {BIG: (0, 6_000)}, exact=False))
    assert newest.ends == {BIG: 9_000}
    told = []
    log = SimpleNamespace(taken=lambda _: ({BIG: (6_000, 7_000)}, False), publish=told.append)
    settings = SimpleNamespace(dedup=SimpleNamespace(keeps_state=False))
    spine = SimpleNamespace(
        pipeline=settings, newest=newest, _log=log, _parts=begun(kafka), _next=2
    )
    Batches.apply(spine, None, 1)
    assert told == [newest.ends]


def test_a_partition_that_was_seen_empty_is_new_with_its_first_record():
    """A key may have moved there, whose older changes wait in another: these come along, or the key's delete would meet no row."""
    old, new = ("p.d.t", 0), ("p.d.t", 1)
    seen = entry(offsets={old: (0, 10), new: (0, 0)})
    assert offset_ranges.grown(seen, {old: (10, 12), new: (0, 1)}) == {"p.d.t"}
    assert offset_ranges.grown(seen, {old: (10, 12), new: (0, 0)}) == set()
    assert offset_ranges.grown(None, {old: (0, 12), new: (0, 1)}) == set()
    alone = entry(offsets={old: (0, 0)})
    assert offset_ranges.grown(alone, {old: (0, 1)}) == set()
