"""A batch's changes of one table appended to its change log, once.

The log is written after the mirror, under an identity of its own with the batch's number, and is published by the manifest's row. It
never goes back: what stands in it, a reader may have read. And it says by itself what it holds: each of its commits notes up to where in
Kafka (``start_facts.LogHeld``). So where a table goes back, or is filled again, and its changes come once more, those that the log has are
left out; and where the log lacks something (a copy of last week, a folder that is gone, a time in which nobody asked for it) it goes on
with a row that says so (``begin``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from ingest.lake.delta import change_log_table, own_commits
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.engines.delta_rs_limits import MAX_BYTES
from ingest.lake.engines.dispatch import Merging
from ingest.model.errors import IngestError
from ingest.model.failpoints import reached
from ingest.model.manifest import LogState
from ingest.model.start_facts import LogHeld
from ingest.schema.catalog import SchemaVersion
from ingest.schema.change_log import Control, LogColumns

_GROW, WRITE = 0, 1
"""Steps of a batch: the log's columns, then its rows."""


@dataclass(frozen=True)
class ChangeLogs:
    """Of one pipeline's tables. Asked by many threads, each for another table."""

    pipeline: Pipeline
    committer: Committer
    merging: Merging
    _seen: dict[str, tuple[int, LogHeld]] = field(default_factory=dict)
    """By path of a log: as of which version, what it holds."""
    _columns: dict[str, tuple[Sequence[SchemaVersion], LogColumns]] = field(default_factory=dict)
    """By path: the definitions that were taken in last, and the columns then. A log's columns only come, and by this job alone."""

    def append(self, log: SparkTable, batch: TableBatch, wanted: ForLog, at: Identity) -> LogState:
        """A batch's part. ``log``: in this thread's session; ``at``: the batch, under the log's own app id. Returns the log as it is then.
        Raises :class:`IngestError` where another table is in its place.
        """
        table = batch.facts.table
        reached("log_started", at.batch, str(table))
        is_new = not log.exists()
        if is_new:
            columns = reduce(LogColumns.with_version, wanted.versions, LogColumns())
            change_log_table.create(log, table, columns)
        direct = self._direct(log)
        handle = direct or self.merging.reached.written_by_spark(log)
        read = self._held(log, handle)
        held = read.ends_lower(wanted.lost)
        is_same = held.is_of(wanted.held.topic)
        told, has = list(wanted.controls), dict[int, int]()
        if is_same:
            has = {p: end for p, end in held.ends.items() if wanted.starts.get(p, end) < end}
        if held.high is not None:
            # Where a topic goes on, each TRUNCATE comes for the first time, a late one from another partition, too.
            first = frozenset[str]() if has else frozenset(("truncate", "restart"))
            told = [one for one in told if one.operation in first or one.position > held.high]
        lost_end = held != read
        if (
            not is_same
            or lost_end
            or _lacks(held, wanted)
            or (is_new and wanted.applied is not None)
        ):
            told = [Control("begin", wanted.applied or batch.facts.low), *told]
        then = held.and_then(wanted.held)
        grown = self._grown(log, direct, handle, wanted.versions, at)
        versions = tuple(one.position for one in wanted.versions)
        mine = LogBatch(grown, at.batch, wanted.first, versions, has)
        written = self._write(
            log, direct, batch, wanted, told, mine, replace(at, note=then.written(at.note))
        )
        reached("log_committed", at.batch, str(table))
        # Where its commit stood there already, the log is believed and not the commit: somebody may have restored it since. What it lacks
        # then, the next batch finds out, and says.
        now = then if written else _read(handle) if written is False else held
        return self._state(handle, now, held if written is None else then)

    def is_empty(self, log: SparkTable) -> bool:
        """Whether it holds no file, or is not there. That no commit says what it holds is not enough: Delta's log loses old ones."""
        return not log.exists() or (change_log_table.is_one(log) and not log.frame().inputFiles())

    def as_it_is(self, log: SparkTable) -> LogState | None:
        """As its newest commit of changes has left it; None where none has."""
        if not log.exists():
            return None
        handle = self._direct(log) or self.merging.reached.written_by_spark(log)
        held = own_commits.log_held(handle)
        return None if held is None else self._state(handle, held, held)

    def note(
        self, log: SparkTable, said: Sequence[Control], known: LogState, at: Identity
    ) -> LogState:
        """Rows that are no changes of rows, beside no batch of changes."""
        if not log.exists():
            return known
        direct = self._direct(log)
        handle = direct or self.merging.reached.written_by_spark(log)
        held = self._held(log, handle)
        mine = LogBatch(change_log_table.columns_of(log, direct), at.batch)
        self._append(log, direct, change_log_rows.of_controls(said, mine), at)
        return self._state(handle, held, held)

    def _held(self, log: SparkTable, handle: TableHandle) -> LogHeld:
        """What it holds, by its own commits."""
        version, seen = handle.version(), self._seen.get(log.path)
        if seen is not None and seen[0] == version:
            return seen[1]
        if not change_log_table.is_one(log):
            raise refusal(log.path)
        self._columns.pop(log.path, None)  # it is another one than was left, or new to this job
        return _read(handle)

    def _direct(self, log: SparkTable) -> DeltaRsTable | None:
        """The log where delta-rs appends to it."""
        return None if self.merging.wanted == "spark" else self.merging.writable(log)

    def _grown(
        self,
        log: SparkTable,
        direct: DeltaRsTable | None,
        handle: TableHandle,
        versions: Sequence[SchemaVersion],
        at: Identity,
    ) -> LogColumns:
        """The log's columns, with those of all definitions of the batch."""
        taken, columns = self._columns.get(log.path, ((), LogColumns()))
        if taken == versions:
            return columns
        held = change_log_table.columns_of(log, direct)
        columns = reduce(LogColumns.with_version, versions, held)
        if columns != held:
            self.committer.once(
                handle,
                replace(at, step=_GROW),
                lambda: change_log_table.grow(log, direct, columns),
            )
        self._columns[log.path] = (versions, columns)
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
    ) -> bool | None:
        """Whether it was written now; None where there was nothing."""
        extra = change_log_rows.of_controls(told, mine)
        of_version = mine.columns.of_version
        if isinstance(wanted.rows, KeptRows):
            fields = {layout: of_version(one) for layout, one in wanted.rows.versions.items()}
            return self._append_frames(log, [wanted.rows.logged(fields, mine)], extra, mine, at)
        if wanted.rows is not None:
            parts = [
                change_log_rows.of_changes(rows, of_version(version), mine)
                for version, rows in wanted.rows.parts
            ]
            return self._append(log, direct, pa.concat_tables([extra, *parts]), at)
        # What the table itself leaves out, the log may get.
        steps = [one for one in batch.read_by_spark if one.applicable or one.every is not None]
        frames = [_frame(one, mine) for one in steps]
        if direct is not None and batch.facts.bytes <= MAX_BYTES:
            parts = [one.toArrow().cast(mine.schema) for one in frames]
            return self._append(log, direct, pa.concat_tables([extra, *parts]), at)
        return self._append_frames(log, frames, extra, mine, at)

    def _append(
        self, log: SparkTable, direct: DeltaRsTable | None, rows: pa.Table, at: Identity
    ) -> bool | None:
        if not rows.num_rows:
            return None
        if direct is None:
            return self._append_frame(log, frame_of(rows, log.session), at)
        return self.committer.once(direct, replace(at, step=WRITE), lambda: direct.append(rows))

    def _append_frames(
        self,
        log: SparkTable,
        frames: Sequence[DataFrame],
        extra: pa.Table,
        mine: LogBatch,
        at: Identity,
    ) -> bool | None:
        more = [frame_of(extra, log.session)] if extra.num_rows else []
        every = [change_log_frames.fitted(one, mine.columns) for one in (*more, *frames)]
        if not every:
            return None
        return self._append_frame(log, reduce(DataFrame.unionByName, every), at)

    def _append_frame(self, log: SparkTable, rows: DataFrame, at: Identity) -> bool:
        handle = self.merging.reached.written_by_spark(log)
        ran = self.committer.once(handle, replace(at, step=WRITE), lambda: log.append(rows))
        if direct := self.merging.reached.now(log):
            direct.was_merged_into()
        return ran

    def _state(self, log: TableHandle, held: LogHeld, wanted: LogHeld) -> LogState:
        """``held``: what it holds; ``wanted``: what it is to hold, as the manifest has it."""
        version = self.committer.to_publish(log)
        self._seen[log.path] = (version, held)
        return LogState(log.path, version, log.id(), tuple(sorted(wanted.ends.items())))


def refusal(path: str) -> IngestError:
    """Where a table and another one's change log would lie in one folder."""
    return IngestError(
        "E-CHANGE-LOG-FOLDER",
        f"{path} is the folder of a table, and of another one's change log.",
        means="Nothing was written there, and the changes stay in Kafka.",
        remedy="choose another ending of the logs' names (`change_log_suffix` below `lake`), or exclude that table with a "
        "`!database.table` pattern.",
    )


def _read(log: TableHandle) -> LogHeld:
    return own_commits.log_held(log) or LogHeld()


def _lacks(held: LogHeld, wanted: ForLog) -> bool:
    """Whether something that was applied before may be missing in a log, or more than it held when it was published last."""
    known = wanted.known
    if (
        known is not None
        and known.ends
        and all(held.ends.get(p, 0) >= end for p, end in known.ends)
    ):
        return False
    return any(held.ends.get(p, 0) < start for p, start in wanted.starts.items())


def _frame(step: StepBatch, log: LogBatch) -> DataFrame:
    version: SchemaVersion = step.step.version
    return change_log_frames.of_changes(
        step.logged(),
        log.columns.of_version(version),
        str(version.position),
        log.columns,
        batch=log.batch,
        first=log.first,
        has=log.has,
    )
