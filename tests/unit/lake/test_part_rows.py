"""A manifest of parts says what one of whole rows says, whatever happened, and grows with what its batches touch."""

import json
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.manifest import next_entry, part_rows
from ingest.lake.manifest.part_rows import Fold, row
from ingest.model.gap import Gap
from ingest.model.manifest import HighWater, TableState
from ingest.model.position import Position
from tests.support.ledgers import first, following, history

PARTS = ("base", "follows", "gaps_gone", "gaps_at", "total_changes")
AT = Position(0, 1, 7)


def rows_of(entries, every, old=0, doubts=()):
    """As a job writes them. ``old``: so many as versions did that knew no parts; ``doubts``: after these it is not certain
    whether the row is there.
    """
    found, last, total = [], None, 0
    with patch.object(part_rows, "EVERY", every):
        for place, entry in enumerate(entries):
            total += entry.changes
            if place < old:
                found.append(entry.as_row())
                continue
            made, last = row(entry, last, total)
            found.append(made)
            last = None if place in doubts else last
    return found


def folded(rows):
    fold, found = Fold(), []
    for one in rows:
        assert fold.goes_on_with(one)
        fold.take(one)
        found.append(fold.entry())
    return found


@given(
    st.randoms(use_true_random=False),
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(0, 12),
    st.sets(st.integers(0, 30)),
)
def test_what_is_written_as_parts_is_read_as_it_was_from_any_whole_row_on(
    draw, count, every, old, doubts
):
    # A new term is another job, which does not know the row before.
    entries = history(draw, count)
    doubts |= {at for at, (one, two) in enumerate(pairwise(entries)) if one.term != two.term}
    rows = rows_of(entries, every, old, doubts)
    whole = [at for at, one in enumerate(rows) if one.get("base") is None]
    assert whole[0] == 0
    assert all(two - one <= max(every, old) for one, two in pairwise(whole))
    for at in whole:
        assert folded(rows[at:]) == entries[at:]


@given(st.randoms(use_true_random=False), st.integers(3, 20))
def test_a_row_that_is_missing_is_noticed(draw, count):
    entries = [replace(one, term=1) for one in history(draw, count)]
    rows = rows_of(entries, 50)
    without = draw.randrange(len(rows) - 1)
    after, fold = rows[without + 1], Fold()
    for one in rows[:without]:
        fold.take(one)
    assert fold.goes_on_with(after) == (after["base"] is None)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_one_list_of_gaps_becomes_the_other_even_where_some_are_alike(before, now):
    gaps = [Gap("d.t", "p.d.t", 0, at, at, "retention", 1) for at in range(6)]
    one, two = tuple(gaps[at] for at in before), tuple(gaps[at] for at in now)
    gone, at = part_rows._steps(one, two)
    assert part_rows._stepped(one, gone, at, [two[place] for place in at]) == two


def of_many(tables):
    """A batch of a lake of so many tables."""
    names = [f"d.t{number}" for number in range(tables)]
    return replace(
        first(),
        offsets={(f"p.{name}", 0): (4, 9) for name in names},
        high_water={(f"p.{name}", 0): HighWater(9, AT, "u:1", "id") for name in names},
        tables={name: TableState(f"/l/{name}", 3, changes=1, position=AT) for name in names},
    )


@pytest.mark.parametrize("touched", [0, 1, 10])
def test_a_row_grows_with_the_tables_that_its_batch_touches_and_not_with_those_there_are(touched):
    sizes = set()
    for tables in (10, 1_000):
        before = of_many(tables)
        entry = before.without_changes("batch", 2, 1)
        for name in list(entry.tables)[:touched]:
            place = (f"p.{name}", 0)
            entry = replace(
                entry,
                offsets={**entry.offsets, place: (9, 12)},
                high_water={**entry.high_water, place: HighWater(12, AT, "u:2", "id")},
                tables={**entry.tables, name: replace(entry.tables[name], version=4, changes=3)},
            )
        _, last = row(before, None, 0)
        made, _ = row(entry, last, 0)
        sizes.add(len(json.dumps(made, default=str)))
        assert [len(made[one]) for one in ("offsets", "high_water", "tables")] == [touched] * 3
    assert len(sizes) == 1


def test_what_a_mark_says_of_other_servers_stands_in_the_row_of_the_batch_that_brought_it():
    before, place = of_many(3), ("p.d.t1", 0)
    made, last = row(before, None, 0)
    known = HighWater(9, AT, "u:1", "id", (("v", 4), ("v:tag", 5)))
    entry = before.without_changes("batch", 2, 1)
    entry = replace(entry, high_water={**entry.high_water, place: known})
    part, last = row(entry, last, 0)
    assert [(one["numbering"], one["number"]) for one in part["numbers"]] == [
        ("v", 4),
        ("v:tag", 5),
    ]
    then, _ = row(entry.without_changes("batch", 3, 1), last, 0)
    assert not then["numbers"]
    assert folded([made, part, then])[-1].high_water == entry.high_water


def test_what_a_start_sets_back_and_what_is_gone_is_said_by_a_whole_row():
    before = of_many(3)
    _, last = row(before, None, 0)
    entry = before.without_changes("batch", 2, 1)
    assert row(entry, last, 0)[0]["base"] == 1
    assert row(replace(entry, kind="rewind"), last, 0)[0]["base"] is None
    for name in ("offsets", "high_water", "tables"):
        fewer = dict(list(getattr(entry, name).items())[1:])
        assert row(replace(entry, **{name: fewer}), last, 0)[0]["base"] is None


def gap(number, closed=None):
    at = None if closed is None else Position(0, 1, closed)
    return Gap(f"d.t{number}", "p.d.t", 0, number, number, "retention", number, at)


def test_of_closed_gaps_those_stay_that_were_closed_last_and_open_ones_all():
    closed = [gap(number, 10_000 - number) for number in range(300)]
    still = [gap(number) for number in range(1_000, 1_500)]
    mixed = tuple(one for pair in zip(closed, still[:300], strict=True) for one in pair)
    previous = replace(first(), gaps=(*mixed, *still[300:]))
    entry = next_entry.without_old_gaps(previous.without_changes("batch", 2, 1), previous)
    assert [one for one in entry.gaps if one.is_open] == still
    assert [one for one in entry.gaps if not one.is_open] == closed[: next_entry.CLOSED_GAPS]


def test_what_a_row_closes_is_in_it_however_many_they_are():
    previous = replace(first(), gaps=tuple(gap(number) for number in range(300)))
    closing = replace(
        previous.without_changes("cleanup", 2, 1), gaps=tuple(gap(n, n) for n in range(300))
    )
    assert next_entry.without_old_gaps(closing, previous) == closing
    later = closing.without_changes("batch", 3, 1)
    left = next_entry.without_old_gaps(later, closing).gaps
    assert left == closing.gaps[-next_entry.CLOSED_GAPS :]


@given(st.randoms(use_true_random=False))
def test_a_gap_that_is_open_is_never_forgotten_and_a_closed_one_never_reopened(draw):
    with patch.object(next_entry, "CLOSED_GAPS", 2):
        previous = first()
        for _ in range(20):
            entry = following(draw, previous)
            kept = next_entry.without_old_gaps(entry, previous)
            opened = [one for one in entry.gaps if one.is_open]
            assert [one for one in kept.gaps if one.is_open] == opened
            assert set(kept.gaps) <= set(entry.gaps)
            new = [one for one in kept.gaps if not one.is_open and one not in previous.gaps]
            assert sum(not one.is_open for one in kept.gaps) - len(new) <= 2
            previous = kept
