"""What of a batch is to be read by Arrow, whichever lane does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.arrow.gathered import Gathered
from ingest.arrow.pieces import Before
from ingest.batch.odd_records import OddRecords
from ingest.kafka.ports import Ranges
from ingest.model.manifest import Place
from ingest.model.offset_ranges import filled


@dataclass(frozen=True)
class PlainRequest:
    """``batch``: its number; ``ranges``: all of it; ``befores``: by topic, of tables whose like Arrow can read; ``others``: of all others
    touched, why not; ``odd``: who says what goes along with an odd record; ``most``: bytes of rows after which no more records are taken,
    and the batch ends (``Reading.cut``); None: all are.
    """

    batch: int
    ranges: Ranges
    befores: Mapping[str, Before]
    others: Mapping[str, str]
    odd: OddRecords
    most: int | None = None

    @property
    def wanted(self) -> dict[Place, tuple[int, int]]:
        """What is to be read."""
        return {place: r for place, r in filled(self.ranges).items() if place[0] in self.befores}

    @property
    def keyed(self) -> list[str]:
        """Topics of which records' keys are wanted."""
        return [topic for topic, before in self.befores.items() if before.waits]

    def all_for(self, why: str) -> dict[str, str]:
        """All topics touched, as those that are left to Spark."""
        return dict.fromkeys({topic for topic, _ in filled(self.ranges)}, why)

    def gathered(self) -> Gathered:
        """Of nothing so far."""
        return Gathered(self.befores, {**self.others})

    def again(self, others: Mapping[str, str], cut: Mapping[Place, int]) -> PlainRequest:
        """What is left of it without these topics, up to where the batch ends: nothing of that may be cut once more."""
        ranges = {
            place: (start, cut.get(place, end)) for place, (start, end) in self.ranges.items()
        }
        befores = {topic: one for topic, one in self.befores.items() if topic not in others}
        return PlainRequest(self.batch, ranges, befores, others, self.odd)

    def settle(self, gathered: Gathered, cut: Mapping[Place, int]) -> dict[Place, int]:
        """Leave to Spark the topics that have an odd record near their beginning. ``cut``: where reading has ended before a
        range does; returns where the batch ends for that and for odd records.
        """
        others, ends = self.odd.settle(self.wanted, gathered.odd, whole=self.most is None)
        gathered.others |= others
        early = {place: at for place, at in cut.items() if place[0] not in gathered.others}
        return {**early, **ends}
