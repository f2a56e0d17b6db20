"""Ranges of keys that a table is asked for: they hold every key, and are parted where most lies in between."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.flows.totals_step import ranges


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 5))
def test_each_key_is_in_one_of_them_and_there_are_no_more_than_asked_for(numbers, most):
    found = ranges(numbers, most)
    assert len(found) <= most
    assert all(sum(low <= number <= high for low, high in found) == 1 for number in numbers)
    assert found == sorted(found)


def test_the_first_row_and_the_newest_ones_do_not_ask_for_all_between_them():
    assert ranges([1, 900, 901, 905], 2) == [(1, 1), (900, 905)]
    assert ranges([7], 32) == [(7, 7)]
