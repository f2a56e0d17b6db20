"""A step's changes into its table, by the engine that fits (``engine.choose``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from ingest import collected, dedup, merge, multiset, quarantine
from ingest.commit import Committer, Identity
from ingest.direct import DirectTable
from ingest.engine import Choice, MergeFacts, Wanted, choose, may_prune
from ingest.kept import free, keep
from ingest.merge import MergePlan
from ingest.names import quarantine_path, quoted_for_delta_rs
from ingest.session import sibling
from ingest.storage import within_delta_rs_s_reach
from ingest.table import LakeTable


@dataclass(frozen=True)
class Source:
    """What a step's MERGE is made from. ``changes``: columns of ``decode.typed``, none of them refused.
    ``rows``: the same as source rows in the driver, where they are there. ``bytes``: of their messages.
    """

    changes: DataFrame
    rows: pa.Table | None
    bytes: int

    def winners(self, key: tuple[str, ...]) -> pa.Table:
        """One source row per key, in the driver."""
        if self.rows is not None:
            return collected.winners(self.rows, key)
        return merge.mirror_source(dedup.winners(self.changes, key)).toArrow()


@dataclass
class Merging:
    """MERGEs of one job. Keeps open what delta-rs has opened, so that a batch reads only what is new in a
    table's log.
    """

    session: SparkSession
    committer: Committer
    lake: str
    wanted: Wanted
    choices: dict[str, Choice] = field(default_factory=dict)
    """By table's path: what made its last MERGE, and why."""
    _opened: dict[str, DirectTable] = field(default_factory=dict)

    def mirror(
        self,
        target: LakeTable,
        source: Source,
        columns: Sequence[str],
        key: dict[str, str],
        identity: Identity,
    ) -> None:
        """One winning change per key into a mirror. ``key``: its columns and their Delta types."""
        direct, facts = self._look(target, tuple(key.values()), source.bytes)
        choice = choose(self.wanted, facts)
        if direct is not None and choice.engine == "delta-rs":
            plan = merge.mirror_plan(columns, tuple(key), quoted_for_delta_rs)
            prune = may_prune(facts.key)

            def act() -> None:
                direct.merge(source.winners(tuple(key)), plan, prune=prune)

            try:
                self.committer.once(direct, identity, act, may_do_nothing=True)
            except DeltaError as failure:  # before its commit, so that nothing has happened
                choice = Choice("spark", f"delta-rs could not: {str(failure)[:200]}")
        if choice.engine == "spark":
            plan = merge.mirror_plan(columns, tuple(key))
            winning = merge.mirror_source(dedup.winners(source.changes, tuple(key)))
            self.committer.once(target, identity, lambda: spark_merge(target, winning, plan))
        self.choices[target.path] = choice

    def multiset(
        self,
        target: LakeTable,
        source: Source,
        columns: Sequence[str],
        identity: Identity,
    ) -> None:
        """Changes of a table without a key into its multiset."""
        net = multiset.net_changes(dedup.once(source.changes))
        direct, facts = self._look(target, (), source.bytes)
        choice = choose(self.wanted, facts)
        if direct is not None and choice.engine == "delta-rs":

            def act() -> None:
                found, op = net.toArrow(), _unused("_op", columns)
                if found.num_rows:
                    held = direct.ordinals(found["content"].to_pylist())
                    plan = multiset.multiset_plan(columns, op, quoted_for_delta_rs)
                    direct.merge(collected.numbered(found, held, op), plan, prune=False)

            try:
                self.committer.once(direct, identity, act, may_do_nothing=True)
            except collected.AbsentError:
                choice = Choice("spark", "a change removes a row that is not there")
            except DeltaError as failure:  # before its commit, so that nothing has happened
                choice = Choice("spark", f"delta-rs could not: {str(failure)[:200]}")
        if choice.engine == "spark":
            act_by_spark = partial(self._multiset_by_spark, target, net, columns, identity)
            self.committer.once(target, identity, act_by_spark)
        self.choices[target.path] = choice

    def _multiset_by_spark(
        self, target: LakeTable, net: DataFrame, columns: Sequence[str], step: Identity
    ) -> None:
        source = keep(multiset.numbered(net, target.frame()))
        try:
            absent = multiset.missing(source)
            if not absent.isEmpty():
                # In a session of its own: this one is about to carry the MERGE's identity.
                app = f"{step.app_id}-absent"
                self.committer.append_once(
                    sibling(self.session),
                    quarantine_path(self.lake),
                    quarantine.SCHEMA,
                    quarantine.rows(absent, step.batch),
                    Identity(app, step.batch, step.step, step.note),
                )
            spark_merge(target, source.drop(multiset.LAST_CHANGE), multiset.multiset_plan(columns))
        finally:
            free(source)

    def current(self, target: LakeTable) -> LakeTable | DirectTable:
        """The table by whichever way is cheaper to ask what it is."""
        return self._opened.get(target.path, target)

    def _look(
        self, target: LakeTable, key: tuple[str, ...], size: int
    ) -> tuple[DirectTable | None, MergeFacts]:
        reachable = within_delta_rs_s_reach(target.path)
        if self.wanted == "spark" or not reachable:
            return None, MergeFacts(reachable)
        direct = self._opened.setdefault(target.path, DirectTable(target))
        direct.version()
        return direct, MergeFacts(True, direct.features(), direct.size(), size, key)


def _unused(name: str, columns: Sequence[str]) -> str:
    """A name that no column has; engines may compare without regard to case."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"_{name}"
    return name


def spark_merge(target: LakeTable, source: DataFrame, plan: MergePlan) -> None:
    """One MERGE. Its two passes read the same rows: the source is computed once and kept.

    A checkpoint rather than a cache, since Delta refuses a source that it finds cached while its
    own materialisation is off (DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION).
    """
    fixed = source.localCheckpoint(eager=False)
    builder = (
        target.delta()
        .alias("t")
        .merge(fixed.alias("s"), plan.match)
        .whenMatchedDelete(condition=plan.delete_when)
    )
    if plan.update_when:
        builder = builder.whenMatchedUpdate(condition=plan.update_when, set=dict(plan.assignments))
    builder.whenNotMatchedInsert(
        condition=plan.insert_when, values=dict(plan.assignments)
    ).execute()
