"""How much of what waits in Kafka one batch takes. Facts in, ranges out. Pure.

Spark bounds a batch by records alone, and shares them out in proportion to what waits: next to a table with a million of them
one with fifty gets a few. So a range of Spark's is applied in parts, each a batch of its own. A table with little gets all of it;
what is left is shared by those with much. As long as nobody waits for something fresh, a part is as large as one may be,
which costs least. Once somebody does, it is as small as it may be without costing much more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ingest.model.manifest import Place

TARGET = 0.5
"""Seconds that a part may take while some table is fresh: a change waits for half of one and is in the next."""

FRESH_FOR = 60.0
"""Seconds that somebody is taken to wait for fresh changes since the last one came."""

MUCH = 5_000
"""Records that a part is long by: of a batch with more of them it can be told how long a record takes, and others may wait for it."""

_LITTLE = 1_000
"""Records of a part that takes as long as one with next to nothing."""

_REMEMBERED = 16
"""Parts by which the time of the next one is guessed."""

_LEAST = 1_000
"""Records that a part has room for, however long they take."""


@dataclass
class Pace:
    """What the last parts took. ``a`` is what a part takes that has next to nothing in it, ``b`` what each record adds."""

    _small: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _each: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _bytes: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def took(self, records: int, size: int, seconds: float) -> None:
        """A part of so many records, with so many bytes of messages."""
        if records <= 0:
            return
        self._bytes.append(size / records)
        if records <= _LITTLE:
            self._small.append(seconds)
        elif records >= MUCH:
            self._each.append(max(seconds - self.a, 0.1 * seconds) / records)

    @property
    def a(self) -> float:
        """Seconds. 0.2 before any is known: a steady batch of some tables on two cores."""
        return sorted(self._small)[len(self._small) // 2] if self._small else 0.2

    @property
    def b(self) -> float:
        """Seconds. 15 µs before any is known."""
        return sorted(self._each)[len(self._each) // 2] if self._each else 15e-6

    def fresh(self, most: int) -> int:
        """Records of a part while somebody waits for fresh changes. Where a part takes longer than :data:`TARGET` with nothing in
        it, smaller ones help nobody: what its records add may be as much again, so that no more than half is lost.
        """
        return min(max(int(max(TARGET - self.a, self.a) / self.b), _LEAST), most)

    def of_size(self, most: int) -> int:
        """Records that have so many bytes, as far as those of the last parts tell; 2**31 before any is known."""
        largest = max(iter(self._bytes), default=0.0)
        return max(int(most / largest), 1) if largest else 2**31


def fresh(at_end: Iterable[Place], waiting: Mapping[Place, tuple[int, int]]) -> bool:
    """Whether a little has come for a partition that was read to its end a moment ago, and much waits in another: that one must
    not make it wait. ``at_end``: what was read to its end.
    """
    has = {place: end - start for place, (start, end) in waiting.items()}
    return max(has.values(), default=0) > MUCH and any(
        0 < has.get(place, 0) <= MUCH for place in at_end
    )
