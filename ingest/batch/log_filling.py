"""Change logs that are asked for later, filled with what Kafka still has of their tables' changes (``change_log_from: kafka``).

For each such table one batch of its own, before the stream goes on: from the first record of its topic that is there up to where the table is,
read by Spark's columns, and appended by one commit. The table itself is not touched.

What the topic holds is not always what was applied: another server may have sent changes again, a policy or a setting may have been another one
then, a value may be unreadable now. Wherever that cannot be known, everything up to there is left out, and the log begins behind it and says so
(``begin``): it may hold less than Kafka has, and never what the table has not.

The log's commit comes first, then the manifest's row. A start that finds the one without the other publishes the log as it is, by the commit's
note: the commit holds all of it, and Kafka is not asked again. What a log holds it says by itself, so the stream adds nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import functions as F

from ingest.arrow.table_batch import TableBatch
from ingest.batch.readers import Reader
from ingest.batch.record_reader import Reading, ReadRequest, SparkRecords
from ingest.batch.settling import Spine
from ingest.batch.side_by_side import SideBySide, in_words
from ingest.batch.stage_times import Stopwatch
from ingest.batch.step_cutter import StepCutter
from ingest.batch.table_applier import Applier, Work
from ingest.batch.table_definitions import Definitions, InForce
from ingest.changes import batch_facts, dedup
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model import reasons
from ingest.model.epochs import Epoch
from ingest.model.errors import of_table
from ingest.model.manifest import Entry, HighWater, Place, TableState
from ingest.model.position import PART_DELETE, PART_WRITE, Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId, captured
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
    """Of one job. ``epochs``: of the source's log."""

    batches: _Batches
    log: Log
    reader: Reader
    cutter: StepCutter
    held: HeldBack
    applier: Applier
    epochs: Sequence[Epoch]

    def look(self) -> None:
        """Fill what is to be filled. A table whose log cannot be stands still, with all that comes, so that its log begins with nothing less
        than was asked for; the others go on.
        """
        newest = self.batches.newest
        wanted = [] if newest is None else self._wanted(newest)
        if not wanted:
            return
        first = self.log.begins([self.batches.pipeline.topic(table) for table in wanted])
        for table in wanted:
            if ranges := self._ranges(table, first):
                note = replace(self.batches.note(), ranges=ranges, fill=str(table))
                self._try(table, self.batches.definitions.in_force(note, self._newest))

    def finish(self, note: Note) -> None:
        """What a crash has ended between a log's commit and the manifest's row."""
        table = TableId.parse(note.fill)
        state = self._newest.tables[note.fill]
        self._publish(table, replace(state, log=self.applier.log_as_it_is(table) or state.log))

    @property
    def _newest(self) -> Entry:
        newest = self.batches.newest
        assert newest is not None
        return newest

    def _wanted(self, newest: Entry) -> list[TableId]:
        """Tables whose logs are to have what Kafka has, and may have nothing yet. Of a table that waits it would be too much."""
        pipeline = self.batches.pipeline
        standing, found = self.batches.tables.standing(newest), list[TableId]()
        for table in captured(map(TableId.parse, newest.tables), pipeline.source.tables):
            state = newest.tables[str(table)]
            wanted = pipeline.logs(table) and pipeline.change_log_from(table) == "kafka"
            if not wanted or state.waits or table in standing:
                continue
            # One that is published holds something, so that a start asks nothing more of it, and Kafka nothing.
            if state.log is None or not self.applier.has_log(table):
                found.append(table)
        return found

    def _ranges(self, table: TableId, first: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
        """Of each partition, what to fill the log from. It begins with the first record that Kafka still has, or with the newest epoch's, since another
        server may send changes of before again. It ends at what was ever applied, which is behind where the topic is now while that is being read again.
        """
        found, topic = dict[Place, tuple[int, int]](), self.batches.pipeline.topic(table)
        for place, end in self._newest.ends.items():
            if place[0] == topic and place in first:
                applied = max(end, self._newest.high_water.get(place, HighWater()).offset)
                start = max(first[place], *(one.starts.get(place, 0) for one in self.epochs), 0)
                if start < applied:
                    found[place] = (start, applied)
        return found

    def _try(self, table: TableId, seen: InForce) -> None:
        tables = self.batches.tables
        try:
            if self.applier.has_empty_log(table):
                self._fill(table, seen)
        except Exception as failure:
            of_table(failure, str(table))
            if not tables.failures.is_its_own(table, failure):
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
            cut = self._other_rules(table, read)
            batch = self._batch(table, read, seen, cut)
            if batch and (odd := self.held.newest_odd(batch, read.changes, note.batch_id)):
                cut = max(at for at in (cut, odd) if at)
                batch = self._batch(table, read, seen, cut)
            if batch is None:
                return  # nothing is left: the log begins with the next change
            log = self.applier.fill_log(batch, Work.of(note))
            if self.applier.has_empty_log(table):
                return
        finally:
            self.cutter.release()
            self.held.release()
            self.reader.release()
        self._publish(
            table, replace(self._newest.tables[str(table)], log=log), time.monotonic() - started
        )
        say = self.batches.tables.say
        say(f"{table}: {batch.facts.changes:,} changes that Kafka still had are in its change log")

    def _batch(
        self, table: TableId, read: Reading, seen: InForce, cut: Position | None
    ) -> TableBatch | None:
        """Its part of what was read, behind a place; None where there is none. What waits in quarantine is left out, and comes once it is taken in; what
        was given up never does.
        """
        self.cutter.release()
        if cut is not None and read.changes is not None:
            changes = read.changes.filter(F.col("position") > dedup.literal(cut))
            facts, counts = batch_facts.gather(changes)
            read = replace(read, changes=changes, facts=facts, counts=counts)
        found = ddl_policy.ruled(read.facts, self.batches.pipeline.rules).get(table)
        if found is None:
            return None
        state = self._newest.tables[str(table)]
        # What was applied without a change behind it, as a DROP TABLE, is of the log, too.
        applied = max(at for at in (found.high, state.position) if at)
        found = replace(found, high=applied)
        (batch,) = self.cutter.prepare(read, {table: found}, seen, previous=None).whole()
        self.held.leave_out(seen.note.batch_id, [batch], read.changes)
        assert batch.log is not None
        assert read.changes is not None
        lowest = batch_facts.lowest(read.changes)
        more = self._more(seen.note, found, batch.log.first, cut, lowest)
        batch.log = replace(batch.log, controls=[*batch.log.controls, *more], starts={})
        return batch

    def _other_rules(self, table: TableId, read: Reading) -> Position | None:
        """The newest place behind which it is certain what was done about a DROP or TRUNCATE. A policy that ignores DROPs may be newer than they are; and where the
        table has rows of before, the policy of that time has ignored it.
        """
        state = self._newest.tables[str(table)]
        versions = self.batches.definitions.known().versions.get(table, ())
        drops = [one.position for one in versions if one.kind == "DROP"]
        truncates = [*read.facts[table].truncates] if table in read.facts else []
        applied = [at for at in (*drops, *truncates) if state.position and at <= state.position]
        newest = max(applied, default=None)
        ignored = "drop_table" in self.batches.pipeline.rules(table).ignores
        cuts = [at for at in drops if ignored and at in applied]
        if newest is not None and self.applier.holds_older(table, newest):
            cuts.append(newest)
        return max(cuts, default=None)

    def _more(
        self,
        note: Note,
        found: TableFacts,
        first: Position | None,
        cut: Position | None,
        lowest: Mapping[Place, Position],
    ) -> list[Control]:
        """What no change says. ``first``: where the table's first snapshot was taken; ``lowest``: by partition, the oldest change that is left. The log
        begins behind all that was left out or is lost, and once more behind what Kafka has lost in between; and what the newest snapshot
        that read the table again did not find is gone.
        """
        name, topic = str(found.table), self.batches.pipeline.topic(found.table)
        begins, marks = [cut] if cut else list[Position](), self._newest.high_water
        for place, end in self._newest.ends.items():
            if place[0] != topic or not end or note.ranges.get(place, (1, 1))[0] == 0:
                continue
            if place in lowest and place in note.ranges:
                begins.append(_just_before(lowest[place]))
            elif place in marks and (at := marks[place].position):
                begins.append(at)
            else:
                begins.append(_just_before(found.low))
        told = [Control("begin", max(begins))] if begins else []
        for gap in self._newest.gaps:
            if gap.table == name and reasons.voids(gap.reason):
                at = max([gap.position or found.low, *begins])
                told += [] if told and at <= told[0].position else [Control("begin", at)]
        gone = self._newest.tables[name].snapshot
        if gone is not None and gone != first and gone > found.low:
            told.append(Control("void", gone))
        return told

    def _publish(self, table: TableId, state: TableState, seconds: float = 0.0) -> None:
        entry = self.batches.without_changes("fill")
        tables = {**entry.tables, str(table): replace(state, changes=0)}
        self.batches.publish(replace(entry, tables=tables, seconds=seconds))


def _just_before(change: Position) -> Position:
    """Where a log begins of which this is the oldest change that is left. A snapshot's rows share one place: others of them may be lost, and are
    of before the beginning.
    """
    if change.part == PART_DELETE and change.row == 0:
        return replace(change, part=PART_WRITE)
    return replace(change, pos=max(change.pos - 1, 0), part=PART_DELETE)
