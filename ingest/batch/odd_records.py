"""Which records go to Spark's columns where one among them is odd: it, and few others. Facts in, a choice out.

A batch of Spark's columns takes a second or more for one record as for some thousand. So an odd record that has few before it takes these
along, and few behind it; one that has many before it ends the part there, and is at the beginning of the next. Where odd ones come one
after the other, each time twice as many go along: a topic of which nothing is plain is read as a whole soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.arrow.pieces import Odd
from ingest.kafka.ports import Ranges
from ingest.model.manifest import Place

FEW = 2_000
"""Records that go along with an odd one: to Spark's columns they are some tenths of a second more."""


@dataclass
class OddRecords:
    """Of one job. What it has learnt of partitions is gone with it, and is learnt again."""

    _along: dict[Place, int] = field(default_factory=dict)
    """How many go along, where that is more than :data:`FEW`."""

    def settle(
        self, wanted: Ranges, odd: Mapping[Place, Odd], *, whole: bool
    ) -> tuple[dict[str, str], dict[Place, int]]:
        """Topics that are for Spark's columns, each with why, and where reading of partitions has to end, theirs among them. ``odd``: of
        these ranges the first record that Arrow does not read, by partition; ``whole``: nothing may be cut.
        """
        if whole:
            return {place[0]: one.why for place, one in odd.items()}, {}
        near = {
            place: one
            for place, one in odd.items()
            if one.offset - wanted[place][0] < self._many(place)
        }
        others = {place[0]: one.why for place, one in near.items()}
        cut = {place: one.offset for place, one in odd.items() if place[0] not in others}
        for place, (start, end) in wanted.items():
            if place[0] in others and start + self._many(place) < end:
                cut[place] = start + self._many(place)
        self._learn(wanted, near, cut)
        return others, cut

    def _many(self, place: Place) -> int:
        return self._along.get(place, FEW)

    def _learn(self, wanted: Ranges, near: Mapping[Place, Odd], cut: Mapping[Place, int]) -> None:
        """Twice as many where the next one is near, half as many where it is not."""
        for place, (start, end) in wanted.items():
            many = self._many(place)
            if place in near:
                self._along[place] = 2 * many
            elif many > FEW and cut.get(place, end) - start >= many:
                self._along[place] = max(many // 2, FEW)
