"""Writing a batch of a flow's result. Each sink says what becomes of a batch that is repeated, as after a kill."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from ingest.config.flow_settings import FlowSink, Mode
from ingest.config.pipeline_file import Pipeline
from ingest.flows.spark_plans import plain
from ingest.kafka.record_stream import client_options
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.storage import Storage
from ingest.model.errors import IngestError
from ingest.model.names import FLOW_PROPERTY, Marker, Role, app_id, join, quoted

if TYPE_CHECKING:
    from ingest.flows.flow_record import FlowRecord


@dataclass(frozen=True)
class Batch:
    """``rows``: of a flow's result, kept, ``count`` of them; ``number``: Spark's, from 0."""

    rows: DataFrame
    count: int
    number: int


@dataclass(frozen=True)
class Sinks:
    """Of one flow under one checkpoint. ``record``: of that."""

    pipeline: Pipeline
    flow: str
    mode: Mode
    record: FlowRecord
    committer: Committer

    def write(self, sink: FlowSink, batch: Batch) -> None:
        """One batch to one sink."""
        if sink.delta:
            self._delta(sink, batch)
        elif not batch.count:
            return
        elif sink.kafka:
            self._kafka(sink.kafka, batch)
        elif sink.files:
            place = f"{sink.files.rstrip('/')}/batch={self.record.generation}-{batch.number:09d}"
            batch.rows.write.format(sink.format).mode("overwrite").save(place)
        else:
            print(f"-- {self.flow}, batch {batch.number}")  # noqa: T201 (it is what a console is for)
            batch.rows.show(1000, truncate=False)

    def app_id(self, sink: str, role: Role = Role.FLOW) -> str:
        """Under which a flow commits to one of its tables."""
        return app_id(self.pipeline.name, self.record.checkpoint_id, f"{self.flow}/{sink}", role)

    def identity(self, app: str, number: int) -> Identity:
        """Of a batch in one of its tables."""
        said = {"flow": self.flow, "flow_batch": number, "checkpoint": self.record.checkpoint_id}
        return Identity(app, number + 1, note=json.dumps(said))

    def append_late(self, path: str, schema: str, rows: DataFrame, number: int) -> None:
        """What came late, once."""
        identity = self.identity(self.app_id("late", Role.LATE), number)
        self.committer.append_once(rows.sparkSession, path, schema, rows, identity)

    def reached(self, table: SparkTable, sink: str) -> int:
        """How many batches of this checkpoint a table has taken, or passed over; a fence alone is none."""
        return Marker.parse(table.committed(self.app_id(sink)) or 0).batch

    def path(self, sink: FlowSink) -> str:
        """Of a Delta table."""
        return join(self.pipeline.lake.path, sink.delta or "")

    def _delta(self, sink: FlowSink, batch: Batch) -> None:
        """Exactly once: by the batch's number, which Delta keeps beside the rows."""
        rows, app = batch.rows, self.app_id(sink.name)
        table = SparkTable(rows.sparkSession, self.path(sink))
        if not self.owns(table):
            raise _taken(self.flow, table.path)
        # What an earlier generation of the flow has left in it goes with this one's first batch.
        begins = self.record.generation > 1 and not self.reached(table, sink.name)
        if not (batch.count or begins or self.mode == "complete"):
            return
        identity = self.identity(app, batch.number)
        if self.mode == "complete" or begins:
            self.committer.once(table, identity, lambda: _overwrite(table, rows))
        elif self.mode == "update":
            _refuse_repeated(self.flow, sink, batch)
            self.committer.once(table, identity, lambda: merge(table, sink.keys, rows))
        else:
            self.committer.once(table, identity, lambda: table.append(rows, adds_columns=True))

    def owns(self, table: SparkTable) -> bool:
        """Whether a table says that it is this flow's."""
        return table.property_of(FLOW_PROPERTY) == self._owner

    @property
    def _owner(self) -> str:
        return f"{self.pipeline.name}/{self.flow}"

    def make(self, sink: FlowSink, session: SparkSession, columns: StructType) -> None:
        """A Delta table, empty, where there is none. Raises :class:`IngestError` where somebody else's is there."""
        table = SparkTable(session, self.path(sink))
        if table.exists():
            if not self.owns(table):
                raise _taken(self.flow, table.path)
            return
        self._refuse_nested(session, sink)
        builder = DeltaTable.createIfNotExists(session).location(table.path)
        builder = builder.addColumns(plain(columns)).property(FLOW_PROPERTY, self._owner)
        builder.execute()
        table.make_lasting(0)

    def _refuse_nested(self, session: SparkSession, sink: FlowSink) -> None:
        """A table inside another's folder would be litter to that one's VACUUM, and so would be what lies in its own."""
        parts = (sink.delta or "").split("/")
        lake = Storage(session, self.pipeline.lake.path)
        above = ["/".join(parts[:n]) for n in range(1, len(parts))]
        for folder in above:
            if lake.exists(f"{folder}/_delta_log"):
                raise _nested(self.flow, self.path(sink), f"lies inside the table {folder}")
        if lake.names(sink.delta or ""):
            raise _nested(self.flow, self.path(sink), "is a folder that something else is in")

    def _kafka(self, topic: str, batch: Batch) -> None:
        """At least once. A row's id is made of its batch and content, and of its number among those that are alike, so that who
        reads a repeated one knows it.
        """
        alike = Window.partitionBy("value").orderBy(F.lit(0))
        rows = batch.rows.select(F.to_json(F.struct("*")).alias("value"))
        batch_id = f"{self.record.checkpoint_id}/{batch.number}"
        text = F.concat_ws(
            "/", F.lit(batch_id), F.sha2("value", 256), F.row_number().over(alike).cast("string")
        )
        header = F.struct(F.lit("ingest-id").alias("key"), text.cast("binary").alias("value"))
        said = rows.select("value", F.array(header).alias("headers"))
        said.write.format("kafka").options(**client_options(self.pipeline)).option(
            "includeHeaders", "true"
        ).option("topic", topic).save()


def merge(table: SparkTable, keys: tuple[str, ...], rows: DataFrame) -> None:
    """Rows of these keys are as these are. NULL is a key like others."""
    same = " AND ".join(f"held.{quoted(key)} <=> now.{quoted(key)}" for key in keys)
    merging = table.delta().alias("held").merge(rows.alias("now"), same).withSchemaEvolution()
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _overwrite(table: SparkTable, rows: DataFrame) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(table.path)


def _refuse_repeated(flow: str, sink: FlowSink, batch: Batch) -> None:
    if batch.rows.select(*map(quoted, sink.keys)).distinct().count() != batch.count:
        raise IngestError(
            "E-FLOW-KEYS",
            f"The flow {flow!r} brings several rows of the same `keys` of {sink.delta} in one batch.",
            means="Which of them counts is not known. Nothing of the batch was written there.",
            remedy=f"name all columns that tell its rows apart; now they are {', '.join(sink.keys)}.",
        )


def _nested(flow: str, path: str, why: str) -> IngestError:
    return IngestError(
        "E-FLOW-SINK",
        f"{path}, where the flow {flow!r} writes, {why}.",
        means="Nothing was written there: whoever removes old files of the one could take the other's.",
        remedy="name another folder below `sinks`, such as `marts/name`.",
    )


def _taken(flow: str, path: str) -> IngestError:
    return IngestError(
        "E-FLOW-SINK",
        f"{path}, where the flow {flow!r} writes, is a table that is not this flow's.",
        means="Nothing was written there.",
        remedy="name another folder below `sinks`, or move that table away.",
    )
