"""A step's changes into its table, by the engine that fits (``engine_choice.choose``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from ingest.changes import dedup, quarantine_rows
from ingest.changes.kept_frames import free, keep
from ingest.config.pipeline_file import Wanted
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.delta_rs_table import DeltaRsTable, within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines import collected_changes, merge_on_read
from ingest.lake.engines.engine_choice import (
    COULD_NOT,
    Choice,
    MergeFacts,
    choose,
    may_mark,
    may_prune,
)
from ingest.model.names import RESERVED_COLUMN, quarantine_path, quoted, quoted_for_delta_rs
from ingest.schema.evolution import Profile
from ingest.targets import mirror_rows, multiset_rows
from ingest.targets.target import MergePlan, Target

_NOT_BY_DELTA_RS = (DeltaError, pa.ArrowException, ValueError, LookupError, TypeError)
"""What delta-rs, Arrow and our own code around them raise at data that they do not know: a slow batch, not a stop. A
lost lease, another's commit and a full disk are none of these."""


@dataclass(frozen=True)
class Source:
    """What a step's MERGE is made from. ``changes`` makes a frame with the columns of ``row_images.typed``, none of
    them refused; where ``rows`` are in the driver already, as source rows, it is not called. ``bytes``: of
    the messages.
    """

    changes: Callable[[], DataFrame]
    rows: pa.Table | None
    bytes: int

    def winning(self, key: tuple[str, ...]) -> DataFrame:
        """One source row per key."""
        return mirror_rows.mirror_source(dedup.winners(self.changes(), key))

    def winners(self, key: tuple[str, ...]) -> pa.Table:
        """The same in the driver."""
        if self.rows is not None:
            return collected_changes.winners(self.rows, key)
        return self.winning(key).toArrow()


@dataclass
class Merging:
    """MERGEs of one job. Keeps open what delta-rs has opened, so that a batch reads only what is new in a
    table's log.
    """

    session: SparkSession
    committer: Committer
    lake: str
    wanted: Wanted
    profile: Profile
    choices: dict[str, Choice] = field(default_factory=dict)
    """By table's path: what made its last MERGE, and why."""
    _opened: dict[str, DeltaRsTable | None] = field(default_factory=dict)

    def by_key(
        self,
        table: SparkTable,
        target: Target,
        source: Source,
        columns: Sequence[str],
        key: dict[str, str],
        identity: Identity,
    ) -> None:
        """One winning change per key into a table. ``key``: its columns and their Delta types."""
        names, kinds = tuple(key), tuple(key.values())

        def by_delta_rs(direct: DeltaRsTable, facts: MergeFacts) -> str | None:
            mine = source.winners(names).select([*columns, RESERVED_COLUMN])
            if may_mark(self.wanted, facts, self.profile):
                always = self.wanted == "deletion-vectors"
                because = merge_on_read.mark(direct, target, mine, names, always=always)
                if because is not None:
                    return because
            direct_merge(direct, target, mine, names, names if may_prune(kinds) else ())
            return None

        def by_spark() -> None:
            spark_merge(table, source.winning(names), target.plan(columns, names, quoted))

        self._make(table, kinds, source.bytes, identity, by_delta_rs, by_spark)

    def by_content(
        self,
        table: SparkTable,
        target: Target,
        source: Source,
        columns: Sequence[str],
        identity: Identity,
    ) -> None:
        """All changes of a table without a key into it."""
        net = multiset_rows.net_changes(dedup.once(source.changes()))

        def by_delta_rs(direct: DeltaRsTable, _: MergeFacts) -> None:
            found, op = net.toArrow(), _unused("_op", columns)
            if found.num_rows:
                held = direct.ordinals(found["content"].to_pylist())
                plan = target.plan(columns, (op,), quoted_for_delta_rs)
                direct.merge(collected_changes.numbered(found, held, op), plan, prune=())

        def by_spark() -> None:
            plan = target.plan(columns, (multiset_rows.OP,), quoted)
            self._by_content_by_spark(table, net, plan, identity)

        self._make(table, (), source.bytes, identity, by_delta_rs, by_spark)

    def _make(
        self,
        target: SparkTable,
        key: tuple[str, ...],
        size: int,
        identity: Identity,
        by_delta_rs: Callable[[DeltaRsTable, MergeFacts], str | None],
        by_spark: Callable[[], None],
    ) -> None:
        """One MERGE, by the engine that fits; by Spark where delta-rs turns out not to be able to."""
        direct, facts = self._look(target, key, size)
        choice = choose(self.wanted, facts)
        if direct is not None and choice.engine == "delta-rs":
            marked = list[str | None]()
            try:
                self.committer.once(
                    direct,
                    identity,
                    lambda: marked.append(by_delta_rs(direct, facts)),
                    may_do_nothing=True,
                )
                if marked and marked[0] is not None:
                    choice = Choice("deletion-vectors", marked[0])
            except collected_changes.AbsentError:
                choice = Choice("spark", "a change removes a row that is not there")
            except _NOT_BY_DELTA_RS as failure:
                # Should its commit have been made, Spark finds the identity there, and makes none.
                choice = Choice("spark", f"{COULD_NOT}: {str(failure)[:200]}")
        if choice.engine == "spark":
            self.committer.once(target, identity, by_spark)
        self.choices[target.path] = choice

    def _by_content_by_spark(
        self, table: SparkTable, net: DataFrame, plan: MergePlan, step: Identity
    ) -> None:
        source = keep(multiset_rows.numbered(net, table.frame()))
        try:
            absent = multiset_rows.missing(source)
            if not absent.isEmpty():
                # In a session of its own: this one is about to carry the MERGE's identity.
                app = f"{step.app_id}-absent"
                self.committer.append_once(
                    sibling(self.session),
                    quarantine_path(self.lake),
                    quarantine_rows.SCHEMA,
                    quarantine_rows.rows(absent, step.batch),
                    Identity(app, step.batch, step.step, step.note),
                )
            spark_merge(table, source.drop(multiset_rows.LAST_CHANGE), plan)
        finally:
            free(source)

    def current(self, target: SparkTable) -> SparkTable | DeltaRsTable:
        """The table by whichever way is cheaper to ask: Spark's first look at one takes seconds."""
        if self.wanted == "spark":
            return target
        if target.path not in self._opened:
            self._opened[target.path] = within_reach(target, self.lake)
        return self._opened[target.path] or target

    @property
    def opened(self) -> list[DeltaRsTable]:
        """Tables that delta-rs has merged into."""
        return [one for one in self._opened.values() if one is not None and one.merges]

    def _look(
        self, target: SparkTable, key: tuple[str, ...], size: int
    ) -> tuple[DeltaRsTable | None, MergeFacts]:
        direct = self.current(target)
        if isinstance(direct, SparkTable):
            return None, MergeFacts(False)
        direct.version()
        held, rows = direct.size()
        return direct, MergeFacts(True, direct.features(), held, size, key, rows)


def _unused(name: str, columns: Sequence[str]) -> str:
    """A name that no column has; letters' case does not tell names apart, and delta-rs takes no NUL in them."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"_{name}"
    return name


def direct_merge(
    direct: DeltaRsTable, target: Target, rows: pa.Table, key: Sequence[str], prune: Sequence[str]
) -> None:
    """One MERGE of source rows, one per key, by delta-rs; or what it comes to where no file may hold one of their keys.
    ``prune``: see ``DeltaRsTable.merge``.
    """
    reached = direct.state.reached_by(rows, prune)
    if reached or not direct.add(mirror_rows.inserted(rows, target)):
        columns = [name for name in rows.column_names if name != RESERVED_COLUMN]
        direct.merge(rows, target.plan(columns, key, quoted_for_delta_rs), prune=prune)


def spark_merge(target: SparkTable, source: DataFrame, plan: MergePlan) -> None:
    """One MERGE. Its two passes read the same rows: the source is computed once and kept.

    A checkpoint rather than a cache, since Delta refuses a source that it finds cached while its
    own materialisation is off (DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION).
    """
    fixed = source.localCheckpoint(eager=False)
    builder = target.delta().alias("t").merge(fixed.alias("s"), plan.match)
    if plan.delete_when:
        builder = builder.whenMatchedDelete(condition=plan.delete_when)
    if plan.update_when:
        builder = builder.whenMatchedUpdate(condition=plan.update_when, set=dict(plan.assignments))
    builder.whenNotMatchedInsert(
        condition=plan.insert_when, values=dict(plan.assignments)
    ).execute()
