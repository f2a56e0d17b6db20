"""MERGEs by Spark: any table, any size, any place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes import quarantine_rows, rewritten_rows
from ingest.changes.kept_frames import free, keep
from ingest.lake.delta import rewrite_commit
from ingest.lake.delta.commit import Identity, sibling
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.engines.engine import EngineJob, Merge
from ingest.lake.engines.engine_choice import Choice, MergeFacts
from ingest.model.names import absent_app_id, quarantine_path, quoted
from ingest.targets import multiset_rows
from ingest.targets.target import MergePlan

SMALL = 10 * 2**20
"""Bytes of a source that is sent to all tasks: as Spark's ``autoBroadcastJoinThreshold`` is by default."""


class SparkEngine:
    """The last of the registry: what no other engine makes is its to make."""

    name: ClassVar[str] = "spark"
    fits: ClassVar[str] = "there is no other engine"
    """Never said where another stands before it."""

    may_do_nothing: ClassVar[bool] = False

    def __init__(self, job: EngineJob) -> None:
        self._job = job

    @staticmethod
    def can(facts: MergeFacts) -> str | None:
        """Always."""
        del facts
        return None

    def handle(self, table: SparkTable) -> TableHandle:
        """The table, asked by its log where that is read here."""
        return self._job.reached.written_by_spark(table)

    def look(self, table: SparkTable, facts: MergeFacts) -> MergeFacts:
        """Nothing: Spark's look takes seconds, and no fact keeps it from a MERGE."""
        del table
        return facts

    def merge(self, merge: Merge, facts: MergeFacts) -> Choice | None:
        """Delta's own MERGE, or what it comes to where no file can hold one of the keys. The table is put in order like the others."""
        del facts
        if not merge.key:
            self._by_content(merge)
        else:
            self._by_key(merge)
        self._job.reached.was_written_by_spark(merge.table)
        return None

    def unable(self, failure: Exception) -> str | None:
        """No other engine would be able to either."""
        del failure
        return None

    def _by_key(self, merge: Merge) -> None:
        key = tuple(merge.key)
        plan = merge.target.plan(merge.columns, key, quoted)
        keys, column = merge.source.keys(merge.key), key[0]
        source = merge.source.winning(merge.key, merge.table.session)
        before = self._job.reached.now(merge.table)
        if before is not None:
            files = before.state.between(column, keys)
            if not files:
                types = StructType.fromJson(json.loads(before.state.metadata["schemaString"]))
                spark_append(merge.table, source, plan, types)
                return
            small = merge.source.bytes <= SMALL and rewrite_commit.fits(before, files)
            if small and rewrite_commit.merge(merge.table, source, plan, key, before.state, files):
                return
        if keys is not None:
            # Delta passes files over by what a condition says of the table alone.
            plan = replace(
                plan, match=f"{plan.match} AND t.{quoted(column)} BETWEEN {keys[0]} AND {keys[1]}"
            )
        spark_merge(merge.table, source, plan, is_small=merge.source.bytes <= SMALL)

    def _by_content(self, merge: Merge) -> None:
        plan = merge.target.plan(merge.columns, (multiset_rows.OP,), quoted)
        held = merge.table.frame()
        stays = held.filter(f"NOT ({merge.replaces})") if merge.replaces else held
        source = keep(multiset_rows.numbered(merge.source.net, stays))
        try:
            absent = multiset_rows.missing(source)
            if not absent.isEmpty():
                self._quarantine(absent, merge.identity)
            if merge.replaces:
                merge.table.overwrite(multiset_rows.changed(stays, source))
            else:
                spark_merge(merge.table, source.drop(multiset_rows.LAST_CHANGE), plan)
        finally:
            free(source)

    def _quarantine(self, absent: DataFrame, step: Identity) -> None:
        """Changes that remove a row that is not there. In a session of their own: the table's carries the identity of
        the MERGE by now.
        """
        self._job.committer.append_once(
            sibling(self._job.session),
            quarantine_path(self._job.lake),
            quarantine_rows.SCHEMA,
            quarantine_rows.rows(absent, step.batch),
            Identity(absent_app_id(step.app_id), step.batch, step.step, step.note),
        )


def spark_append(target: SparkTable, source: DataFrame, plan: MergePlan, types: StructType) -> None:
    """What a MERGE into a table that holds none of the keys comes to: no join, and the source is read once. ``types``: the table's, to
    which a MERGE would bring each value by itself.
    """
    target.append(rewritten_rows.inserted(source, plan, types))


def spark_merge(
    target: SparkTable, source: DataFrame, plan: MergePlan, *, is_small: bool = False
) -> None:
    """One MERGE. Its two passes read the same rows: the source is computed once and kept. ``is_small``: it is sent to each task that seeks
    the files to be written anew; else the whole table is shuffled for that.

    A checkpoint rather than a cache, since Delta refuses a source that it finds cached while its
    own materialisation is off (DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION).
    """
    fixed = keep(source)
    # Spark does not know it: of what is computed once it knows no size.
    sent = F.broadcast(fixed) if is_small else fixed
    builder = target.delta().alias("t").merge(sent.alias("s"), plan.match)
    if plan.delete_when:
        builder = builder.whenMatchedDelete(condition=plan.delete_when)
    if plan.update_when:
        builder = builder.whenMatchedUpdate(condition=plan.update_when, set=dict(plan.assignments))
    builder = builder.whenNotMatchedInsert(
        condition=plan.insert_when, values=dict(plan.assignments)
    )
    try:
        builder.execute()
    finally:
        free(fixed)  # else it stays on the executors' disks until Java looks for room in the driver
