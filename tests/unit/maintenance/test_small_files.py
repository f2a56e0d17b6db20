"""`small_files`: what Spark puts together at once is bounded, and worth it."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.maintenance.small_files import FEWEST, MOST, SMALL, below

SIZES = st.lists(st.one_of(st.integers(0, 2 * SMALL), st.sampled_from([SMALL - 1, SMALL, MOST])))


@given(sizes=SIZES)
def test_no_more_than_a_pause_allows_is_written_anew(sizes):
    least = below(sizes)
    taken = [size for size in sizes if least is not None and size < least]
    assert sum(taken) <= MOST
    assert all(size < SMALL for size in taken)
    assert not taken or len(taken) >= FEWEST


@given(sizes=st.lists(st.integers(0, MOST // 100), min_size=FEWEST, max_size=99))
def test_all_small_files_go_where_there_is_room_for_them(sizes):
    least = below(sizes)
    assert sum(size < (least or 0) for size in sizes) == sum(size < SMALL for size in sizes)


def test_some_files_are_no_reason_to_write_any_anew():
    assert below([1] * (FEWEST - 1) + [SMALL] * 100) is None
    assert below([1] * FEWEST) == SMALL


def test_of_very_many_the_smallest_go_first():
    sizes = [SMALL - 1 - number for number in range(10_000)]
    least = below(sizes)
    assert least is not None
    assert MOST - SMALL <= sum(size for size in sizes if size < least) <= MOST
