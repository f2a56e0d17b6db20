"""Upkeep has one turn between two batches, and behind the last one of a run that ends as many as there is time for."""

from types import SimpleNamespace

import pytest

from ingest.batch import between_batches
from ingest.batch.between_batches import BetweenBatches


class Due:
    """So many things are due."""

    def __init__(self, number):
        self.number, self.asked = number, []

    def between_batches(self, opened, left):
        self.asked.append((opened, left))
        self.number -= 1
        return self.number >= 0


WRITERS = [
    SimpleNamespace(opened=["a"], left_to_spark={"x": 1}),
    SimpleNamespace(opened=["b", "c"], left_to_spark={"y": 2}),
]


def test_between_two_batches_one_thing_is_done_for_all_tables_of_the_run():
    due = Due(2)
    upkeep = BetweenBatches(due, WRITERS)
    assert [upkeep.one(), upkeep.one(), upkeep.one()] == [True, True, False]
    assert due.asked == [(["a", "b", "c"], {"x": 1, "y": 2})] * 3


@pytest.mark.parametrize(("number", "asked"), [(0, 1), (7, 8)])
def test_a_run_that_ends_does_all_that_is_due(number, asked):
    due = Due(number)
    BetweenBatches(due, WRITERS).all_due(lambda: False)
    assert len(due.asked) == asked


def test_but_no_longer_than_some_seconds_nor_when_it_is_to_stop(monkeypatch):
    due, clock = Due(10**9), iter(range(100))
    monkeypatch.setattr(between_batches.time, "monotonic", lambda: float(next(clock)))
    BetweenBatches(due, WRITERS).all_due(lambda: False)
    assert len(due.asked) == between_batches.ORDER_FOR - 1
    BetweenBatches(due, WRITERS).all_due(lambda: len(due.asked) >= 5)
    assert len(due.asked) == 5
