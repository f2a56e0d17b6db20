"""`shares`: what each of Spark's tasks reads, and how far a batch was read."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.batch.shares import RECORDS, Share, contiguous, shared

A, B = ("a", 0), ("b", 0)
RANGES = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.integers(0, 50), st.integers(0, 200_000)).map(lambda of: (of[0], sum(of))),
)


def offsets(ranges):
    return {(place, at) for place, (start, end) in ranges.items() for at in (start, end - 1)}


@given(RANGES, st.integers(1, 64))
def test_each_offset_is_in_one_share_and_shares_are_about_equal(ranges, cores):
    shares = shared(ranges, cores)
    found = {}
    for one in shares:
        for place, range_ in one.ranges.items():
            found.setdefault(place, []).append(range_)
    held = {place: range_ for place, range_ in ranges.items() if range_[1] > range_[0]}
    assert found.keys() == held.keys()
    for place, parts in found.items():
        assert parts == sorted(parts), "in the order of its offsets"
        starts, ends = zip(*parts, strict=True)
        assert (starts[0], ends[-1]) == held[place]
        assert starts[1:] == ends[:-1]
    sizes = [sum(end - start for start, end in one.ranges.values()) for one in shares]
    assert not sizes or max(sizes) - min(sizes[:-1], default=0) <= max(sizes)
    assert len({*sizes[:-1]}) <= 1


@given(st.integers(1, 10 * RECORDS), st.integers(1, 8))
def test_there_are_as_many_shares_as_cores_where_there_are_as_many_records(records, cores):
    assert len(shared({A: (5, 5 + records)}, cores)) >= min(records, cores) / 2


def test_a_large_range_is_shared_by_more_tasks_than_cores_and_a_small_one_by_as_many():
    assert shared({A: (0, 10), B: (0, 10)}, 2) == [Share({A: (0, 10)}), Share({B: (0, 10)})]
    assert len(shared({A: (0, 10 * RECORDS)}, 2)) == 6
    assert shared({A: (3, 3)}, 2) == []
    assert len(shared({A: (0, 10 * RECORDS)}, 2, 4)) == 4, "no more than their rows have room for"
    assert len(shared({A: (0, 10 * RECORDS)}, 2, 0)) == 2


@given(st.integers(1, 100 * RECORDS), st.integers(1, 16), st.none() | st.integers(0, 100))
def test_no_core_waits_for_another_s_second_share(records, cores, limit):
    many = len(shared({A: (0, records)}, cores, limit))
    if records >= RECORDS * cores and (limit is None or limit >= cores):
        assert many % cores == 0
    assert many <= max(2, cores if limit is None else limit, cores * 3 if limit is None else 0)


def test_a_partition_was_read_as_far_as_no_share_of_it_is_missing():
    ranges = {A: (0, 30), B: (5, 9)}
    whole = {A: [(10, 20, 20), (0, 10, 10), (20, 30, 30)], B: [(5, 9, 9)]}
    assert contiguous(ranges, whole) == ({A: 30, B: 9}, {})
    ended = {A: [(0, 10, 10), (10, 20, 14), (20, 30, 30)], B: [(5, 9, 5)]}
    assert contiguous(ranges, ended) == ({A: 14, B: 5}, {A: 14, B: 5})
    assert contiguous(ranges, {A: [(10, 20, 20)]}) == ({A: 0, B: 5}, {A: 0, B: 5})
