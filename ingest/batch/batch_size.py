"""How many of the records that wait in Kafka one batch takes (``offset_ranges.part`` shares them out). Facts in, a number out. Pure.

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
"""Records for which others may have to wait."""

_LEAST = 2_000
"""Records that any part has room for. One with no more takes about as long as one with next to nothing (some hundredths of a
second more).
"""

_BEGINS_WITH = 10_000
"""Records of a part while somebody waits, before any has shown how long they take."""

_SLOWLY = 10
"""Of what a part may be behind one that was lost, that much more (a tenth) with each that is published."""

_REMEMBERED = 16
"""Parts by which the next one is judged."""


@dataclass
class Pace:
    """What the last parts took. ``unknown``: records of one before any has shown what a record takes in memory."""

    unknown: int = 2**31
    _little: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _bytes: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _fits: int = _BEGINS_WITH
    _is_first: bool = True
    _asked: int = 0
    _bound: int | None = None

    @classmethod
    def of_kept(cls) -> Pace:
        """Of parts that Spark's executors keep whole: no reader ends one before it is too much for them, so it begins with little."""
        return cls(unknown=_BEGINS_WITH)

    def asks(self, most: int) -> int:
        """Records of the next part: ``most``, or what the parts that were lost leave of it."""
        self._asked = most if self._bound is None else min(most, self._bound)
        return self._asked

    def lost(self) -> None:
        """The part in hand is gone with an executor, as one that is too much for it is each time: from now on half as many."""
        self._bound = max(self._asked // 2, _LEAST)

    def took(self, records: int, size: int, seconds: float) -> None:
        """A part of so many records, which took so many bytes of memory."""
        if records <= 0:
            return
        self._bytes.append(size / records)
        if self._bound is not None:  # some ten parts until it is tried once more
            self._bound = min(self._bound + self._bound // _SLOWLY, 2**31)
        # Of a run's first part it is not the records that take long: it took 0.5 s, and a flood's parts a second each until a later one
        # with as little in it had shown better.
        is_first, self._is_first = self._is_first, False
        if records <= _LEAST and not is_first:
            self._little.append(seconds)
        if records < _LEAST:
            return
        # What such a part could have held, at most twice as much: a small one tells little of a large one. One that was slow by
        # chance (the first of a run) is made up for within some parts.
        fits = int(records * self.allowed / max(seconds, 0.001))
        self._fits = max(min(fits, 2 * max(records, self._fits)), _LEAST)

    @property
    def allowed(self) -> float:
        """Seconds that a part may take while somebody waits. Where one with next to nothing in it takes longer than half of
        :data:`TARGET`, smaller ones help nobody: what its records add may be as much again, so that no more than half is lost.
        """
        return max(TARGET, 2 * min(self._little, default=0.0))

    def fresh(self, most: int) -> int:
        """Records of a part while somebody waits for fresh changes; no more than ``most``."""
        return min(self._fits, most)

    def expected(self, records: int) -> int:
        """Bytes of memory that so many records take, as far as those of the last parts tell; 0 before any is known."""
        return int(records * max(self._bytes, default=0.0))

    def of_size(self, most: int) -> int:
        """Records that take so many bytes of memory, as far as those of the last parts tell; ``unknown`` before any is known."""
        largest = max(iter(self._bytes), default=0.0)
        return max(int(most / largest), 1) if largest else self.unknown


def fresh(at_end: Iterable[Place], waiting: Mapping[Place, tuple[int, int]]) -> bool:
    """Whether a little has come for a partition that was read to its end a moment ago, and much waits in another: that one must
    not make it wait. ``at_end``: what was read to its end.
    """
    has = {place: end - start for place, (start, end) in waiting.items()}
    return max(has.values(), default=0) > MUCH and any(
        0 < has.get(place, 0) <= MUCH for place in at_end
    )
