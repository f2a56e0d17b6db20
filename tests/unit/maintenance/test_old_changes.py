"""Which files of a change log hold old days alone, and which are to be cut in two."""

import json
from datetime import date, datetime, timedelta, timezone

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


START = datetime(2026, 3, 1, tzinfo=timezone.utc)


def dated(batch, days, nulls=0, size=1):
    """A file of one batch, its changes of these days of March (of February where they are not positive)."""
    low, high = (f"{START + timedelta(days=one - 1):%Y-%m-%dT%H:%M:%S.000Z}" for one in days)
    stats = {
        "numRecords": 2,
        "minValues": {"batch_id": batch, "committed_at": low},
        "maxValues": {"batch_id": batch, "committed_at": high},
        "nullCount": {"committed_at": nulls},
    }
    return LiveFile({"path": f"b{batch}", "size": size, "stats": json.dumps(stats)})


def test_only_files_that_do_not_say_it_are_looked_into():
    whole, mixed, silent, young = (
        dated(1, (0, 0)),
        dated(2, (0, 1)),
        dated(3, (0, 0), nulls=1),
        dated(4, (1, 2)),
    )
    found = old_changes.told([young, silent, mixed, whole], START)
    assert (found.stays, found.whole, found.asked) == (4, (whole,), (mixed, silent))


def test_of_much_that_is_not_known_the_oldest_is_looked_into_and_the_rest_stays_for_now():
    files = [dated(batch, (0, 1), size=10) for batch in (7, 5, 6)]
    found = old_changes.told(files, START, most=20)
    assert [one.path for one in found.asked] == ["b5", "b6"]
    assert found.stays == 7
    assert old_changes.told(files, START, most=1).asked == (files[1],), "one at the least"


def test_a_file_of_control_rows_alone_is_looked_into():
    stats = '{"numRecords":1,"minValues":{"batch_id":3},"maxValues":{"batch_id":3},"nullCount":{"committed_at":1}}'
    alone = LiveFile({"path": "x", "size": 1, "stats": stats})
    assert old_changes.told([alone], START).asked == (alone,)


@pytest.mark.parametrize(("days", "first"), [(1, date(2026, 2, 28)), (60, date(2025, 12, 31))])
def test_whole_days_stay_beside_the_one_that_goes_on(days, first):
    assert old_changes.first_kept(date(2026, 3, 1), days) == first
