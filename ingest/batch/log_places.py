"""Where a batch stands in a table's topic, for the table's change log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ingest.config.pipeline_file import Pipeline
from ingest.model.manifest import Entry, Place
from ingest.model.position import Position
from ingest.model.start_facts import LogHeld, Note
from ingest.model.topics import TableId


@dataclass(frozen=True)
class LogPlaces:
    """Of one batch. ``previous``: the manifest's row before it; ``waiting``: where changes begin that are left in Kafka; ``topic_ids``: Kafka's
    ids of topics, for those that the manifest does not name yet.
    """

    pipeline: Pipeline
    note: Note
    previous: Entry | None
    waiting: Mapping[Place, int]
    topic_ids: Callable[[Sequence[str]], Mapping[str, str]]

    def starts(self, table: TableId) -> dict[int, int]:
        """Where it begins, by partition; none for one of what waited in quarantine, which is of before."""
        if self.note.replay:
            return {}
        topic, ends = self.pipeline.topic(table), self.previous.ends if self.previous else {}
        every = {**ends, **{place: start for place, (start, _) in self.note.ranges.items()}}
        return {partition: at for (name, partition), at in every.items() if name == topic}

    def held(self, table: TableId, high: Position) -> LogHeld:
        """What the log holds of it behind it. ``high``: the batch's newest position of the table."""
        topic = self.pipeline.topic(table)
        marks = self.previous.high_water if self.previous else {}
        ends = {
            place[1]: min(end, self.waiting.get(place, end), self._waits_from(table, place, end))
            for place, (_, end) in self.note.ranges.items()
            if place[0] == topic and not self.note.replay
        }
        ids = (mark.topic_id for (name, _), mark in marks.items() if name == topic)
        known = next(filter(None, ids), "") or self.topic_ids([topic]).get(topic, "")
        return LogHeld(known, ends, high)

    def _waits_from(self, table: TableId, place: Place, end: int) -> int:
        """Where changes begin that earlier batches have left there, as ``next_entry`` has it; the end where none has."""
        if self.previous is None or str(table) == self.note.shows:
            return end
        state, mark = self.previous.tables.get(str(table)), self.previous.high_water.get(place)
        if state is None or mark is None or not state.waits:
            return end
        return mark.offset if mark.offset < self.previous.ends.get(place, 0) else end
