import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.gtid import GtidSet, numbered

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


TAGS = ["", "app", "b_2"]
sets = st.fixed_dictionaries({(uuid, tag): numbers for uuid in (A, B) for tag in TAGS})


def printed(found):
    """As MySQL 8.4 and later print a set: each server once, its untagged transactions first."""
    parts = []
    for uuid in (A, B):
        mine = [(tag, found[uuid, tag]) for tag in TAGS if found[uuid, tag]]
        ranges = [[tag] * bool(tag) + [str(n) for n in sorted(ns)] for tag, ns in mine]
        if mine:
            parts.append(":".join([uuid, *(each for part in ranges for each in part)]))
    return ",\n".join(parts)


def members(found):
    return {(*key, n) for key, ns in found.items() for n in ns}


@given(sets, sets)
def test_sets_with_tags_are_read_as_mysql_prints_them_and_compare_as_sets(one, other):
    mine, theirs = GtidSet.parse(printed(one)), GtidSet.parse(printed(other))
    assert mine.contains(theirs) == (members(other) <= members(one))
    assert mine.minus_count(theirs) == len(members(one) - members(other))
    assert GtidSet.parse(str(mine)) == mine
    assert (mine == theirs) == (members(one) == members(other))


def test_a_set_as_mysql_prints_it():
    found = GtidSet.parse(f"{A}:1-5:7:app:1-3:9,{B}:b_2:1")
    assert str(found) == f"{A}:1-5:7,{A}:app:1-3:9,{B}:b_2:1"
    assert found.contains(GtidSet.parse(f"{A}:APP:2"))
    assert not found.contains(GtidSet.parse(f"{A}:app:5"))
    assert not found.contains(GtidSet.parse(f"{A}:b_2:1"))


@pytest.mark.parametrize("text", [A, f"{A}:", f"{A}::1", f"{A}:1:"])
def test_what_is_no_set_is_refused(text):
    with pytest.raises(ValueError, match="GTID"):
        GtidSet.parse(text)


@given(st.sampled_from([A, B]), st.sampled_from(TAGS), st.integers(1, 2**63 - 1))
def test_a_transaction_s_numbering_is_all_before_its_number(uuid, tag, number):
    numbering = f"{uuid}:{tag}" if tag else uuid
    assert numbered(f"{numbering}:{number}") == (numbering, number)


@pytest.mark.parametrize("text", ["", A, f"{A}:", ":1", f"{A}:app"])
def test_what_is_no_gtid_has_no_number(text):
    assert numbered(text) is None
