"""`snapshot_notices`: which rows may be another table's, by what the connector says of the tables of one signal."""

import pytest

from ingest.model.position import Position
from ingest.source.resync_request import Request
from ingest.source.snapshot_notices import SnapshotNotices
from tests.unit.source.wire import said

A, B, C = (Request(name, f"d.{name}", "INCREMENTAL", Position(0, 1, 5)) for name in "abc")
EVERY = "a,b,c"


def after(*notices):
    found = SnapshotNotices()
    for offset, one in enumerate(notices):
        found.take(one, offset, 0.0)
    return found


def scan(table, status="SUCCEEDED", signal=EVERY):
    return said("TABLE_SCAN_COMPLETED", signal, f"d.{table}", status)


def holding_other_rows(found):
    return [one.id for one in (A, B, C) if found.holds_other_rows(one)]


def test_rows_of_a_table_that_is_given_up_may_stand_among_those_that_are_read_behind_it():
    begun = [said("STARTED", EVERY), scan("a")]
    assert holding_other_rows(after(*begun)) == []
    assert holding_other_rows(after(*begun, scan("b", "SQL_EXCEPTION"))) == ["c"]
    assert holding_other_rows(after(*begun, scan("b", "SQL_EXCEPTION"), scan("c"))) == ["c"]


def test_that_counts_of_the_first_that_is_given_up_and_of_a_later_one_that_is_given_up_itself():
    found = after(scan("a", "SQL_EXCEPTION"), scan("b", "SQL_EXCEPTION"), scan("c"))
    assert holding_other_rows(found) == ["b", "c"]
    assert [one.id for one in (A, B, C) if found.was_given_up(one)] == ["a", "b"]


@pytest.mark.parametrize("status", ["SKIPPED", "UNKNOWN_SCHEMA", "NO_PRIMARY_KEY"])
def test_of_one_of_which_no_row_was_collected_none_stands_anywhere(status):
    found = after(scan("a", status), scan("b"), scan("c"))
    assert holding_other_rows(found) == []
    assert not found.was_given_up(A)


def test_one_of_which_nothing_was_collected_may_hold_other_rows_when_it_is_read_in_another_signal():
    first = [scan("b", "UNKNOWN_SCHEMA", "b"), said("STARTED", "a,b")]
    found = after(*first, scan("a", "SQL_EXCEPTION", "a,b"), scan("b", signal="a,b"))
    assert holding_other_rows(found) == ["b"]


def test_a_scan_is_over_whatever_came_of_it_until_its_signal_begins_anew():
    both = [scan("a", "UNKNOWN_SCHEMA"), scan("b")]
    assert [after(*both).is_over(one) for one in (A, B, C)] == [True, True, False]
    assert not after(*both, said("STARTED", EVERY)).is_over(A)


def test_what_was_collected_goes_with_the_next_table_that_brings_rows_in_whichever_signal():
    """Seen: a table was given up in a signal of its own, and 1,500 rows of it came as the next one's, 90 seconds later."""
    alone = scan("a", "SQL_EXCEPTION", "a")
    assert holding_other_rows(after(alone, scan("b", signal="b"))) == ["b"]
    assert holding_other_rows(after(alone, scan("b", signal="b"), scan("c", signal="c"))) == ["b"]
    empty = scan("b", "EMPTY", "b")
    assert holding_other_rows(after(alone, empty, scan("c", signal="c"))) == ["c"]


def test_that_the_connector_counts_no_row_of_one_that_it_gave_up_says_nothing():
    """Seen: of 1,500 that it had collected. The chunk in hand is counted when it is whole."""
    given_up = scan("a", "SQL_EXCEPTION", "a")
    given_up["additional_data"]["total_rows_scanned"] = "0"
    assert holding_other_rows(after(given_up, scan("b", signal="b"))) == ["b"]


def test_it_may_be_older_rows_of_the_very_table():
    """A row that was deleted between two tries is in what the first one has collected."""
    first = scan("a", "SQL_EXCEPTION", "a")
    assert holding_other_rows(after(said("STARTED", "a"), first)) == []
    assert holding_other_rows(after(first, said("STARTED", "a"))) == ["a"], "it is about to"
    assert holding_other_rows(after(first, said("STARTED", "a"), scan("a", signal="a"))) == ["a"]


def test_what_a_task_that_began_anew_has_read_since_is_as_doubtful():
    """It goes on with what its offset says is left, under the same name."""
    given_up = [scan("a", "SQL_EXCEPTION"), scan("b"), said("STARTED", EVERY)]
    assert holding_other_rows(after(*given_up, scan("b"), scan("c"))) == ["b"]
