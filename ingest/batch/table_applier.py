"""Apply a batch to its tables: prepared together, committed side by side.

Each thread has a Spark session of its own, since commit identity lives in session configuration.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.arrow.change_facts import before
from ingest.batch import row_fates
from ingest.batch.row_fates import Was, another
from ingest.changes import dedup, restarted_snapshots, row_images, table_batch
from ingest.changes.restarted_snapshots import Cleanup
from ingest.changes.table_batch import StepBatch, StepRows, TableBatch
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import Description, SparkTable
from ingest.lake.engines import engine_choice
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.model.failpoints import reached
from ingest.model.manifest import Entry, TableState
from ingest.model.names import (
    RESERVED_COLUMN,
    app_id,
    join,
    numbered,
    quoted,
    table_folder,
)
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.steps import Applied, Step, TableFacts, steps
from ingest.targets.target import Target

MIRROR = "mirror"
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


@dataclass
class Applier:
    """Prepares and applies the tables of batches of one pipeline."""

    pipeline: Pipeline
    session: SparkSession
    committer: Committer
    prepared: list[TableBatch] = field(default_factory=list)
    _merging: Merging = field(init=False)
    _local: threading.local = field(default_factory=threading.local)
    _seen: set[TableId] = field(default_factory=set)
    _fitting: dict[TableId, tuple[SchemaVersion, tuple[str, ...]]] = field(default_factory=dict)
    """What tables were last made to fit; a change by anybody else ends the run (``other_writers``)."""

    def __post_init__(self) -> None:
        wanted = self.pipeline.spark.merge_engine
        lake = self.pipeline.lake
        self._merging = Merging(
            EngineJob(self.session, self.committer, lake.path, wanted, lake.profile)
        )

    @property
    def collects(self) -> bool:
        """True when changes are wanted in the driver, where delta-rs merges them."""
        return engine_choice.collects(self._merging.wanted, self.pipeline.lake.path)

    @property
    def opened(self) -> Sequence[DeltaRsTable]:
        """Tables that were merged into and that maintenance can put in order."""
        return self._merging.opened

    def prepare(
        self,
        fresh: DataFrame | None,
        rows: Mapping[TableId, pa.Table],
        facts: Mapping[TableId, TableFacts],
        catalog: Catalog,
        previous: Entry | None,
    ) -> list[TableBatch]:
        """Cut each table's changes into steps. ``rows``: of the tables that were read in the driver; those of
        all others are in ``fresh``.
        """
        self.prepared = []
        states = previous.tables if previous else {}
        readable = None if fresh is None else fresh.filter(F.col("reason").isNull())
        for table, found in facts.items():
            if table in rows:
                self.prepared.append(self._cut_rows(rows[table], found, catalog, states))
            else:
                assert readable is not None
                self.prepared.append(self._cut(readable, found, catalog, states))
        return self.prepared

    def _cut_rows(
        self,
        rows: pa.Table,
        found: TableFacts,
        catalog: Catalog,
        states: Mapping[str, TableState],
    ) -> TableBatch:
        state = states.get(str(found.table))
        cut = steps(found, catalog, state.position if state else None)
        cut = row_fates.without_void(cut, self.pipeline.target(found.table, keyed=True))
        parts = [rows] if len(cut) == 1 else [_rows_within(rows, step) for step in cut]
        pairs = zip(cut, parts, strict=True)
        return TableBatch(
            found, [StepRows(one, one.version.key, part, self.session) for one, part in pairs]
        )

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
        if not all(keys) and found.attempt:
            # Rows of a multiset carry no key to meet again by: only one attempt may count, and
            # nothing that the snapshot already contains.
            readable = dedup.of_attempt(readable.filter(mine), found.attempt)
            again = restarted_snapshots.begins_again(found, state)
            if again:
                cut = [replace(cut[0], reset=again.position), *cut[1:]]
        unfit = self.pipeline.unfit(table, keyed=bool(keys[-1]))
        # Of a table that is to be made, a batch of TRUNCATEs alone does not say what its key is.
        told = found.changes > len(found.truncates)
        if unfit and (told or SparkTable(self.session, self.path(table)).exists()):
            raise unfit.refusal(str(table))
        target = self.pipeline.target(table, keyed=all(keys))
        if target.ignored or target.refused:
            readable = table_batch.taken_in(readable.filter(mine), target)
        pairs = {step.number: key for step, key in zip(cut, keys, strict=True)}
        last = self.pipeline.target(table, keyed=bool(keys[-1]))
        cut = row_fates.without_void(cut, last if last.dead else target)
        zero = self.pipeline.source.epoch_dates
        batches: list[StepBatch | StepRows] = []
        for step in cut:
            key = pairs[step.number]
            schema = row_images.RowSchema.of(self._readable(step.version).columns, key, zero)
            batches.append(StepBatch(step, key, readable, mine & _within(step), schema))
        return TableBatch(found, batches)

    def _keys(self, facts: TableFacts, cut: list[Step]) -> list[tuple[str, ...]]:
        """The key of each step: the primary key in force, else the unique key that Debezium puts
        into the messages in its place, else none.
        """
        unique = next(iter(facts.keys - {step.version.key for step in cut}), ())
        if not unique and facts.changes == len(facts.truncates) and not cut[0].version.key:
            # No row that could say; what the lake's table was made with still holds.
            description = SparkTable(self.session, self.path(facts.table)).describe()
            unique = description.key if description else ()
        return [step.version.key or unique for step in cut]

    def path(self, table: TableId) -> str:
        """Where a table's mirror is."""
        return join(self.pipeline.lake.path, table_folder(table.database, table.name))

    def create_missing(self, catalog: Catalog) -> None:
        """Create tables that have a primary key and no rows yet, so that an empty table is one.

        With their first known schema: changes that wait in Kafka were made under it, and the DDLs
        since then are applied at their places.
        """
        for current in catalog.current():
            if current.key and current.table not in self._seen:
                target = SparkTable(self.session, self.path(current.table))
                if not target.exists():
                    first = catalog.first(current.table) or current
                    kept_as = self.pipeline.target(current.table, keyed=bool(first.key))
                    target.create(self._readable(first), first.key, kept_as)
                self._seen.add(current.table)

    def apply(self, batch: TableBatch, work: Work) -> Applied:
        """All steps of one table, in order, in this thread's session."""
        session = self._own_session()
        table = batch.facts.table
        reached("table_started", work.batch_id, str(table))
        target = SparkTable(session, self.path(table))
        if not target.exists():
            key = batch.steps[0].key
            kept_as = self.pipeline.target(table, keyed=bool(key))
            target.create(self._readable(batch.steps[0].step.version), key, kept_as)
        app = self.identity(work.checkpoint_id, table)
        unknown: list[str] = []
        for one in batch.steps:
            phases = [
                Identity(app, work.batch_id, one.step.number * _PHASES + phase, work.note)
                for phase in range(_PHASES)
            ]
            unknown += self._step(target, table, one, phases, batch.facts.bytes)
        reached("table_committed", work.batch_id, str(table))
        changes = batch.facts.changes
        now = self._merging.handle(target)
        version, chosen = now.version(), str(self._merging.choices.get(target.path, ""))
        return Applied(table, target.path, version, changes, now.id(), tuple(unknown), chosen)

    def clean_up(self, cleanup: Cleanup, work: Work) -> Applied:
        """Do to the rows that a completed snapshot did not contain what the table's target does to such."""
        target = SparkTable(self._own_session(), self.path(cleanup.table))
        held = target.describe()
        assert held is not None
        app = self.identity(work.checkpoint_id, cleanup.table)
        fates = row_fates.not_found(Was(held.target, held.key), cleanup.below)
        for number, fate in enumerate(fates):
            act = partial(target.strike, fate)
            identity = Identity(app, work.batch_id, number, work.note)
            self.committer.once(target, identity, act, may_do_nothing=True)
        return Applied(cleanup.table, target.path, target.version(), 0, target.id())

    def identity(self, checkpoint_id: str, table: TableId) -> str:
        """The ``txnAppId`` under which a table's mirror, its copy in the lake, is committed to."""
        return app_id(self.pipeline.name, checkpoint_id, str(table), MIRROR)

    def _step(
        self,
        target: SparkTable,
        table: TableId,
        one: StepBatch | StepRows,
        phases: list[Identity],
        size: int,
    ) -> tuple[str, ...]:
        """One step's commits; returns what of its DDL only MySQL knows, in words."""
        wipe, change, fill, write = phases
        step, key = one.step, one.key
        kept_as = self.pipeline.target(table, keyed=bool(key))
        held = None if step.void or self._fits(step, key) else target.describe()
        was = Was(held.target, held.key) if held else None
        fate = row_fates.before(step, kept_as, key, was)
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
        unknown = self._evolve(target, held, step, key, kept_as, change, fill)
        if not one.applicable:
            return unknown
        columns = [column.name for column in step.version.followed]
        types = row_images.RowSchema.of(step.version.columns).delta_types if key else {}
        typed_key = {name: types[name] for name in key}
        source = MergeSource(one.good, one.rows, size)
        self._merging.merge(Merge(target, kept_as, source, columns, typed_key, write))
        reached("step_committed", write.batch, str(table))
        return unknown

    def _fits(self, step: Step, key: tuple[str, ...]) -> bool:
        version = self._readable(step.version)
        return self._fitting.get(version.table) == (version, key)

    def _evolve(
        self,
        target: SparkTable,
        held: Description | None,
        step: Step,
        key: tuple[str, ...],
        kept_as: Target,
        change: Identity,
        fill: Identity,
    ) -> tuple[str, ...]:
        """Bring the table to the step's schema; returns what only MySQL knows of it. ``held``: the table as it is; None
        where it is known to fit.

        After a crash the columns may be there and the values not, so what existing rows get in new
        columns is decided from the two schema versions, not from the lake's columns.
        """
        version = self._readable(step.version)
        known: evolution.Plan = evolution.Nothing()
        if step.previous and step.previous.columns:
            known = self._plan(evolution.held_by(step.previous, multiset=not key), step, key)
        now = self._merging.handle(target)
        if held and not self.committer.holds(now, change):
            self._change(target, held, step, key, kept_as, change)
        if kept_as.name == self.pipeline.target(version.table, keyed=bool(key)).name:
            self._fitting[version.table] = (version, key)
        if isinstance(known, evolution.InPlace) and known.defaults:
            delta = {column.name: column.delta for column in known.columns}
            values: dict[str, str | Column] = {
                quoted(name): F.lit(text).cast(delta[name]) for name, text in known.defaults
            }
            older = f"{RESERVED_COLUMN}.position < {version.position.sql()}"
            self.committer.once(target, fill, lambda: target.delta().update(older, values))
        moved = (f"the rows that came with {step.moved}",) if step.moved else ()
        return (*moved, *known.unknown)

    def _change(
        self,
        target: SparkTable,
        held: Description,
        step: Step,
        key: tuple[str, ...],
        kept_as: Target,
        identity: Identity,
    ) -> None:
        """What the table's own columns need, in one commit."""
        decision = self._plan(evolution.Held(held.columns, held.multiset), step, key)
        if held.key != key:
            target.set_key(key)
        if another(kept_as, Was(held.target, held.key)):
            target.set_target(kept_as)
        if isinstance(decision, evolution.Rewrite):
            rewrite = decision.columns
            self.committer.once(target, identity, lambda: target.rewrite(rewrite, key, held))
        elif isinstance(decision, evolution.InPlace):
            change = decision
            self.committer.once(target, identity, lambda: target.change_columns(change, held))

    def _plan(self, held: evolution.Held, step: Step, key: tuple[str, ...]) -> evolution.Plan:
        before = step.previous.columns if step.previous else ()
        profile = self.pipeline.lake.profile
        return evolution.plan(held, step.version, before, keyed=bool(key), profile=profile)

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


def _within(step: Step) -> Column:
    """True for changes at the positions of a step."""
    start, end = F.lit(True), F.lit(True)
    if step.start is not None:
        start = F.col("position") >= dedup.literal(step.start)
    if step.end is not None:
        end = F.col("position") < dedup.literal(step.end)
    return start & end


def _rows_within(rows: pa.Table, step: Step) -> pa.Table:
    """The same of a MERGE's source rows."""
    place = pc.struct_field(rows[RESERVED_COLUMN], "position")
    places = pa.table({field.name: pc.struct_field(place, field.name) for field in place.type})
    mine = pa.repeat(pa.scalar(True), rows.num_rows)
    if step.start is not None:
        mine = pc.and_(mine, pc.invert(before(places, step.start)))
    if step.end is not None:
        mine = pc.and_(mine, before(places, step.end))
    return rows.filter(mine)
