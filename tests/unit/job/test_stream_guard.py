"""One at a time touches the lake, and nobody once the guard is closed."""

import threading
from contextlib import suppress

import pytest

from ingest.job.stream_guard import StoppingError, StreamGuard


def running(act):
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_nothing_is_done_between_batches_while_one_is_applied():
    guard = StreamGuard(lambda: False)
    with guard.batch(), guard.between() as mine:
        assert not mine
    with guard.between() as mine:
        assert mine


def test_a_batch_waits_for_what_is_done_between_batches():
    guard, order = StreamGuard(lambda: False), []

    def batch():
        with guard.batch():
            order.append("batch")

    with guard.between():
        waiting = running(batch)
        waiting.join(0.1)
        order.append("between")
    waiting.join(5)
    assert order == ["between", "batch"]


def test_closing_waits_for_the_batch_in_hand_and_lets_no_other_begin():
    guard, order = StreamGuard(lambda: False), []

    def close():
        guard.close()
        order.append("closed")

    with guard.batch():
        closing = running(close)
        closing.join(0.1)
        order.append("applied")
    closing.join(5)
    assert order == ["applied", "closed"]
    with pytest.raises(StoppingError), guard.batch():
        order.append("begun")
    with guard.between() as mine:
        assert not mine
    assert guard.failure is None, "a batch that never began has not failed"


def test_no_batch_begins_once_the_run_is_to_end():
    guard = StreamGuard(lambda: True)
    with pytest.raises(StoppingError), guard.batch():
        pass
    assert guard.failure is None


def test_a_run_that_is_to_end_goes_on_with_no_further_part_and_that_is_no_failure():
    stopping = threading.Event()
    guard = StreamGuard(stopping.is_set)
    with guard.batch():
        guard.go_on()

    def goes_on():
        with guard.batch():
            stopping.set()
            guard.go_on()

    with pytest.raises(StoppingError):
        goes_on()
    assert guard.failure is None


def test_who_closes_waits_for_the_part_in_hand_and_not_for_all_of_its_batch():
    """A stream that is to begin anew (a clock was set back, a lease is lost) would go on for a hundred parts."""
    guard, done = StreamGuard(lambda: False), []

    def batch():
        with suppress(StoppingError), guard.batch():
            begun.set()
            closing.wait(5)
            for part in range(100):
                done.append(part)
                guard.go_on()

    begun, closing = threading.Event(), threading.Event()
    applying = running(batch)
    begun.wait(5)
    real = guard._changed.wait_for
    guard._changed.wait_for = lambda condition: (closing.set(), real(condition))
    guard.close()
    applying.join(5)
    assert done == [0]
    assert guard.failure is None


def test_the_first_failure_of_a_batch_is_kept_and_the_lake_is_free_again():
    guard = StreamGuard(lambda: False)
    for failure in (ValueError("first"), KeyError("second")):
        with pytest.raises(type(failure)), guard.batch():
            raise failure
    assert str(guard.failure) == "first"
    with guard.between() as mine:
        assert mine
