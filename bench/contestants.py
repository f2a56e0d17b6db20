"""Ways to bring one batch of Debezium's messages into Delta tables; what `bench/merges.py` compares.

Each has a copy of the tables of its own and takes the same messages, from a Parquet file with the columns of
a Kafka record, up to the last commit.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as paj
import pyarrow.parquet as pq
from delta.tables import DeltaTable as SparkDelta
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.workload import COLUMNS, SPARK_ROW, At, Workload, arrow_schema
from ingest.batch.micro_batch import Batches
from ingest.kafka.ports import Ranges, RecordSource
from ingest.kafka.record_stream import SCHEMA
from ingest.lake.delta.commit import Committer
from ingest.model.manifest import Place
from ingest.model.position import Position
from ingest.model.position_ties import Event
from ingest.schema.catalog import Catalog
from ingest.source.resync import Requests
from ingest.testing.lake import pipeline_at

STOCK = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.enabled": "true",
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.databricks.delta.merge.materializeSource": "auto",
}
"""Spark's and Delta's own defaults, which `ingest.job.spark_session` changes for a small machine."""

TUNED = {"spark.databricks.delta.merge.materializeSource": "auto"}
"""Those of `ingest.job.spark_session`, but for one that a persisted batch does not go with."""

_ENVELOPE = (
    f"before {SPARK_ROW}, after {SPARK_ROW}, op string, "
    "source struct<table: string, file: string, pos: bigint>"
)


class HandWritten:
    """The job as Delta's documentation teaches it: for each table the newest change per key by a window,
    then one MERGE, tables one after the other. With ``threads`` more, and settings, as a specialist would.

    ``apart``: compute the winners before the MERGE, so that ``applied`` is what the MERGE alone took.
    """

    applied = 0.0

    def __init__(
        self,
        session: SparkSession,
        folder: At,
        settings: Mapping[str, str],
        threads: int,
        *,
        apart: bool = False,
    ) -> None:
        self.folder = folder
        self._apart = apart
        self._pool = ThreadPoolExecutor(threads)
        self._sessions = [session.newSession() for _ in range(threads)]
        for one in self._sessions:
            for name, value in settings.items():
                one.conf.set(name, value)

    def take(self, messages: Path, tables: Sequence[str]) -> None:
        """One batch."""
        self.applied = 0.0

        def part(index: int) -> None:
            session = self._sessions[index]
            batch = session.read.parquet(str(messages)).persist()
            for table in tables[index :: len(self._sessions)]:
                self.merge(session, batch, table)
            batch.unpersist()

        list(self._pool.map(part, range(len(self._sessions))))

    def merge(self, session: SparkSession, batch: DataFrame, table: str) -> None:
        """One table's part of a batch of Kafka records."""
        text = F.from_json(F.col("value").cast("string"), _ENVELOPE)
        changes = batch.filter(F.col("topic") == f"b.d.{table}").select(text.alias("e"), "offset")
        row = F.coalesce("e.after", "e.before")
        newest = Window.partitionBy("row.id").orderBy(F.desc("e.source.pos"), F.desc("offset"))
        source = (
            changes.withColumn("row", row)
            .withColumn("n", F.row_number().over(newest))
            .filter("n = 1")
            .select("row.*", F.col("e.op").alias("op"))
        )
        if self._apart:
            source = source.localCheckpoint()
        values: dict[str, str | Column] = {name: f"s.{name}" for name in COLUMNS}
        started = time.perf_counter()
        (
            SparkDelta.forPath(session, f"{self.folder}/d/{table}")
            .alias("t")
            .merge(source.alias("s"), "t.id = s.id")
            .whenMatchedDelete("s.op = 'd'")
            .whenMatchedUpdate("s.op <> 'd'", set=values)
            .whenNotMatchedInsert("s.op <> 'd'", values=values)
            .execute()
        )
        self.applied += time.perf_counter() - started


class Lean:
    """delta-rs in one Python process, messages parsed by Arrow. No order beyond arrival, no identity, no
    guards: what the same work costs at the least.
    """

    applied = 0.0

    def __init__(self, folder: At) -> None:
        self.folder = folder
        self._opened: dict[str, DeltaTable] = {}

    def take(self, messages: Path, _: Sequence[str]) -> None:
        """One batch."""
        read = pq.read_table(messages, columns=["topic", "value"]).to_pydict()
        values: dict[str, list[bytes]] = {}
        for topic, value in zip(read["topic"], read["value"], strict=True):
            values.setdefault(topic.rpartition(".")[2], []).append(value)
        self.merge(values)

    def merge(self, values: Mapping[str, Sequence[bytes]]) -> None:
        """Each table's messages in the order of their arrival."""
        self.applied = 0.0
        for table, messages in values.items():
            winners = _newest(messages)
            at = self._opened.setdefault(table, DeltaTable(f"{self.folder}/d/{table}"))
            assigned = {name: f"s.{name}" for name in COLUMNS}
            started = time.perf_counter()
            (
                at.merge(winners, "t.id = s.id", source_alias="s", target_alias="t")
                .when_matched_delete("s.op = 'd'")
                .when_matched_update(assigned, "s.op <> 'd'")
                .when_not_matched_insert(assigned, "s.op <> 'd'")
                .execute()
            )
            self.applied += time.perf_counter() - started


def _newest(messages: Sequence[bytes]) -> pa.Table:
    row = pa.struct(arrow_schema())
    schema = pa.schema([("before", row), ("after", row), ("op", pa.string())])
    text = b"\n".join(messages)
    read = paj.read_json(
        pa.BufferReader(text),
        paj.ReadOptions(block_size=max(len(text), 1 << 20)),
        paj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    rows = pa.Table.from_struct_array(
        pc.if_else(read["after"].is_valid(), read["after"], read["before"])
    )
    rows = rows.append_column("op", read["op"])
    numbered = rows.append_column("n", pa.array(range(rows.num_rows)))
    return rows.take(numbered.group_by("id").aggregate([("n", "max")])["n_max"])


class Ingest:
    """The project itself: the spine as it runs, manifest included, without Kafka before it."""

    first = 0.0
    """Seconds that the newest batch took when it was applied, from Spark's call to the return."""

    def __init__(
        self, session: SparkSession, folder: At, *works: Workload, engine: str = "auto"
    ) -> None:
        self.folder = folder
        self.session = session
        self._log = _Log(session, works)
        pipeline = pipeline_at(folder, "b", spark={"merge_engine": engine})
        self.batches = Batches(
            session,
            pipeline,
            log=self._log,
            schemas=self._log,
            committer=Committer(1),
            newest=None,
            report=lambda _: None,
            requests=Requests(pipeline),
            binlog=self._log,
        )
        self.batches.checkpoint_id = "bench"

    def take(self, messages: Path, _: Sequence[str]) -> None:
        """One batch."""
        ends = self._log.next(messages)
        self._frame = self._log.read(ends)
        self.first = self.again()

    @property
    def applied(self) -> float:
        """Seconds from a batch's decoded winners to the last table's commit."""
        return self.batches.newest.stages["apply"] if self.batches.newest else 0.0

    def again(self) -> float:
        """The newest batch once more, as after a crash that lost only Spark's own note of it. Seconds from
        Spark's call, which brings the batch's frame with it, to the return.
        """
        started = time.perf_counter()
        self.batches.apply(self._frame, len(self._log.batches) - 1)
        return time.perf_counter() - started


@dataclass(frozen=True)
class _File:
    path: Path

    def __call__(self, ranges: Ranges, enough: Any) -> Iterator[Mapping[Place, pa.Table]]:
        read = pq.read_table(self.path)
        for (topic, partition), (start, end) in ranges.items():
            mine = pc.and_(pc.equal(read["topic"], topic), pc.less(read["offset"], end))
            records = read.filter(pc.and_(mine, pc.greater_equal(read["offset"], start)))
            yield {(topic, partition): records.select(["offset", "value", "run"])}


class _Log:
    """`ports.Log` and `ports.Schemas` over Parquet files of messages."""

    def __init__(self, session: SparkSession, works: Sequence[Workload]) -> None:
        self.session = session
        self.catalog = Catalog()
        self.offset = 0
        self.batches: list[dict[Place, tuple[int, int]]] = []
        self._ends: dict[Place, int] = {}
        self._files: dict[int, Path] = {}
        for record in chain.from_iterable(work.schema_records() for work in works):
            self.catalog.add(record, 0, self.offset)
            self.offset += 1

    def next(self, messages: Path) -> dict[Place, tuple[int, int]]:
        held = pq.read_table(messages, columns=["topic", "offset"])
        found = held.group_by("topic").aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        taken = {(r["topic"], 0): (r["offset_min"], r["offset_max"] + 1) for r in found}
        for place, (start, end) in taken.items():
            assert self._ends.get(place, start) == start, place
            self._ends[place] = end
        self._files[len(self.batches)] = messages
        self.batches.append(
            {**{p: (e, e) for p, e in self._ends.items()}, **taken}  # those that stand still, too
        )
        return self.batches[-1]

    def read(self, _: Any) -> DataFrame:
        # With its schema, as Kafka's source has one: to ask a file for it is a job.
        reader = self.session.read.schema(SCHEMA)
        return reader.parquet(str(self._files[len(self.batches) - 1]))

    def bring(
        self, ranges: Ranges, enough: Any, *_: Any, **__: Any
    ) -> Iterator[Mapping[Place, pa.Table]]:
        return self.source(ranges)(ranges, enough)

    def source(self, *_: Any, **__: Any) -> RecordSource:
        return _File(self._files[len(self.batches) - 1])

    def taken(self, spark_batch: int) -> tuple[Mapping[Place, tuple[int, int]], bool]:
        return self.batches[spark_batch], False

    def read_to_end(self) -> None:
        """It is all there."""

    def events(self, places: Collection[Position]) -> Mapping[Position, Event]:
        """No transaction is compressed."""
        return dict.fromkeys(places, Event("Update_rows", 1))

    def ends(self, _: Sequence[str] | None = None) -> Mapping[Place, int]:
        return self._ends

    def begins(self, topics: Sequence[str]) -> Mapping[Place, int]:
        return {}

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, "id")

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Nobody watches."""


Contestant = HandWritten | Lean | Ingest
