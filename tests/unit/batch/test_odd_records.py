"""Where a record is odd: it and few others go to Spark's columns, whatever is odd and wherever it stands."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.arrow.pieces import Odd
from ingest.batch.odd_records import FEW, OddRecords

BIG, SMALL = ("p.d.big", 0), ("p.d.small", 0)


def parts_of(ends, odd):
    """How each part reads each partition: `(place, start, end, by)`. ``odd``: offsets by partition."""
    rule, at, found = OddRecords(), dict.fromkeys(ends, 0), []
    while wanted := {place: (at[place], end) for place, end in ends.items() if at[place] < end}:
        first = {
            place: min(o for o in odd[place] if o >= start)
            for place, (start, _) in wanted.items()
            if any(o >= start for o in odd[place])
        }
        others, cut = rule.settle(
            wanted, {place: Odd(at, "odd") for place, at in first.items()}, whole=False
        )
        part = []
        for place, (start, end) in wanted.items():
            at[place] = cut.get(place, end)
            by = "columns" if place[0] in others else "arrow"
            part.append((place, start, at[place], by))
        found.append(part)
    return found


@given(st.data())
def test_each_record_is_read_once_and_no_odd_one_by_arrow(data):
    ends = {BIG: data.draw(st.integers(1, 20 * FEW)), SMALL: data.draw(st.integers(1, 2 * FEW))}
    odd = {place: data.draw(st.sets(st.integers(0, end - 1), max_size=12)) for place, end in ends.items()}  # fmt: skip
    at = dict.fromkeys(ends, 0)
    for part in parts_of(ends, odd):
        for place, start, end, by in part:
            assert start == at[place] < end
            at[place] = end
            assert by == "columns" or not any(start <= one < end for one in odd[place])
    assert at == ends


def by_columns(parts):
    return sum(end - start for part in parts for _, start, end, by in part if by == "columns")


@given(st.integers(0, 50 * FEW - 1))
def test_one_odd_record_takes_few_along_and_three_parts_at_most(at):
    parts = parts_of({BIG: 50 * FEW}, {BIG: {at}})
    assert by_columns(parts) <= FEW
    assert len(parts) <= 3


def test_a_topic_of_which_nothing_is_plain_is_read_as_a_whole_soon():
    many = 100 * FEW
    parts = parts_of({BIG: many}, {BIG: set(range(0, many, 7))})
    assert len(parts) <= 8
    assert by_columns(parts) == many


def test_what_was_odd_once_is_forgotten():
    rule = OddRecords()
    for start in range(3):
        rule.settle({BIG: (start, 10**6)}, {BIG: Odd(start, "")}, whole=False)
    for _ in range(3):
        rule.settle({BIG: (0, 10**6)}, {}, whole=False)
    _, cut = rule.settle({BIG: (0, 10**6)}, {BIG: Odd(0, "")}, whole=False)
    assert cut == {BIG: FEW}


def test_a_batch_that_must_be_whole_is_not_cut():
    found = OddRecords().settle({BIG: (0, 10**6)}, {BIG: Odd(10**5, "why")}, whole=True)
    assert found == ({"p.d.big": "why"}, {})


def test_of_a_topic_with_several_partitions_one_odd_record_takes_a_little_of_each():
    other = ("p.d.big", 1)
    wanted = {BIG: (0, 10**6), other: (5, 10**6)}
    others, cut = OddRecords().settle(wanted, {BIG: Odd(3, "why")}, whole=False)
    assert others == {"p.d.big": "why"}
    assert cut == {BIG: FEW, other: 5 + FEW}
