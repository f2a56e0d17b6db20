"""Whether the time of day was set back while a query runs.

Spark's trigger waits until a time of day. Should the machine's clock be set back meanwhile, it would begin no batch until that time
comes again: hours, perhaps. Kafka's client in Java, through which Spark reads, asks for no metadata in such a time either. A
query that is begun anew waits by the clock as it is now. Set forward, a clock only ends such waits early.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

WORTH_A_START = 5.0
"""Seconds; for less than this a wait is as short as a new start."""


class ClockSetBackError(Exception):
    """The time of day was set back, so far that the query is begun anew."""


@dataclass(frozen=True)
class Reading:
    """The time of day (seconds), and the seconds of a clock that nobody sets before and after it was read: somebody may suspend us
    in between.
    """

    before: float
    time_of_day: float
    after: float


def read() -> Reading:
    """Both clocks as they are now."""
    return Reading(time.monotonic(), time.time(), time.monotonic())


def set_back(earlier: Reading, now: Reading) -> float:
    """Seconds by which the time of day was surely set back between two readings; 0 where it was not."""
    passed = now.before - earlier.after
    return max(0.0, passed - (now.time_of_day - earlier.time_of_day))


class WallClock:
    """Looked at again and again."""

    def __init__(self) -> None:
        self._last = read()

    def refuse_set_back(self) -> None:
        """Raises :class:`ClockSetBackError` where it was set back since the last look."""
        before, self._last = self._last, read()
        if set_back(before, self._last) > WORTH_A_START:
            raise ClockSetBackError
