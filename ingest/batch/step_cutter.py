"""Cut a batch into the steps of its tables: what of each is applied between two barriers, and by which key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.arrow import carried_rows, table_batch
from ingest.arrow.kept_rows import KeptRows, StepPieces
from ingest.arrow.source_rows import SourceRows
from ingest.arrow.table_batch import ForLog, StepBatch, StepRows, TableBatch
from ingest.batch import row_fates
from ingest.batch.log_places import LogPlace, log_places
from ingest.batch.record_reader import Reading
from ingest.batch.table_definitions import InForce
from ingest.changes import dedup, restarted_snapshots, row_images
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest import next_entry
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry, TableState
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import carried, change_log
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog
from ingest.schema.change_log import Control
from ingest.schema.steps import Step, TableFacts, steps


@dataclass(frozen=True)
class Cut:
    """Each table's part of a batch. ``failed``: tables whose part cannot be cut, each with why."""

    tables: list[TableBatch]
    failed: Mapping[TableId, IngestError]

    def whole(self) -> list[TableBatch]:
        """All parts. Raises the first failure."""
        for failure in self.failed.values():
            raise failure
        return self.tables


@dataclass
class StepCutter:
    """Of the batches of one pipeline. ``topic_ids``: asks Kafka for ids of topics. ``prepared``: tables of the newest batch, as far as they were cut."""

    pipeline: Pipeline
    session: SparkSession
    topic_ids: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}
    prepared: list[TableBatch] = field(default_factory=list)
    _logs: Mapping[TableId, LogPlace] = field(default_factory=dict)
    """Of its tables that have a change log."""
    _replays: bool = False

    def prepare(
        self,
        read: Reading,
        facts: Mapping[TableId, TableFacts],
        seen: InForce,
        previous: Entry | None,
    ) -> Cut:
        """Cut each table's changes into steps: those of the tables that were read by Arrow, and of all others.

        What an error of ours says is wrong with one table alone is no reason to stop the others, as long as the table can stand still: its changes
        wait in its own topic. Raises where they stand in another one.
        """
        self.prepared = []
        self._replays = seen.note.replay
        self._logs = self._log_places(read, facts, seen.note, previous)
        fresh, rows = read.fresh, read.rows
        catalog, states = seen.catalog, previous.tables if previous else {}
        readable = None if fresh is None else fresh.filter(F.col("reason").isNull())
        failed = dict[TableId, IngestError]()
        for table, found in facts.items():
            try:
                if table in rows:
                    cut = self._cut_rows(rows[table], found, catalog, states)
                else:
                    assert readable is not None
                    cut = self._cut(readable, found, catalog, states)
                self.prepared.append(cut)
            except IngestError as failure:
                if failure.may_pass or not found.topics <= {self.pipeline.topic(table)}:
                    raise
                failed[table] = failure
        return Cut(self.prepared, failed)

    def release(self) -> None:
        """Free what the newest batch's tables have kept, their rows in the driver with it."""
        for table in self.prepared:
            table.release()
        self.prepared = []

    def _cut_rows(
        self,
        rows: SourceRows | KeptRows,
        found: TableFacts,
        catalog: Catalog,
        states: Mapping[str, TableState],
    ) -> TableBatch:
        state = states.get(str(found.table))
        every = steps(found, catalog, state.position if state else None)
        log = self._for_log(rows, found, every, catalog, state)
        cut = row_fates.without_void(every, self.pipeline.target(found.table, keyed=True))
        carries = carried.between(cut, self.pipeline.lake.profile)
        gone_on = zip(cut, carries, strict=False)
        numbers = tuple(step.number for step, carry in gone_on if carry is not None)
        if isinstance(rows, KeptRows):
            return TableBatch(found, [*rows.cut(cut, carries)], numbers, log)
        pairs = zip(cut, carried_rows.joined(rows.cut(cut), carries), strict=True)
        mine = [StepRows(one, one.version.key, part, self.session) for one, part in pairs]
        return TableBatch(found, [*mine], numbers, log)

    def _cut(
        self,
        readable: DataFrame,
        found: TableFacts,
        catalog: Catalog,
        states: Mapping[str, TableState],
    ) -> TableBatch:
        table, state = found.table, states.get(str(found.table))
        cut = steps(found, catalog, state.position if state else None)
        keys = self._keys(found, cut)
        mine = (F.col("database") == table.database) & (F.col("table") == table.name)
        mine = mine & (F.col("op") != "t")
        every_change: DataFrame | None = None
        begins: Position | None = None
        if not all(keys) and found.attempt:
            # Rows of a multiset carry no key to meet again by: only one attempt may count, and
            # nothing that the snapshot already contains.
            every_change = dedup.without_other_attempts(readable.filter(mine), found.attempt)
            readable = dedup.of_attempt(readable.filter(mine), found.attempt)
            if state is None and found.low < found.attempt.position:
                # Nor can changes of rows be told that are those of an earlier attempt.
                every_change, begins = None, found.attempt.position
        unfit = self.pipeline.unfit(table, keyed=bool(keys[-1]))
        # Of a table that is to be made, a batch of TRUNCATEs alone does not say what its key is.
        told = found.changes > len(found.truncates)
        if unfit and (told or SparkTable(self.session, self.pipeline.path(table)).exists()):
            raise unfit.refusal(str(table))
        target = self.pipeline.target(table, keyed=all(keys))
        if target.ignored or target.refused:
            every_change = readable.filter(mine) if every_change is None else every_change
            every_change = every_change.filter(~F.col("op").isin(*target.refused))
            readable = table_batch.taken_in(readable.filter(mine), target)
        every, logs = cut, table in self._logs
        pairs = {step.number: key for step, key in zip(cut, keys, strict=True)}
        last = self.pipeline.target(table, keyed=bool(keys[-1]))
        cut = row_fates.without_void(cut, last if last.dead else target)
        again = None if all(keys) else restarted_snapshots.begins_again(found, state)
        if again:
            cut = [_beginning_with(one, again.position) for one in cut]
            every = [_beginning_with(one, again.position) for one in every]
        zero = self.pipeline.source.epoch_dates
        batches: list[StepBatch | StepRows | StepPieces] = []
        for step in cut:
            key = pairs[step.number]
            schema = row_images.RowSchema.of(
                admitted(step.version, self.pipeline.lake.profile).columns, key, zero
            )
            batches.append(
                StepBatch(
                    step,
                    key,
                    readable,
                    mine & dedup.within(F.col("position"), step.start, step.end),
                    schema,
                    logs=logs,
                    every=every_change if logs and not self._replays else None,
                )
            )
        log = self._for_log(None, found, every, catalog, state, begins)
        return TableBatch(found, batches, log=log)

    def _log_places(
        self,
        read: Reading,
        facts: Mapping[TableId, TableFacts],
        note: Note,
        previous: Entry | None,
    ) -> dict[TableId, LogPlace]:
        tables = [table for table in facts if self.pipeline.logs(table)]
        if not tables:
            return {}
        topics = [(self.pipeline.topic(table), 0) for table in tables]
        unnamed = next_entry.unnamed(previous, topics)
        ids = self.topic_ids(unnamed) if unnamed else {}
        return log_places(self.pipeline, tables, note, previous, read.counts.waiting, ids)

    def _for_log(
        self,
        rows: SourceRows | KeptRows | None,
        found: TableFacts,
        every: list[Step],
        catalog: Catalog,
        state: TableState | None,
        begins: Position | None = None,
    ) -> ForLog | None:
        """``every``: the table's steps, those that leave nothing of its rows among them; ``begins``: where the log begins, though there was something
        before.
        """
        table, place = found.table, self._logs.get(found.table)
        if place is None:
            return None
        applied = state.position if state else None
        return ForLog(
            rows,
            change_log.versions(table, every, catalog, found.high),
            [
                *([Control("begin", begins)] if begins else []),
                *change_log.controls(found, every, catalog, applied),
            ],
            restarted_snapshots.first(catalog, table),
            state.log if state else None,
            applied,
            place.starts,
            replace(place.held, high=found.high),
            place.lost,
        )

    def _keys(self, facts: TableFacts, cut: list[Step]) -> list[tuple[str, ...]]:
        """The key of each step: the primary key in force, else the unique key that Debezium puts
        into the messages in its place, else none.
        """
        unique = next(iter(facts.keys - {step.version.key for step in cut}), ())
        if not unique and facts.changes == len(facts.truncates) and not cut[0].version.key:
            # No row that could say; what the lake's table was made with still holds.
            description = SparkTable(self.session, self.pipeline.path(facts.table)).describe()
            unique = description.key if description else ()
        return [step.version.key or unique for step in cut]


def _beginning_with(step: Step, snapshot: Position) -> Step:
    """The step that a snapshot's rows are in replaces all that is older: also what a DROP at that place would wipe, which
    Debezium writes before the CREATE of a table that it reads anew.
    """
    if (step.start and step.start > snapshot) or (step.end and step.end <= snapshot):
        return step
    return replace(step, reset=snapshot, wipe=None)
