"""Which files of a table are written anew, and when it pays."""

import random
import statistics
from dataclasses import replace
from itertools import chain, combinations, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.maintenance.file_layout import (
    FINER,
    MANY_SMALL,
    MOST,
    PARTS,
    QUIET,
    WORN,
    WORN_ROWS,
    WORTH,
    DataFile,
    Look,
    Rewrite,
    Size,
    Written,
    choose,
    out_of_order,
    unpacked_within,
)

MIB = 2**20


def ranges(count, rows=1000, size=MIB, start=0):
    """Files that each have a range of keys of their own."""
    return [
        DataFile(f"{n}", size, rows, n * rows, (n + 1) * rows - 1)
        for n in range(start, start + count)
    ]


def test_a_table_in_order_is_left_alone_however_much_is_written():
    assert choose(ranges(PARTS), Written(merges=999, rows=10**9)) is None


def test_files_whose_ranges_overlap_wait_until_merges_have_written_enough():
    files = [*ranges(PARTS - 1), DataFile("wide", MIB, 1000, 500, 2500, hot=True)]
    assert choose(files, Written(1, WORTH * 1000 - 1)) is None
    found = choose(files, Written(1, WORTH * 1000))
    assert [one.path for one in found.files] == ["wide"], "no MERGE came to those that it overlaps"


def test_keys_of_several_columns_may_have_the_first_in_common():
    files = [DataFile("a", MIB, 9, 1, 5), DataFile("b", MIB, 9, 5, 9)]
    assert out_of_order(files, 9) == []


def test_one_large_file_is_cut_into_parts_once_changes_come_to_it():
    whole, written = DataFile("all", 64 * MIB, 64_000, 0, 63_999), Written(4, 256_000)
    assert choose([whole], written) is None
    found = choose([replace(whole, hot=True)], written)
    assert (found.orders, found.rows_per_file) == (True, 64_000 // PARTS)


def test_where_changes_come_to_files_are_cut_finer_elsewhere_they_stay():
    cold = ranges(PARTS)
    *others, last = cold
    hot = [*others, replace(last, hot=True)]
    written = Written(9, 10**6)
    assert choose(cold, written) is None
    found = choose(hot, written)
    assert [one.path for one in found.files] == [last.path]
    assert found.rows_per_file == Size.of(cold).rows_per_file // FINER


def test_a_file_that_would_become_one_file_is_left_alone():
    hot = replace(ranges(1, rows=350, size=350 * 2**10)[0], hot=True)
    others = ranges(2, rows=325, size=325 * 2**10, start=1)
    assert out_of_order([hot, *others], Size.of([hot, *others]).rows_per_piece) == [hot]
    assert choose([hot, *others], Written(9, 10**9)) is None


def test_small_files_are_put_together_once_there_are_many_but_not_those_that_merges_just_wrote():
    small = ranges(MANY_SMALL, rows=10, size=MIB // 100, start=9_000)
    files = [*ranges(PARTS), *small]
    found = choose(files, Written())
    assert ({one.path for one in found.files}, found.orders) == ({one.path for one in small}, False)
    assert choose([*files[:-1], replace(files[-1], hot=True)], Written()) is None


def test_a_large_table_is_put_in_order_by_parts():
    files = [DataFile(str(n), MOST // 4, 1000, n, n + 2, hot=True) for n in range(40)]
    found = choose(files, Written(merges=10**6, rows=10**9))
    assert [one.path for one in found.files] == ["0", "1", "2", "3"]


def test_without_ranges_only_small_files_count():
    files = [DataFile(str(n), MIB, 1000) for n in range(3)]
    assert choose(files, Written(9, 10**9)) is None


def test_where_order_did_not_help_it_is_not_tried_again():
    written = Written(piece=100)
    for _ in range(1000):
        written = written.and_then(4000, merges=4)  # each writes all of a table of a thousand rows
    assert written.in_vain == 0


def test_where_order_helped_it_pays_again_when_merges_have_written_as_much_in_vain():
    written = Written(piece=100).and_then(4 * 200, merges=4)
    assert written.in_vain == 0
    assert written.and_then(4 * 450, merges=4).in_vain == 4 * 250


def test_who_wrote_no_more_than_one_piece_may_need_only_a_part_of_it():
    assert Written(piece=100).and_then(9 * 120, merges=9).in_vain == 9 * 120 / WORTH


files = st.lists(
    st.builds(
        lambda path, size, rows, low, span, hot: DataFile(
            str(path), size, rows, low, low + span, hot
        ),
        st.integers(0, 10**9),
        st.integers(1, MOST),
        st.integers(1, 10**6),
        st.integers(0, 100),
        st.integers(0, 100),
        st.booleans(),
    ),
    max_size=30,
    unique_by=lambda one: one.path,
)


@given(files, st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_chosen_are_files_of_the_table_once_each_and_not_too_much(held, rows, least, piece):
    written = Written(1, rows, least, piece)
    found = choose(held, written)
    if found is None:
        return
    assert set(found.files) <= set(held)
    assert len(set(found.files)) == len(found.files)
    share = found.rows * sum(one.bytes for one in held) / sum(one.rows for one in held)
    assert share <= MOST or found.rows <= WORTH * rows
    assert found.rows_per_file >= 1
    assert len(found.files) > 1 or found.pieces > 1, "written anew for nothing"
    if found.orders:
        assert written.in_vain >= found.rows


@given(files)
def test_what_is_in_order_overlaps_nothing_that_is_but_where_no_changes_come(held):
    loose = set(out_of_order(held, 1000))
    kept = sorted((one for one in held if one not in loose), key=lambda one: (one.low, one.high))
    assert all(a.high <= b.low for a, b in combinations(kept, 2) if a.hot and b.hot)
    assert all(one.hot for one in loose)


@pytest.mark.parametrize(("size", "files"), [(1, 1), (300 * 2**10, 1), (8 * MIB, PARTS)])
def test_a_small_table_is_cut_into_fewer_files(size, files):
    assert round(10_000 / Size.of([DataFile("a", size, 10_000)]).rows_per_file) in (0, files)


def test_a_file_of_which_many_rows_are_deleted_is_written_anew_and_no_other():
    files = ranges(PARTS)
    little, much = replace(files[1], rows=999, deleted=1), replace(files[2], rows=700, deleted=300)
    found = choose([files[0], little, much, *files[3:]], Written())
    assert (found.files, found.rows, found.pieces) == ((much,), 700, 1)


def test_a_file_that_changes_have_left_is_written_anew_without_the_rows_they_deleted():
    files = ranges(PARTS)
    files[3] = replace(files[3], rows=999, deleted=1)
    held, look = Look().then(files, 0)
    for merges in range(4, QUIET, 4):
        held, look = look.then(files, merges)
        assert choose(held, Written()) is None
    held, look = look.then(files, QUIET)
    assert {one.path for one in choose(held, Written()).files} == {"3"}


def test_a_file_that_changes_still_come_to_keeps_its_deleted_rows_until_they_are_many():
    files, look = ranges(PARTS), Look()
    for merges in range(0, 3 * QUIET, QUIET // 2):
        files[3] = replace(files[3], rows=999 - merges // 8, deleted=1 + merges // 8)
        held, look = look.then(files, merges)
        assert choose(held, Written()) is None


def test_what_was_not_there_at_the_last_look_a_merge_has_written():
    first, look = Look().then(ranges(2), 0)
    assert not any(one.hot for one in first)
    then, _ = look.then(ranges(3), 4)
    assert [one.hot for one in then] == [False, False, True]


def test_so_many_deleted_rows_are_too_many_for_any_file():
    rows = WORN * WORN_ROWS * 2
    files = ranges(PARTS, rows=rows)
    worn = replace(files[3], rows=rows - WORN_ROWS - 1, deleted=WORN_ROWS + 1)
    held = [*files[:3], worn, *files[4:]]
    assert choose(held, Written()).files == (worn,)
    assert choose([replace(one, deleted=0) for one in held], Written()) is None


def test_a_file_without_the_rows_that_are_worth_it_is_written_anew_with_others_alone():
    small = [replace(one, rows=0, deleted=1) for one in ranges(MANY_SMALL, 1, 100, start=9000)]
    large = ranges(PARTS)
    assert choose([*large, *small[:-1]], Written()) is None
    assert set(choose([*large, *small], Written()).files) == set(small)


def written_per_merge(table_rows, merges, window=400, changes=20):
    """Rows that MERGEs write, each the mean of the last hundred: half of their changes are new keys, half updates of
    the newest ``window`` ones. As ``schedule`` does, with a look every fourth MERGE.
    """
    rng, number, rewritten = random.Random(table_rows), count(), list[int]()
    lying = {f"{next(number)}": list(range(table_rows))}
    look, written = Look(), Written()

    def facts():
        return [
            DataFile(path, len(keys) * 1350, len(keys), keys[0], keys[-1])
            for path, keys in lying.items()
        ]

    for merge in range(1, merges + 1):
        newest = table_rows + merge * changes
        batch = {newest + n for n in range(changes // 2)}
        batch |= {newest - 1 - rng.randrange(window) for _ in range(changes // 2)}
        touched = [p for p, keys in lying.items() if not batch.isdisjoint(keys)]
        merged = sorted(batch.union(*(lying.pop(path) for path in touched)))
        lying[f"{next(number)}"] = merged
        rewritten.append(len(merged))
        if merge % 4:
            continue
        written = written.and_then(sum(rewritten[-4:]), 4)
        held, look = look.then(facts(), merge)
        if rewrite := choose(held, written):
            rows = sorted(chain.from_iterable(lying.pop(one.path) for one in rewrite.files))
            size = -(-len(rows) // rewrite.pieces)
            lying |= {f"{next(number)}": rows[n : n + size] for n in range(0, len(rows), size)}
            if rewrite.orders:
                written = Written(piece=size)
                rewritten[-1] += len(rows)
            _, look = look.then(facts(), merge)
    return statistics.mean(rewritten[-100:])


@pytest.mark.parametrize("table_rows", [10_000, 80_000])
def test_where_the_newest_rows_change_a_merge_writes_little_more_than_these_whatever_the_table_has(
    table_rows,
):
    assert written_per_merge(table_rows, merges=300) < 2 * 400


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([40, 40, 20, 10], 3),  # one that is too large is passed over
        ([10, 10], 2),
        ([89, 2, 3, 1], 2),
        ([95, 95], None),  # alone, each would be written as it is
        ([500, 1], None),
    ],
)
def test_no_more_rows_are_written_anew_at_a_time_than_fit_into_memory(sizes, taken):
    files = tuple(ranges(len(sizes)))
    unpacked = {one.path: size * MIB for one, size in zip(files, sizes, strict=True)}
    found = unpacked_within(Rewrite(files, 100_000, False), unpacked, 90 * MIB)
    assert (found and len(found.files)) == taken


def test_one_file_is_cut_where_it_fits_and_one_with_deleted_rows_is_always_written_anew():
    (one,) = ranges(1)
    cut = Rewrite((one,), 100, True)
    assert unpacked_within(cut, {"0": 180 * MIB}, 90 * MIB) == cut
    assert unpacked_within(cut, {"0": 181 * MIB}, 90 * MIB) is None
    worn = replace(cut, files=(replace(one, deleted=WORN_ROWS + 1),), orders=False)
    assert unpacked_within(worn, {"0": 10**12}, 90 * MIB) == worn
