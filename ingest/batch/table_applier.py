"""Apply a batch to its tables, side by side; what of each is one step is decided before, by ``step_cutter``.

Each thread has a Spark session of its own, since commit identity lives in session configuration.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.arrow.kept_rows import StepPieces
from ingest.arrow.table_batch import StepBatch, StepRows, TableBatch
from ingest.batch import change_logs, row_fates
from ingest.batch.change_logs import ChangeLogs
from ingest.batch.job_descriptions import described
from ingest.batch.row_fates import Was, another
from ingest.batch.table_columns import TableColumns
from ingest.changes import dedup, row_images
from ingest.changes.restarted_snapshots import Cleanup
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import change_log_table, other_writers, own_commits
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines import engine_choice
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.model.errors import IngestError
from ingest.model.failpoints import reached
from ingest.model.manifest import LogState
from ingest.model.names import RESERVED_COLUMN, Role, app_id, numbered
from ingest.model.position import Position
from ingest.model.start_facts import Note, carrying
from ingest.model.topics import TableId, captured
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.change_log import Control
from ingest.schema.steps import Applied
from ingest.targets.target import live_rows

_PHASES = 4  # of a step: wipe, evolve, fill, merge; each is a commit with a version of its own


@dataclass(frozen=True)
class Work:
    """Under which identity a batch is applied: its number, its checkpoint id, and the note that its
    commits carry, so that what a marker stands for can be read back (see ``start_facts.Note``).
    """

    batch_id: int
    checkpoint_id: str
    note: str = ""

    @classmethod
    def of(cls, note: Note) -> Work:
        """What a note says."""
        return cls(note.batch_id, note.checkpoint_id, note.as_json())


class CarriedOtherwiseError(Exception):
    """The table's part of a batch was begun in a way in which it cannot be finished; taken back, it can be begun anew."""

    def __init__(self, table: TableId) -> None:
        super().__init__(
            f"{table}: its part of a batch was begun by carrying changes over DDLs, and cannot be finished otherwise"
        )


@dataclass
class Applier:
    """Applies the tables of batches of one pipeline."""

    pipeline: Pipeline
    session: SparkSession
    committer: Committer
    _merging: Merging = field(init=False)
    _columns: TableColumns = field(init=False)
    _logs: ChangeLogs = field(init=False)
    _local: threading.local = field(default_factory=threading.local)
    _seen: set[TableId] = field(default_factory=set)

    def __post_init__(self) -> None:
        wanted = self.pipeline.spark.merge_engine
        lake = self.pipeline.lake
        self._merging = Merging(
            EngineJob(self.session, self.committer, lake.path, wanted, lake.profile)
        )
        self._columns = TableColumns(self.pipeline, self.committer, self._merging)
        self._logs = ChangeLogs(self.pipeline, self.committer, self._merging)

    @property
    def collects(self) -> bool:
        """True when changes are wanted in the driver, where delta-rs merges them."""
        return engine_choice.collects(self._merging.wanted, self.pipeline.lake.path)

    @property
    def opened(self) -> Sequence[DeltaRsTable]:
        """Tables that were merged into and that maintenance can put in order."""
        return self._merging.opened

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """See ``ReachedTables.left_to_spark``."""
        return self._merging.left_to_spark

    def create_missing(self, catalog: Catalog, standing: Collection[TableId] = ()) -> None:
        """Create tables that have a primary key and no rows yet, so that an empty table is one.

        With their first known schema: changes that wait in Kafka were made under it, and the DDLs
        since then are applied at their places. One that the pipeline file does not take gets none, nor does one of
        ``standing``, to which nothing is done.
        """
        patterns = self.pipeline.source.tables
        for current in catalog.current():
            if not current.key or current.table in self._seen or current.table in standing:
                continue
            if captured([current.table], patterns):
                target = SparkTable(self.session, self.pipeline.path(current.table))
                # Where it would lie inside another, the first row that comes says so.
                if not (target.exists() or _lies_inside(target)):
                    first = catalog.first(current.table) or current
                    kept_as = self.pipeline.target(current.table, keyed=bool(first.key))
                    target.create(self._readable(first), first.key, kept_as)
                self._seen.add(current.table)

    def apply(self, batch: TableBatch, work: Work) -> Applied:
        """All steps of one table, in order, in this thread's session."""
        session, table = self._own_session(), batch.facts.table
        with described(session.sparkContext, f"batch {work.batch_id}: {table}, merged"):
            return self._apply(session, batch, work)

    def _apply(self, session: SparkSession, batch: TableBatch, work: Work) -> Applied:
        table = batch.facts.table
        reached("table_started", work.batch_id, str(table))
        target = SparkTable(session, self.pipeline.path(table))
        if self._is_log(target, table):
            raise change_logs.refusal(target.path)
        if not target.exists():
            if _lies_inside(target):
                raise _nested(target)
            key = batch.steps[0].key
            kept_as = self.pipeline.target(table, keyed=bool(key))
            target.create(self._readable(batch.steps[0].step.version), key, kept_as)
        app = self.identity(work.checkpoint_id, table)
        self._refuse_carried_otherwise(target, batch, Identity(app, work.batch_id))
        note = carrying(work.note, batch.carried)
        unknown: list[str] = []
        for one in batch.steps:
            phases = [
                Identity(app, work.batch_id, one.step.number * _PHASES + phase, note)
                for phase in range(_PHASES)
            ]
            unknown += self._step(target, table, one, phases, batch.facts.bytes)
        reached("table_committed", work.batch_id, str(table))
        log, changes = self._logged(session, batch, work), batch.facts.changes
        now = self._merging.handle(target)
        version = self.committer.to_publish(now)
        chosen = str(self._merging.choices.get(target.path, ""))
        wiped = max((one.step.wipe for one in batch.steps if one.step.wipe), default=None)
        said = (tuple(unknown), chosen, log, wiped)
        return Applied(table, target.path, version, changes, now.id(), *said)

    def _logged(self, session: SparkSession, batch: TableBatch, work: Work) -> LogState | None:
        if batch.log is None:
            return None
        table = batch.facts.table
        log = SparkTable(session, self.pipeline.change_log_path(table))
        return self._logs.append(log, batch, batch.log, self._of_log(table, work))

    def has_begun(self, table: TableId, work: Work) -> bool:
        """Whether a table holds anything of a batch."""
        target = SparkTable(self.session, self.pipeline.path(table))
        first = Identity(self.identity(work.checkpoint_id, table), work.batch_id)
        return target.exists() and self.committer.holds(target, first)

    def has_logged(self, table: TableId, work: Work) -> bool:
        """Whether a table's change log holds its part of a batch, of which nothing is left to do then."""
        log = SparkTable(self.session, self.pipeline.change_log_path(table))
        last = replace(self._of_log(table, work), step=change_logs.WRITE)
        return log.exists() and self.committer.holds(log, last)

    def has_log(self, table: TableId) -> bool:
        """Whether a table's change log is there."""
        return SparkTable(self.session, self.pipeline.change_log_path(table)).exists()

    def has_empty_log(self, table: TableId) -> bool:
        """Whether nothing was ever written to a table's change log."""
        log = SparkTable(self._own_session(), self.pipeline.change_log_path(table))
        return self._logs.is_empty(log)

    def holds_older(self, table: TableId, than: Position) -> bool:
        """Whether a table's copy has a row that counts and is older than a place."""
        held = SparkTable(self._own_session(), self.pipeline.path(table))
        description = held.describe()
        if description is None:
            return False
        older = F.col(f"{RESERVED_COLUMN}.position") < dedup.literal(than)
        return not held.frame().filter(live_rows(description.target)).filter(older).isEmpty()

    def log_as_it_is(self, table: TableId) -> LogState | None:
        """A table's change log; None where nothing was written to it."""
        path = self.pipeline.change_log_path(table)
        return self._logs.as_it_is(SparkTable(self._own_session(), path))

    def fill_log(self, batch: TableBatch, work: Work) -> LogState | None:
        """A batch's part of a table's change log, and nothing else."""
        session, table = self._own_session(), batch.facts.table
        with described(session.sparkContext, f"batch {work.batch_id}: {table}, its change log"):
            return self._logged(session, batch, work)

    def _of_log(self, table: TableId, work: Work) -> Identity:
        """Of a batch's part in a table's change log."""
        app = app_id(self.pipeline.name, work.checkpoint_id, str(table), Role.CHANGE_LOG)
        return Identity(app, work.batch_id, note=work.note)

    def _refuse_carried_otherwise(
        self, target: SparkTable, batch: TableBatch, first: Identity
    ) -> None:
        """Of a batch that is finished, a commit that stands means that all before it do, also rows of steps that are carried now, or were then
        and are not now: it is read by another lane, by another version, or under another pipeline file. Earlier than it began, nothing is missing.
        """
        if len(batch.steps) == 1:
            return
        handle = self._merging.handle(target)
        if self.committer.holds(handle, first):
            was = own_commits.carried_in(handle, first.batch)
            if was and was != batch.carried:
                raise CarriedOtherwiseError(batch.facts.table)

    def _is_log(self, target: SparkTable, table: TableId) -> bool:
        """Whether another table's change log lies where this one would, as its name is what that one's is."""
        named = table.name.endswith(self.pipeline.lake.change_log_suffix)
        return named and target.exists() and change_log_table.is_one(target)

    def clean_up(self, cleanup: Cleanup, work: Work, log: LogState | None = None) -> Applied:
        """Do to the rows that a completed snapshot did not contain what the table's target does to such. ``log``: the table's change log,
        where it has one.
        """
        target = SparkTable(self._own_session(), self.pipeline.path(cleanup.table))
        held = target.describe()
        assert held is not None
        app = self.identity(work.checkpoint_id, cleanup.table)
        fates = row_fates.not_found(Was(held.target, held.key), cleanup.below)
        for number, fate in enumerate(fates):
            act = partial(target.strike, fate)
            identity = Identity(app, work.batch_id, number, work.note)
            self.committer.once(target, identity, act, may_do_nothing=True)
        version = self.committer.to_publish(target)
        if log is not None:
            said, of = [Control("void", cleanup.below)], self._of_log(cleanup.table, work)
            log = self._logs.note(SparkTable(self._own_session(), log.path), said, log, of)
        return Applied(cleanup.table, target.path, version, 0, target.id(), log=log)

    def bring_back(self, table: TableId, version: int) -> int:
        """Bring a table to what it held at a version; returns the version that holds that now. Upkeep since then stays, as
        the files of before it may be gone. Markers stay, too: a batch of the same number would find its commits done. Raises
        :class:`LeaseLostError`, as what is undone would be a successor's.
        """
        target = SparkTable(self._own_session(), self.pipeline.path(table))
        if not target.exists() or self._is_log(target, table):
            return version
        if other_writers.since(target, version).markers != {}:
            self.committer.refuse_lost()
            target.restore(version)
            self.committer.brought_back(target)
        self._columns.forget(table)
        return target.version()

    def identity(self, checkpoint_id: str, table: TableId) -> str:
        """The ``txnAppId`` under which a table's mirror, its copy in the lake, is committed to."""
        return app_id(self.pipeline.name, checkpoint_id, str(table), Role.MIRROR)

    def _step(
        self,
        target: SparkTable,
        table: TableId,
        one: StepBatch | StepRows | StepPieces,
        phases: list[Identity],
        size: int,
    ) -> tuple[str, ...]:
        """One step's commits; returns what of its DDL only MySQL knows, in words."""
        wipe, change, fill, write = phases
        step, key = one.step, one.key
        kept_as = self.pipeline.target(table, keyed=bool(key))
        held = None if step.void or self._columns.fit(step, key) else target.describe()
        was = Was(held.target, held.key) if held else None
        # Rows that come once more take the place of those of before in one commit; where none come, those go alone.
        reset = None if step.void or key or not one.applicable else step.reset
        fate = row_fates.before(replace(step, reset=None) if reset else step, kept_as, key, was)
        if fate:
            ran = self.committer.once(
                target, wipe, lambda: target.strike(fate), may_do_nothing=True
            )
            if not ran and was and was.target.keyed == bool(key) and another(kept_as, was):
                # A crash, and the pipeline file changed before this start: the commit that stands there may be that of
                # the file before. So the step is finished as it was begun, and the table changes with the next one.
                kept_as = was.target
            reached("step_committed", wipe.batch, str(table))
        if step.void:
            return ()
        unknown = self._columns.follow(target, held, step, key, kept_as, change, fill)
        if not one.applicable:
            return unknown
        columns = [column.name for column in step.version.followed]
        types = row_images.RowSchema.of(step.version.columns).delta_types if key else {}
        typed_key = {name: types[name] for name in key}
        size = size if one.rows is None else one.rows.nbytes
        source = MergeSource(one.good, one.rows, size, one.pieces)
        replaced = row_fates.up_to(reset) if reset else ""
        self._merging.merge(Merge(target, kept_as, source, columns, typed_key, write, replaced))
        reached("step_committed", write.batch, str(table))
        return unknown

    def _readable(self, version: SchemaVersion) -> SchemaVersion:
        return admitted(version, self.pipeline.lake.profile)

    def _own_session(self) -> SparkSession:
        if not hasattr(self._local, "session"):
            self._local.session = sibling(self.session)
        session: SparkSession = self._local.session
        return session


def further_numbers(tables: Sequence[TableBatch]) -> int:
    """How many batch numbers beyond its own a batch's commits take (``names.numbered``): 0 but for thousands of DDLs
    of one table.
    """
    last = max((one.step.number for table in tables for one in table.steps), default=0)
    return numbered(0, last * _PHASES + _PHASES - 1)[0]


def _lies_inside(target: SparkTable) -> bool:
    """Whether the folder that it lies in is a table itself, such as a flow's that is called as the database is."""
    return SparkTable(target.session, _above(target)).exists()


def _above(target: SparkTable) -> str:
    return target.path.rpartition("/")[0]


def _nested(target: SparkTable) -> IngestError:
    return IngestError(
        "E-TABLE-NESTED",
        f"{target.path} would lie inside the table {_above(target)}.",
        means="A VACUUM of that one would remove its files. Nothing was written there, and the changes stay in Kafka.",
        remedy="have the flow that writes that table write to another folder (`delta` of its sink), and move the old one away.",
    )
