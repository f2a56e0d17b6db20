from hypothesis import given
from hypothesis import strategies as st

from ingest.gtid import GtidSet

A, B = "320ee8b1-e592-11f1-acbf-02fc00000001", "420ee8b1-e592-11f1-acbf-02fc00000001"
numbers = st.sets(st.integers(1, 60))


def of(a: set[int], b: set[int]) -> GtidSet:
    parts = [f"{uuid}:{n}" for uuid, found in ((A, a), (B, b)) for n in found]
    return GtidSet.parse(",".join(parts))


@given(numbers, numbers, numbers, numbers)
def test_containment_is_set_containment_per_server(a, b, c, d):
    assert of(a, b).contains(of(c, d)) == (c <= a and d <= b)


@given(numbers, numbers, numbers, numbers)
def test_the_missing_count_is_the_size_of_the_set_difference(a, b, c, d):
    assert of(a, b).minus_count(of(c, d)) == len(a - c) + len(b - d)


@given(numbers, numbers)
def test_parsing_what_is_printed_changes_nothing(a, b):
    assert GtidSet.parse(str(of(a, b))) == of(a, b)


def test_mysql_s_line_breaks_and_adjacent_ranges_are_understood():
    assert str(GtidSet.parse(f"{A}:1-3:4-7,\n{B}:2")) == f"{A}:1-7,{B}:2"


def test_tagged_gtids_of_newer_servers_are_kept_apart():
    assert not GtidSet.parse(f"{A}:1-9").contains(GtidSet.parse(f"{A}:tag:3"))
