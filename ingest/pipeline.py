"""The spine: what happens to one micro-batch, in order.

``Batches.apply`` is the function that Spark calls. Read it first; every line of it is a stage that
has a module of its own name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest import __version__, decode, dedup, manifest, quarantine
from ingest.apply import Applied, Applier, TableBatch
from ingest.commit import Committer, Identity
from ingest.config import Pipeline
from ingest.failpoints import reached
from ingest.kafka import GroupOffsets, SchemaTopic
from ingest.manifest import Entry, TableState
from ingest.names import app_id, manifest_path, quarantine_path
from ingest.steps import TableFacts
from ingest.storage import Storage
from ingest.topics import TableId

EPOCH = 0
"""The source's first and only epoch so far; failover and reset logs get their own later."""


@dataclass(frozen=True)
class BatchReport:
    """What a batch did, for whoever watches."""

    entry: Entry


class Batches:
    """Applies micro-batches of one pipeline, under one checkpoint id."""

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        checkpoint_id: str,
        checkpoint: Storage,
        newest: Entry | None,
        report: Callable[[BatchReport], None],
    ) -> None:
        self.pipeline = pipeline
        self.checkpoint_id = checkpoint_id
        self._checkpoint = checkpoint
        self._newest = newest
        self._report = report
        self._schemas = SchemaTopic(pipeline, EPOCH)
        self._group = GroupOffsets(pipeline)
        self._committer = Committer()
        # Kept for the whole run: each thread keeps its own Spark session.
        self._pool = ThreadPoolExecutor(pipeline.spark.parallel_tables)
        # Of the run's session, not of a batch's: Spark hands each batch a session object of its
        # own, and sessions cloned from it would pile up batch by batch.
        self._applier = Applier(pipeline, checkpoint_id, session, self._committer)

    def apply(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch: decode, order, quarantine, apply, manifest, offsets.

        The order is the only correct one. Spark has written the batch's offsets before it calls,
        and writes its commit after we return; until then a crash brings the same batch again with
        the same offsets. Everything before the manifest is idempotent under (batch id, step):
        quarantine and each table skip what they already hold. The manifest publishes the batch,
        so it comes after all tables; a crash before it leaves tables ahead of the manifest, which
        the replay finishes. The group's offsets come last: they may lag, never lead.
        """
        started = time.monotonic()
        started_at = datetime.now(timezone.utc)
        offsets = self._offsets(batch_id)
        if self._published(batch_id):
            self._group.commit({place: end for place, (_, end) in offsets.items()})
            return
        reached("batch_started", batch_id)
        self._schemas.read_to_end()
        previous = self._newest
        changes = decode.changes(batch, EPOCH).persist()
        try:
            facts = _facts(changes)
            fresh = dedup.fresh(changes, previous.high_water if previous else {})
            tables = self._applier.prepare(fresh, facts, self._schemas.catalog, previous)
            rejects = self._quarantine(changes, tables, batch_id)
            applied = self._apply_tables(tables, batch_id)
            began = (started_at, time.monotonic() - started)
            entry = self._entry(batch_id, offsets, previous, facts, applied, rejects, began)
            self._publish(batch, entry)
        finally:
            for table in self._applier.prepared:
                table.release()
            changes.unpersist()
        self._group.commit({place: end for place, (_, end) in offsets.items()})
        reached("offsets_committed", batch_id)
        self._newest = entry
        self._report(BatchReport(entry))

    def ensure_tables(self) -> None:
        """Create the lake's tables for source tables that have a key but no row yet."""
        self._schemas.read_to_end()
        self._applier.create_missing(self._schemas.catalog)

    def close(self) -> None:
        """End the threads and leave Kafka."""
        self._pool.shutdown(cancel_futures=True)
        self._schemas.close()
        self._group.close()

    def _published(self, batch_id: int) -> bool:
        """True for a batch that the manifest holds: only Spark's own commit of it was lost."""
        newest = self._newest
        return (
            newest is not None
            and newest.checkpoint_id == self.checkpoint_id
            and newest.batch_id >= batch_id
        )

    def _offsets(self, batch_id: int) -> dict[tuple[str, int], tuple[int, int]]:
        """The batch's exact Kafka ranges, from Spark's own write-ahead log."""
        after = self._logged(batch_id)
        if batch_id:
            return manifest.ranges(self._logged(batch_id - 1), after)
        # Where the very first batch began: the Kafka source's own note ("v1", then the offsets).
        first = (self._checkpoint.read("sources/0/0") or "v1\n{}").partition("\n")[2]
        return manifest.ranges(manifest.offsets_from_json(first), after)

    def _logged(self, batch_id: int) -> dict[tuple[str, int], int]:
        text = self._checkpoint.read(f"offsets/{batch_id}")
        return manifest.offsets_from_log(text) if text is not None else {}

    def _quarantine(self, changes: DataFrame, tables: list[TableBatch], batch_id: int) -> int:
        """Set aside what could not be read, before any table is touched; returns how many."""
        rejects = quarantine.rows(changes.filter(F.col("reason").isNotNull()), batch_id)
        for table in tables:
            for part in table.rejects():
                rejects = rejects.unionByName(quarantine.rows(part, batch_id))
        count = rejects.count()  # materialises what the MERGEs will read, too
        if count:
            self._committer.append_once(
                changes.sparkSession,
                quarantine_path(self.pipeline.lake.path),
                quarantine.SCHEMA,
                rejects,
                self._identity("quarantine", batch_id),
            )
        return count

    def _apply_tables(self, tables: list[TableBatch], batch_id: int) -> list[Applied]:
        """Tables side by side, each in its own thread and session; the first failure counts."""
        futures = [self._pool.submit(self._applier.apply, table, batch_id) for table in tables]
        wait(futures)  # all of them: a replay must not meet a thread of its own past
        applied = [future.result() for future in futures]
        reached("tables_committed", batch_id)
        return applied

    def _entry(
        self,
        batch_id: int,
        offsets: Mapping[tuple[str, int], tuple[int, int]],
        previous: Entry | None,
        facts: Mapping[TableId, TableFacts],
        applied: list[Applied],
        rejects: int,
        began: tuple[datetime, float],
    ) -> Entry:
        """The batch's row of the ledger. ``began``: when, and how many seconds ago."""
        high_water = dict(previous.high_water) if previous else {}
        for table in facts.values():
            for place, position in table.high_water.items():
                high_water[place] = max(position, high_water.get(place, position))
        tables = {
            name: replace(state, changes=0)
            for name, state in (previous.tables if previous else {}).items()
        }
        for one in applied:
            name = str(one.table)
            before = tables[name].position if name in tables else None
            high = facts[one.table].high
            newest = high if before is None else max(high, before)
            tables[name] = TableState(one.path, one.version, one.changes, newest)
        positions = [f.high for f in facts.values()]
        times = [f.source_time for f in facts.values() if f.source_time]
        if previous and previous.position:
            positions.append(previous.position)
        if previous and previous.source_time:
            times.append(previous.source_time)
        return Entry(
            batch_id=batch_id,
            checkpoint_id=self.checkpoint_id,
            offsets=offsets,
            high_water=high_water,
            tables=tables,
            changes=sum(f.changes for f in facts.values()),
            rejects=rejects,
            position=max(positions, default=None),
            source_time=max(times, default=None),
            schema_offset=self._schemas.offset,
            started_at=began[0],
            seconds=began[1],
            code_version=__version__,
        )

    def _publish(self, batch: DataFrame, entry: Entry) -> None:
        session = batch.sparkSession
        self._committer.append_once(
            session,
            manifest_path(self.pipeline.lake.path),
            manifest.SCHEMA,
            session.createDataFrame([entry.as_row()], manifest.SCHEMA),
            self._identity("manifest", entry.batch_id),
        )
        reached("manifest_committed", entry.batch_id)

    def _identity(self, target: str, batch_id: int) -> Identity:
        return Identity(app_id(self.pipeline.name, self.checkpoint_id, "_ingest", target), batch_id)


def _facts(changes: DataFrame) -> dict[TableId, TableFacts]:
    """One scan over the decoded batch: what there is to do, per table and partition."""
    truncate = F.when(F.col("op") == "t", F.col("position"))
    rows = (
        changes.filter(F.col("reason").isNull())
        .groupBy("database", "table", "topic", "partition")
        .agg(
            F.count("*").alias("changes"),
            F.min("position").alias("low"),
            F.max("position").alias("high"),
            F.max(F.when(dedup.streamed(), F.col("position"))).alias("high_water"),
            F.max(F.unix_micros("committed_at")).alias("source_time_us"),
            F.collect_set(truncate).alias("truncates"),
            F.collect_set(F.json_object_keys("key_json")).alias("keys"),
        )
        .collect()
    )
    return TableFacts.combine(row.asDict(recursive=True) for row in rows)
