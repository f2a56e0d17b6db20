"""What an audit of change logs says on the screen."""

import io

import pytest
from rich.console import Console

from ingest.observe.log_verdict import LogResult, differ, is_idle, log_verdict_table

EQUAL = LogResult("shop.orders", 120_345, 35_000)
PASSED = LogResult("shop.bag", 12, note="not compared: its log has not all of it")
OTHER = LogResult("shop.t", 99, 12, 1, (("id=3", "differs"),))


@pytest.mark.parametrize(
    ("results", "headline"),
    [
        ([], "no table has a change log"),
        ([EQUAL], "EQUAL: each change log, folded, is its table"),
        (
            [EQUAL, PASSED],
            "EQUAL: each change log that could be compared (1 of 2), folded, is its table",
        ),
        ([PASSED], "NOT COMPARED: none of the change logs could be"),
        ([EQUAL, OTHER, PASSED], "DIFFERENT: a change log, folded, is not its table"),
    ],
)
def test_its_headline_says_no_more_than_was_compared(results, headline):
    said = io.StringIO()
    Console(file=said, width=120).print(log_verdict_table(results))
    assert headline in said.getvalue()
    for one in results:
        assert one.note in said.getvalue()
        assert all(f"{one.name}  {key}: {found}" in said.getvalue() for key, found in one.examples)


def test_only_a_difference_is_one_and_nothing_compared_is_not_equal():
    assert [differ(found) for found in ([], [EQUAL, PASSED], [OTHER])] == [False, False, True]
    assert [is_idle(found) for found in ([], [PASSED], [EQUAL, PASSED])] == [False, True, False]
