"""Change logs that are asked for later, filled with what Kafka still has of their tables' changes (``change_log_from: kafka``).

For each such table one batch of its own, before the stream goes on: from the first record of its topic that is there up to where the table is,
read by Spark's columns as a new lake would read it, and appended by one commit. The table itself is not touched.

The log's commit comes first, then the manifest's row. A start that finds the one without the other finishes it by the commit's note, as it
does with every batch, and finds the commit there. What the log holds from then on it says by itself, so the stream adds nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ingest.batch.readers import Reader
from ingest.batch.record_reader import ReadRequest, SparkRecords
from ingest.batch.settling import Spine
from ingest.batch.side_by_side import SideBySide, in_words
from ingest.batch.stage_times import Stopwatch
from ingest.batch.step_cutter import StepCutter
from ingest.batch.table_applier import Applier, Work
from ingest.batch.table_definitions import Definitions, InForce
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model import reasons
from ingest.model.errors import of_table
from ingest.model.manifest import Entry, Place, TableState
from ingest.model.position import PART_DELETE, Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl_policy
from ingest.schema.change_log import Control
from ingest.schema.steps import TableFacts


class _Batches(Spine, Protocol):
    """What is asked of the batches (``micro_batch.Batches``)."""

    pipeline: Pipeline
    definitions: Definitions
    tables: SideBySide


@dataclass(frozen=True)
class LogFilling:
    """Of one job."""

    batches: _Batches
    log: Log
    reader: Reader
    cutter: StepCutter
    held: HeldBack
    applier: Applier

    def look(self) -> None:
        """Fill what is to be filled. A table whose log cannot be stands still, with all that comes, so that its log begins with nothing less
        than was asked for; the others go on.
        """
        newest = self.batches.newest
        due = (
            [] if newest is None else list(filter(self._is_due, map(TableId.parse, newest.tables)))
        )
        if not due:
            return
        first = self.log.begins([self.batches.pipeline.topic(table) for table in due])
        for table in due:
            if ranges := self._ranges(table, first):
                note = replace(self.batches.note(), ranges=ranges, fill=str(table))
                self._try(table, self.batches.definitions.in_force(note, self._newest))

    def finish(self, note: Note) -> None:
        """What a crash has ended between a log's commit and the manifest's row."""
        self._fill(TableId.parse(note.fill), self.batches.definitions.in_force(note, self._newest))

    @property
    def _newest(self) -> Entry:
        newest = self.batches.newest
        assert newest is not None
        return newest

    def _is_due(self, table: TableId) -> bool:
        """Whether its log is to have what Kafka has, and has nothing at all. Of a table that waits it would be too much."""
        pipeline, state = self.batches.pipeline, self._newest.tables[str(table)]
        wanted = pipeline.logs(table) and pipeline.change_log_from(table) == "kafka"
        waits = state.waits or table in self.batches.tables.standing(self._newest)
        return wanted and not waits and self.applier.has_empty_log(table)

    def _ranges(self, table: TableId, first: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
        topic = self.batches.pipeline.topic(table)
        ends = {place: end for place, end in self._newest.ends.items() if place[0] == topic}
        return {
            place: (start, end)
            for place, end in ends.items()
            if (start := first.get(place, end)) < end
        }

    def _try(self, table: TableId, seen: InForce) -> None:
        tables = self.batches.tables
        try:
            self._fill(table, seen)
        except Exception as failure:
            of_table(failure, str(table))
            if tables.failures.is_everybodys(failure):
                raise
            path = self.batches.pipeline.change_log_path(table)
            why = reasons.STOPPED.of(words=f"its change log: {in_words(failure, path)}")
            self._publish(table, replace(self._newest.tables[str(table)], stopped=why))
            tables.say(f"{table} stands still, the others go on: {why}")

    def _fill(self, table: TableId, seen: InForce) -> None:
        started, note = time.monotonic(), seen.note
        records = SparkRecords(self.log.read)
        request = ReadRequest(note, seen.catalog, seen.aside, records, previous=None)
        try:
            read = self.reader.read(request, Stopwatch())
            facts = ddl_policy.ruled(read.facts, self.batches.pipeline.rules)
            if (found := facts.get(table)) is None:
                return  # no change at all: the log begins with the next one
            (batch,) = self.cutter.prepare(read, {table: found}, seen, previous=None)
            # What waits comes once it is taken in; what was given up never does.
            self.held.leave_out(note.batch_id, [batch])
            assert batch.log is not None
            controls = [*batch.log.controls, *self._more(note, found, batch.log.first)]
            batch.log = replace(batch.log, controls=controls, starts={})
            log = self.applier.fill_log(batch, Work.of(note))
        finally:
            self.cutter.release()
            self.held.release()
            self.reader.release()
        state = replace(self._newest.tables[str(table)], log=log)
        self._publish(table, state, time.monotonic() - started)
        self.batches.tables.say(
            f"{table}: {found.changes:,} changes that Kafka still had are in its change log"
        )

    def _more(self, note: Note, found: TableFacts, first: Position | None) -> list[Control]:
        """What no change says. ``first``: where the table's first snapshot was taken. Where Kafka has lost the beginning of the topic, or some of
        what came since, the log begins with that; and what the newest snapshot that read the table again did not find is gone.
        """
        told, name = list[Control](), str(found.table)
        lost = any(start for start, _ in note.ranges.values())
        if lost or any(gap.table == name for gap in self._newest.gaps):
            before = replace(found.low, pos=max(found.low.pos - 1, 0), part=PART_DELETE)
            told.append(Control("begin", before))
        at = self._newest.tables[name].snapshot
        if at is not None and at != first and found.low < at <= found.high:
            told.append(Control("void", at))
        return told

    def _publish(self, table: TableId, state: TableState, seconds: float = 0.0) -> None:
        entry = self.batches.without_changes("fill")
        tables = {**entry.tables, str(table): replace(state, changes=0)}
        self.batches.publish(replace(entry, tables=tables, seconds=seconds))
