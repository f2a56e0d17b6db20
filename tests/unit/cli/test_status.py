"""`ingest status`: of many tables those that are behind, on one screen."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.cli.one_screen import ROWS, rows
from ingest.observe.pipeline_status import TableProgress


def table(number, pending=0, version=3):
    return TableProgress(f"shop.t{number:03d}", pending, version)


def test_few_tables_are_shown_as_they_are():
    few = [table(number, pending=number) for number in range(ROWS)]
    assert rows(few) == (few, "")


def test_of_many_those_that_are_behind_come_first_and_the_rest_is_counted():
    many = [table(number) for number in range(300)]
    many[250], many[7] = table(250, pending=9), table(7, pending=5)
    shown, others = rows(many)
    assert [one.name for one in shown[:3]] == ["shop.t250", "shop.t007", "shop.t000"]
    assert len(shown) == ROWS
    assert others == f"and {300 - ROWS} tables more, nothing of which waits; --all lists them"


@given(st.lists(st.integers(0, 3), min_size=ROWS + 1, max_size=100))
def test_none_that_is_shown_is_less_behind_than_one_that_is_not(pending):
    many = [table(number, pending=one) for number, one in enumerate(pending)]
    shown, others = rows(many)
    left = [one for one in many if one not in shown]
    assert min(one.pending for one in shown) >= max(one.pending for one in left)
    behind = sum(one.pending > 0 for one in left)
    assert (f"{behind:,} of them are behind" in others) == bool(behind)
