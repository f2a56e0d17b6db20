"""How much one batch takes: each table gets what it has or an equal share, and as much as its time allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.batch.batch_size import MUCH, TARGET, Pace, fresh
from ingest.model.offset_ranges import part, shares

BIG, QUIET, IDLE = ("p.d.big", 0), ("p.d.quiet", 0), ("p.d.idle", 0)
waiting = st.dictionaries(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2)), st.integers(0, 5_000), max_size=12
)


def test_a_table_with_little_gets_all_of_it_beside_one_with_millions():
    """Spark's own limit shares out in proportion: of fifty records three would be taken."""
    ranges = {BIG: (100, 4_000_100), QUIET: (7, 57), IDLE: (9, 9)}
    assert part(ranges, 200_000) == {BIG: (100, 200_050), QUIET: (7, 57), IDLE: (9, 9)}


@given(waiting, st.integers(1, 20_000))
def test_shares_are_equal_or_all_that_there_is(has, most):
    taken = shares(has, most)
    assert taken.keys() == has.keys()
    assert sum(taken.values()) <= max(most, len(has))
    for place, many in taken.items():
        assert min(has[place], 1) <= many <= has[place]
        if many < has[place]:  # it would have more: nobody has, but for what does not divide
            assert max(taken.values()) <= many + 1
            assert sum(taken.values()) > most - len(has)


@given(waiting, st.integers(1, 20_000))
def test_every_part_brings_every_partition_that_waits_on_its_way(has, most):
    ranges = {place: (3, 3 + many) for place, many in has.items()}
    for place, (start, end) in part(ranges, most).items():
        assert start == 3
        assert (end > start) == (has[place] > 0)
        assert end <= ranges[place][1]


def test_what_spark_has_rounded_up_is_no_part_of_its_own():
    ranges = {BIG: (0, 10_001), QUIET: (0, 10_001)}
    assert part(ranges, 20_000) == ranges


def test_somebody_waits_for_fresh_changes_only_where_one_was_at_its_end_and_another_is_far_behind():
    flood = {BIG: (0, MUCH + 1), QUIET: (50, 53)}
    assert fresh([QUIET], flood)
    assert not fresh([], flood), "all of it waits since before: a drain"
    assert not fresh([QUIET], {**flood, QUIET: (53, 53)}), "nothing new came"
    assert not fresh([QUIET], {**flood, BIG: (0, 9)}), "both are fresh"
    assert fresh([BIG, QUIET], flood), "a flood that has just begun"


def test_a_part_comes_to_be_as_long_as_its_time_allows_whatever_the_first_took():
    for first in (0.001, 0.5, 60.0):
        pace = Pace()
        pace.took(40_000, 24_000_000, first)
        for _ in range(12):
            records = pace.fresh(200_000)
            pace.took(records, 600 * records, 0.1 + records * 20e-6)
        assert pace.fresh(200_000) * 20e-6 == pytest.approx(TARGET - 0.1, rel=0.1)
        assert pace.fresh(5_000) == 5_000


def test_where_a_part_is_slow_with_nothing_in_it_its_records_may_take_as_long_again():
    """Else a table whose MERGE takes four seconds would be merged ten times as often, and never catch up."""
    pace = Pace()
    pace.took(20, 12_000, 4.0)
    for _ in range(12):
        records = pace.fresh(10**9)
        pace.took(records, 60 * records, 4.0 + records * 20e-6)
    assert pace.fresh(10**9) == pytest.approx(200_000, rel=0.1)


def test_one_huge_record_makes_the_next_parts_small_until_it_is_forgotten():
    pace = Pace()
    assert pace.of_size(2**27) >= 2**31, "nothing is known"
    pace.took(4, 4 * 2**23, 0.2)
    pace.took(1_000, 600_000, 0.2)
    assert pace.of_size(2**27) == 16
    for _ in range(16):
        pace.took(1_000, 600_000, 0.2)
    assert pace.of_size(2**27) > 200_000


def test_the_first_part_of_a_run_says_nothing_of_how_long_one_takes_with_nothing_in_it():
    pace = Pace()
    pace.took(35, 20_000, 0.49)
    assert pace.allowed == TARGET
    pace.took(35, 20_000, 0.4)
    assert pace.allowed == 0.8


def test_a_part_that_executors_keep_whole_begins_with_little_and_grows_by_what_records_take():
    pace = Pace.of_kept()
    assert pace.of_size(64 * 2**20) == 10_000
    pace.took(10_000, 10_000 * 100_000, 5.0)
    assert pace.of_size(64 * 2**20) == 671
    assert Pace().of_size(64 * 2**20) > 10**9, "elsewhere its reader ends it"


def test_a_part_that_was_lost_with_an_executor_is_half_as_large_when_it_comes_again():
    pace = Pace()
    assert pace.asks(200_000) == 200_000
    pace.lost()
    assert pace.asks(200_000) == 100_000
    pace.lost()
    assert pace.asks(200_000) == 50_000
    grown = []
    for _ in range(20):
        pace.took(grown[-1] if grown else 50_000, 1_000_000, 1.0)
        grown.append(pace.asks(200_000))
    assert grown == sorted(grown)
    assert grown[0] == 55_000, "by little: what was too much may be so again"
    assert grown[-1] == 200_000


def test_however_often_a_part_is_lost_one_is_asked_for():
    pace = Pace()
    for _ in range(50):
        assert pace.asks(200_000) >= 2_000
        pace.lost()
