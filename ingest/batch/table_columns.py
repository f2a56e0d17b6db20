"""A table's columns follow the source's: in one commit that writes no data, and one more where rows that stand there get a default.

By a commit of ours where the change is plain and the table's log is read here; else by Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import column_commits
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import Description, SparkTable
from ingest.lake.engines.delta_rs_engine import UNKNOWN_DATA
from ingest.lake.engines.dispatch import Merging
from ingest.lake.files import disk_failure
from ingest.model.names import RESERVED_COLUMN, TARGET_PROPERTY, quoted
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.admission import admitted
from ingest.schema.catalog import SchemaVersion
from ingest.schema.evolution import InPlace
from ingest.schema.steps import Step
from ingest.targets import registry
from ingest.targets.target import Target

_CAME_LATE = (
    "what columns held that another partition had brought before a change from before them came"
)


@dataclass
class TableColumns:
    """Of the tables of one pipeline. Asked by many threads, each for another table."""

    pipeline: Pipeline
    committer: Committer
    merging: Merging
    _fitting: dict[TableId, tuple[SchemaVersion, tuple[str, ...]]] = field(default_factory=dict)
    """What tables were last made to fit; a change by anybody else ends the run (``other_writers``)."""

    def fit(self, step: Step, key: tuple[str, ...]) -> bool:
        """Whether the step's table is known to have its columns and its key."""
        version = self._readable(step.version)
        return self._fitting.get(version.table) == (version, key)

    def forget(self, table: TableId) -> None:
        """It may be another one from here on."""
        self._fitting.pop(table, None)

    def follow(
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
            before = evolution.held_by(step.previous, multiset=not key)
            known = self._plan(before, step, key, kept_as)
        now = self.merging.handle(target)
        is_filled = False
        if held and not self.committer.holds(now, change):
            is_filled = self._change(target, held, step, key, kept_as, change)
        if kept_as.name == self.pipeline.target(version.table, keyed=bool(key)).name:
            self._fitting[version.table] = (version, key)
        if isinstance(known, InPlace) and known.defaults and not is_filled:
            self._fill(target, known, version, fill)
        moved = (f"the rows that came with {step.moved}",) if step.moved else ()
        late = (_CAME_LATE,) if step.late else ()
        return (*moved, *late, *known.unknown)

    def _change(
        self,
        target: SparkTable,
        held: Description,
        step: Step,
        key: tuple[str, ...],
        kept_as: Target,
        identity: Identity,
    ) -> bool:
        """What the table's own columns need, in one commit. Returns whether all rows have got their defaults by it."""
        was = evolution.Held(held.columns, held.multiset)
        decision = self._plan(was, step, key, kept_as)
        if held.key != key:
            target.set_key(key)
        if self._is_noted_otherwise(held, step.version.table, kept_as):
            target.set_target(kept_as)
        if isinstance(decision, evolution.Nothing):
            return False
        direct, act = self.merging.writable(target), None
        if direct is not None and key and not held.multiset:
            size, _ = direct.size()
            if column_commits.is_plain(direct, decision):
                act = partial(column_commits.change, direct, decision.columns)
            elif evolution.is_written_anew(decision, size, direct.features()):
                act = partial(column_commits.write_anew, direct, decision)
        if direct is not None and act is not None and self._by_delta_rs(direct, identity, act):
            return act.func is column_commits.write_anew
        if isinstance(decision, evolution.Rewrite):
            rewrite = partial(target.rewrite, decision.columns, key, held)
            self.committer.once(target, identity, rewrite)
        else:
            change = partial(target.change_columns, decision, held)
            self.committer.once(target, identity, change)
        return False

    def _is_noted_otherwise(self, held: Description, table: TableId, kept_as: Target) -> bool:
        was = self.pipeline.noted(held.properties, table, keyed=not held.multiset)
        is_new = TARGET_PROPERTY not in held.properties and bool(registry.note(kept_as))
        return is_new or registry.note(was) != registry.note(kept_as)

    def _fill(
        self, target: SparkTable, known: InPlace, version: SchemaVersion, identity: Identity
    ) -> None:
        """Rows of before the DDL get the defaults of its new columns."""
        delta = {column.name: column.delta for column in known.columns}
        values = {name: (delta[name], text) for name, text in known.defaults}
        direct = self.merging.writable(target)
        if direct is not None and not direct.state.files:
            return  # there is none, and what comes with this batch has them by itself
        if self.committer.holds(self.merging.handle(target), identity):
            # Whoever made it may have been Spark, and have died before it was read back.
            self.committer.once(target, identity, lambda: None)
            return
        if (
            direct is not None
            and self.merging.wanted != "spark"
            and column_commits.fills(direct, values)
        ):
            act = partial(column_commits.fill, direct, values, version.position)
            if self._by_delta_rs(direct, identity, act, may_do_nothing=True):
                return
        older = f"{RESERVED_COLUMN}.position < {version.position.sql()}"
        said: dict[str, str | Column] = {
            quoted(name): F.lit(text).cast(kind) for name, (kind, text) in values.items()
        }
        self.committer.once(target, identity, lambda: target.delta().update(older, said))

    def _by_delta_rs(
        self,
        direct: DeltaRsTable,
        identity: Identity,
        act: Callable[[], object],
        *,
        may_do_nothing: bool = False,
    ) -> bool:
        """Whether it could; where it meets data that it does not know, nothing was committed, and Spark can do it."""
        try:
            self.committer.once(direct, identity, act, may_do_nothing=may_do_nothing)
        except UNKNOWN_DATA as failure:
            if disk_failure.found(failure) is not None:
                raise
            return False
        return True

    def _plan(
        self, held: evolution.Held, step: Step, key: tuple[str, ...], kept_as: Target
    ) -> evolution.Plan:
        before = step.previous.columns if step.previous else ()
        return evolution.plan(
            held,
            step.version,
            before,
            keyed=bool(key),
            profile=self.pipeline.lake.profile,
            outlives=kept_as.outlives,
        )

    def _readable(self, version: SchemaVersion) -> SchemaVersion:
        return admitted(version, self.pipeline.lake.profile)
