"""A batch's changes of one table appended to its change log, once.

The log is written after the mirror, under an identity of its own with the batch's number, and is published by the manifest's row. It
never goes back: what stands in it, a reader may have read. So where the mirror goes back, and changes come once more, those that the log
has are left out (``LogState.upto``); and where the log itself has lost something (a copy of last week, a folder that is gone, a time in
which nobody asked for it) it goes on with a row that says so (``begin``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.arrow import change_log_rows
from ingest.arrow.change_log_rows import LogBatch
from ingest.arrow.kept_rows import KeptRows
from ingest.arrow.table_batch import ForLog, StepBatch, TableBatch
from ingest.changes import change_log_frames
from ingest.changes.arrow_frames import frame_of
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import change_log_table
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.delta_rs_limits import MAX_BYTES
from ingest.lake.engines.dispatch import Merging
from ingest.model.failpoints import reached
from ingest.model.manifest import LogState
from ingest.model.position import Position
from ingest.schema.catalog import SchemaVersion
from ingest.schema.change_log import Control, LogColumns

_GROW, _WRITE = 0, 1
"""Steps of a batch: the log's columns, then its rows."""


@dataclass(frozen=True)
class ChangeLogs:
    """Of one pipeline's tables. Asked by many threads, each for another table."""

    pipeline: Pipeline
    committer: Committer
    merging: Merging

    def append(self, log: SparkTable, batch: TableBatch, wanted: ForLog, at: Identity) -> LogState:
        """A batch's part. ``log``: in this thread's session; ``at``: the batch, under the log's own app id. Returns the log as it is then."""
        table = batch.facts.table
        reached("log_started", at.batch, str(table))
        columns = LogColumns()
        for version in wanted.versions:
            columns = columns.with_version(version)
        known, is_new = wanted.known, not log.exists()
        if is_new:
            change_log_table.create(log, table, columns)
            known = None
        told = list(wanted.controls)
        upto = known.upto if known else None
        if known is None:
            upto = None if is_new else change_log_table.newest(log)
            told = [*_begins(wanted, upto), *told]
        direct = self._direct(log)
        columns = self._grown(log, direct, wanted.versions, at)
        mine = LogBatch(columns, at.batch, wanted.first, None if wanted.again else upto)
        self._write(log, direct, batch, wanted, told, mine, at)
        reached("log_committed", at.batch, str(table))
        left = None if upto is None or batch.facts.high >= upto else upto
        return self._state(log, at.batch, left)

    def note(
        self, log: SparkTable, said: Sequence[Control], known: LogState, at: Identity
    ) -> LogState:
        """Rows that are no changes of rows, beside no batch of changes."""
        if not log.exists():
            return known
        direct = self._direct(log)
        mine = LogBatch(change_log_table.columns_of(log, direct), at.batch)
        self._append(log, direct, change_log_rows.of_controls(said, mine), at)
        return self._state(log, at.batch, known.upto)

    def _direct(self, log: SparkTable) -> DeltaRsTable | None:
        """The log where delta-rs appends to it."""
        if self.merging.wanted == "spark":
            return None
        return self.merging.reached.writable(log)

    def _grown(
        self,
        log: SparkTable,
        direct: DeltaRsTable | None,
        versions: Sequence[SchemaVersion],
        at: Identity,
    ) -> LogColumns:
        """The log's columns, with those of all definitions of the batch."""
        held = change_log_table.columns_of(log, direct)
        columns = reduce(LogColumns.with_version, versions, held)
        if columns != held:
            handle = direct or self.merging.reached.written_by_spark(log)
            self.committer.once(
                handle,
                replace(at, step=_GROW),
                lambda: change_log_table.grow(log, direct, columns),
            )
        return columns

    def _write(
        self,
        log: SparkTable,
        direct: DeltaRsTable | None,
        batch: TableBatch,
        wanted: ForLog,
        told: Sequence[Control],
        mine: LogBatch,
        at: Identity,
    ) -> None:
        extra = change_log_rows.of_controls(told, mine)
        if isinstance(wanted.rows, KeptRows):
            fields = {
                layout: (mine.columns.of_version(version), str(version.position))
                for layout, version in wanted.rows.versions.items()
            }
            self._append_frames(log, [wanted.rows.logged(fields, mine)], extra, mine, at)
        elif wanted.rows is not None:
            parts = [
                change_log_rows.of_changes(
                    rows, mine.columns.of_version(version), str(version.position), mine
                )
                for version, rows in wanted.rows.parts
            ]
            self._append(log, direct, pa.concat_tables([extra, *parts]), at)
        else:
            frames = [_frame(one, mine) for one in batch.read_by_spark if one.applicable]
            if direct is not None and batch.facts.bytes <= MAX_BYTES:
                parts = [one.toArrow().cast(mine.schema) for one in frames]
                self._append(log, direct, pa.concat_tables([extra, *parts]), at)
            else:
                self._append_frames(log, frames, extra, mine, at)

    def _append(
        self, log: SparkTable, direct: DeltaRsTable | None, rows: pa.Table, at: Identity
    ) -> None:
        if not rows.num_rows:
            return
        if direct is None:
            self._append_frame(log, frame_of(rows, log.session), at)
            return
        self.committer.once(direct, replace(at, step=_WRITE), lambda: direct.append(rows))

    def _append_frames(
        self,
        log: SparkTable,
        frames: Sequence[DataFrame],
        extra: pa.Table,
        mine: LogBatch,
        at: Identity,
    ) -> None:
        more = [frame_of(extra, log.session)] if extra.num_rows else []
        every = [change_log_frames.fitted(one, mine.columns) for one in (*more, *frames)]
        if every:
            self._append_frame(log, reduce(DataFrame.unionByName, every), at)

    def _append_frame(self, log: SparkTable, rows: DataFrame, at: Identity) -> None:
        handle = self.merging.reached.written_by_spark(log)
        self.committer.once(handle, replace(at, step=_WRITE), lambda: log.append(rows))
        if direct := self.merging.reached.now(log):
            direct.was_merged_into()

    def _state(self, log: SparkTable, batch: int, upto: Position | None) -> LogState:
        handle = self._direct(log) or self.merging.reached.written_by_spark(log)
        return LogState(log.path, self.committer.to_publish(handle), handle.id(), batch, upto)


def _begins(wanted: ForLog, held: Position | None) -> list[Control]:
    """The mark behind which a log has everything, where something may be missing before. ``held``: the newest that stands in it. What it
    has beyond the mirror, the mirror gets once more, and nothing is missing between.
    """
    applied = wanted.applied
    if applied is None or (held is not None and held >= applied):
        return []
    return [Control("begin", applied)]


def _frame(step: StepBatch, log: LogBatch) -> DataFrame:
    version: SchemaVersion = step.step.version
    fields: Mapping[str, str] = log.columns.of_version(version)
    return change_log_frames.of_changes(
        step.good(),
        fields,
        str(version.position),
        log.columns,
        batch=log.batch,
        first=log.first,
        upto=log.upto,
    )
