"""Which files of a change log hold old days alone, and which are to be cut in two."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.delta.delta_snapshot import LiveFile
from ingest.maintenance import old_changes


def file(low, high):
    bounds = f'{{"minValues":{{"batch_id":{low}}},"maxValues":{{"batch_id":{high}}}}}'
    return LiveFile({"path": f"{low}-{high}", "stats": bounds})


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), unique_by=tuple),
    st.integers(0, 11),
)
def test_a_file_goes_where_all_of_it_is_old_is_cut_where_some_is_and_stays_else(ranges, below):
    gone, mixed = old_changes.cut([file(*one) for one in ranges], below)
    assert [one.path for one in gone] == [f"{low}-{high}" for low, high in ranges if high < below]
    assert [one.path for one in mixed] == [
        f"{low}-{high}" for low, high in ranges if low < below <= high
    ]


def test_a_file_that_does_not_say_what_it_holds_is_looked_into():
    unknown = LiveFile({"path": "x"})
    assert old_changes.cut([unknown], 3) == ([], [unknown])


@pytest.mark.parametrize(("days", "first"), [(1, date(2026, 2, 28)), (60, date(2025, 12, 31))])
def test_whole_days_stay_beside_the_one_that_goes_on(days, first):
    assert old_changes.first_kept(date(2026, 3, 1), days) == first
