"""A clock that is set back is noticed, however the two clocks are read, and nothing else is taken for it."""

import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.job import wall_clock
from ingest.job.stream_guard import StreamGuard
from ingest.job.streaming import Streaming
from ingest.job.wall_clock import WORTH_A_START, ClockSetBackError, Reading, WallClock, set_back

SECONDS = st.floats(0, 1e5)
ZERO = 1.8e9
"""The time of day when the machine's own clock was zero."""


def reading(at, first, second, ahead):
    """One that began at a second of the machine's clock, with pauses around the time of day."""
    middle = at + first
    return Reading(at, ZERO + ahead + middle, middle + second)


@given(st.floats(-1e5, 1e5), SECONDS, st.tuples(*[SECONDS] * 4))
def test_never_more_is_noticed_than_a_clock_was_set_back_and_all_of_it_where_nobody_was_suspended(
    by, between, pauses
):
    earlier = reading(0, *pauses[:2], 0)
    now = reading(earlier.after + between, *pauses[2:], by)
    assert set_back(earlier, now) <= max(0, -by) + 0.01
    quick = reading(0, 0, 0, 0), reading(between, 0, 0, by)
    assert set_back(*quick) == pytest.approx(max(0, -by), abs=0.01)


def looks(monkeypatch, *ahead):
    """A clock that is looked at once a second, and is so far ahead each time."""
    readings = iter([reading(second, 0, 0, by) for second, by in enumerate(ahead)])
    monkeypatch.setattr(wall_clock, "read", lambda: next(readings))
    return WallClock()


def test_a_clock_that_is_set_back_is_noticed_once(monkeypatch):
    clock = looks(monkeypatch, 0, 3 * 3600, 0, 0, -3600)
    clock.refuse_set_back()
    with pytest.raises(ClockSetBackError):
        clock.refuse_set_back()
    clock.refuse_set_back()
    with pytest.raises(ClockSetBackError):
        clock.refuse_set_back()


def test_a_clock_that_is_put_right_by_little_is_let_be(monkeypatch):
    clock = looks(monkeypatch, 0, -WORTH_A_START / 2, -WORTH_A_START)
    clock.refuse_set_back()
    clock.refuse_set_back()


def test_a_query_whose_clock_was_set_back_ends_and_begins_anew_with_the_reason(monkeypatch):
    ahead = iter([3 * 3600, 3 * 3600])
    seconds = iter(range(100))
    monkeypatch.setattr(wall_clock, "read", lambda: reading(next(seconds), 0, 0, next(ahead, 0)))
    nothing, stopped = SimpleNamespace(), []
    run = Streaming(
        pipeline=SimpleNamespace(
            lake=SimpleNamespace(path="", catalog=None), spark=SimpleNamespace(on_cluster=False)
        ),
        spark=nothing,
        committer=SimpleNamespace(refuse_lost=lambda: None),
        supervisor=SimpleNamespace(look=lambda: None),
        ahead=nothing,
        log=nothing,
        say=lambda _: None,
        report=lambda _: None,
        stop=threading.Event(),
    )
    left = iter([False] * 5)  # and it would end by itself
    query = SimpleNamespace(
        awaitTermination=lambda _: next(left, True),
        lastProgress=None,
        status={"isTriggerActive": True},
        isActive=True,
        stop=lambda: stopped.append(1),
    )
    batches = SimpleNamespace(newest=None)
    monkeypatch.setattr("ingest.job.stream_failure._changing_below", lambda _: nothing)
    ended = run.watch(query, StreamGuard(run.stop.is_set), batches)
    assert ended is not None
    assert (ended.code, stopped) == ("clock-set-back", [1])
