"""Writing a batch of a flow's result. Each sink says what becomes of a batch that is repeated, as after a kill."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from ingest.config.connection_settings import Server
from ingest.config.flow_settings import Mode
from ingest.config.flow_sinks import FlowSink
from ingest.config.pipeline_file import Pipeline
from ingest.flows import (
    batch_place,
    mysql_places,
    mysql_rows,
    mysql_table,
    redis_sink,
    sink_refusals,
)
from ingest.flows.batch_place import Place
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.keyed_rows import GONE, VERSION, for_servers, marked, newest
from ingest.flows.mysql_places import Whose
from ingest.flows.mysql_table import TableFacts
from ingest.flows.refused_rows import Refused
from ingest.flows.refused_table import RefusedRows
from ingest.flows.spark_plans import plain
from ingest.kafka.record_stream import client_options
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.model.names import FLOW_PROPERTY, Marker, Role, app_id, join, quoted

if TYPE_CHECKING:
    from ingest.flows.flow_record import FlowRecord


_BATCH = re.compile(r"batch=(\d+)-\d+")
"""A batch's folder among files, by the generation of the flow."""


Since = Literal["new", "again", "later", "known"]
"""A sink that is the flow's for the first time; that an earlier generation has written to; that is added, or put back, to one that goes on; or that
was there when this checkpoint was gone on with before.
"""


@dataclass(frozen=True)
class Batch:
    """``rows``: of a flow's result, kept, ``count`` of them; ``number``: Spark's, from 0. Rows with ``keyed_rows.GONE`` tell by it which keys are
    no more.
    """

    rows: DataFrame
    count: int
    number: int
    whole: bool = False
    """Whether they are all there are, in place of what a sink holds."""


@dataclass(frozen=True)
class Sinks:
    """Of one flow under one checkpoint. ``record``: of that."""

    pipeline: Pipeline
    flow: str
    mode: Mode
    record: FlowRecord
    committer: Committer

    def write(self, sink: FlowSink, batch: Batch) -> int:
        """One batch to one sink. Returns how many rows its server refuses, which are kept."""
        if sink.delta:
            self._delta(sink, batch)
        elif sink.mysql:
            return self._mysql(sink, batch)
        elif not batch.count:
            return 0
        elif sink.redis:
            return self._redis(sink, batch)
        elif sink.kafka:
            self._kafka(sink, batch)
        elif sink.files:
            name = f"batch={self.record.generation}-{batch.number:09d}"
            place = f"{sink.files.rstrip('/')}/{name}"
            batch.rows.write.format(sink.format).mode("overwrite").save(place)
        else:
            print(f"-- {self.flow}, batch {batch.number}")  # noqa: T201 (it is what a console is for)
            batch.rows.show(1000, truncate=False)
        return 0

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

    def lost(self, sink: FlowSink, session: SparkSession) -> str:
        """Why the flow cannot go on with a sink that it had; empty where it can."""
        folder = self._folder
        logged = folder.logged(self.record)
        if sink.delta:
            table = SparkTable(session, self.path(sink))
            if not table.exists():
                return f"its table {sink.delta} is gone"
            if self.reached(table, sink.name) > logged + 1:
                return f"its checkpoint is older than its table {sink.delta}"
        if sink.notes_places:
            held = mysql_places.held(self._server(sink), self._whose(sink))
            why = batch_place.lost(held, self._behind(folder.done(self.record)), logged)
            return f"its table {sink.mysql} of MySQL: {why}" if why else ""
        return ""

    def generations(self, sink: FlowSink, session: SparkSession) -> int:
        """How many of the flow have written to a sink, as far as that itself tells; 0 for none, and 1 at least for a table with rows of one."""
        if sink.delta:
            table = SparkTable(session, self.path(sink))
            return int(table.exists() and self.owns(table) and table.version() > 0)
        if sink.files:
            names = HadoopFiles(session, sink.files).names("")
            return max((int(one[1]) for one in map(_BATCH.match, names) if one), default=0)
        return 0

    def owns(self, table: SparkTable) -> bool:
        """Whether a table says that it is this flow's."""
        return table.property_of(FLOW_PROPERTY) == self._owner

    @property
    def _owner(self) -> str:
        return f"{self.pipeline.name}/{self.flow}"

    @property
    def _folder(self) -> FlowFolder:
        return FlowFolder(self.pipeline, self.flow)

    def _server(self, sink: FlowSink) -> Server:
        name = sink.connection or ""
        return self.pipeline.connections[name].server(name)

    def _whose(self, sink: FlowSink) -> Whose:
        return Whose(self.pipeline.name, self.flow, sink.name)

    def _behind(self, number: int) -> Place:
        """Where a batch of this checkpoint ends."""
        ends = "\n".join(self._folder.offsets(self.record, number)) if number >= 0 else ""
        return Place(self.record.checkpoint_id, self.record.generation, number, ends)

    def make(
        self, sink: FlowSink, session: SparkSession, columns: StructType, *, since: Since
    ) -> int | None:
        """What a sink needs before its first batch. Returns what a sink of Redis begins with
        (``redis_sink.begin``). Raises :class:`IngestError` where it cannot be had.
        """
        lacking = [key for key in sink.keys if key not in columns.names]
        if lacking and not sink.delta:
            raise sink_refusals.no_key(self.flow, sink, lacking, columns.names)
        if sink.delta:
            self._make_delta(sink, session, columns)
        elif sink.mysql:
            self._make_mysql(sink, columns, since)
        elif sink.redis:
            return redis_sink.begin(*self._versions_of(sink))
        return None

    def _make_delta(self, sink: FlowSink, session: SparkSession, columns: StructType) -> None:
        table = SparkTable(session, self.path(sink))
        if table.exists():
            if not self.owns(table):
                raise sink_refusals.taken(self.flow, table.path)
            return
        self._refuse_nested(session, sink)
        builder = DeltaTable.createIfNotExists(session).location(table.path)
        builder = builder.addColumns(plain(columns)).property(FLOW_PROPERTY, self._owner)
        builder.execute()
        table.make_lasting(0)

    def _versions_of(self, sink: FlowSink) -> tuple[Server, str, str, int]:
        """Where it is kept what a key's versions are told by, what that is, and how often it has changed: they begin anew where it is another one."""
        told_by = sink.version or f"batch of {self.record.checkpoint_id}"
        owner = f"{redis_sink.OWNERS}{self._owner}/{sink.redis}"
        return self._server(sink), owner, f"by {told_by}", self.record.epoch(sink.name)

    def _make_mysql(self, sink: FlowSink, columns: StructType, since: Since) -> None:
        server, _ = self._fitting(sink, columns)
        if sink.notes_places and since != "known":
            at = self._behind(self._folder.done(self.record))
            if since == "again" and at.batch < 0:
                # What an earlier generation has written there goes with this one's first batch, whatever has become of its note.
                at = replace(at, checkpoint="", generation=at.generation - 1)
            mysql_places.begin(server, self._whose(sink), at, later=since == "later")

    def _fitting(self, sink: FlowSink, columns: StructType) -> tuple[Server, TableFacts]:
        """A table of MySQL that can take rows of these columns. Raises :class:`IngestError` where it cannot; somebody may have changed it since the flow began."""
        server, table = self._server(sink), sink.mysql or ""
        written = StructType([one for one in columns if one.name != GONE])
        found = mysql_table.facts(server, table)
        why = mysql_table.unfit(found, sink, written) if found else "there is no such table"
        if found is None or why:
            raise sink_refusals.unfit(self.flow, table, server, why, written, sink)
        return server, found

    def _refuse_nested(self, session: SparkSession, sink: FlowSink) -> None:
        """A table inside another's folder would be litter to that one's VACUUM, and so would be what lies in its own."""
        parts = (sink.delta or "").split("/")
        lake = HadoopFiles(session, self.pipeline.lake.path)
        above = ["/".join(parts[:n]) for n in range(1, len(parts))]
        for folder in above:
            if lake.exists(f"{folder}/_delta_log"):
                raise sink_refusals.nested(
                    self.flow, self.path(sink), f"lies inside the table {folder}"
                )
        if lake.names(sink.delta or ""):
            raise sink_refusals.nested(
                self.flow, self.path(sink), "is a folder that something else is in"
            )

    def _delta(self, sink: FlowSink, batch: Batch) -> None:
        """Exactly once: by the batch's number, which Delta keeps beside the rows."""
        rows, app = batch.rows, self.app_id(sink.name)
        table = SparkTable(rows.sparkSession, self.path(sink))
        if not self.owns(table):
            raise sink_refusals.taken(self.flow, table.path)
        # What an earlier generation of the flow has left in it goes with this one's first batch.
        begins = self.record.generation > 1 and not self.reached(table, sink.name)
        if not (batch.count or begins or batch.whole or self.mode == "complete"):
            return
        identity = self.identity(app, batch.number)
        merges = self.mode == "update" or GONE in rows.columns
        if merges:
            rows = self._of_each_key(sink, batch).drop(VERSION)
            tells = sink.deleted or GONE in batch.rows.columns
            rows = rows if tells else rows.drop(GONE)
        if self.mode == "complete" or begins or batch.whole:
            alive = rows.where(f"NOT {GONE}").drop(GONE) if GONE in rows.columns else rows
            self.committer.once(table, identity, lambda: overwrite(table, alive))
        elif merges:
            self.committer.once(table, identity, lambda: merge(table, sink.keys, rows))
        else:
            self.committer.once(table, identity, lambda: table.append(rows, adds_columns=True))

    def _of_each_key(self, sink: FlowSink, batch: Batch) -> DataFrame:
        """One row, and whether it is gone. Raises :class:`IngestError` where there are several, and nothing says which of them counts."""
        rows = marked(batch.rows, sink.deleted)
        if not batch.count:
            return rows
        if sink.version:
            return newest(rows, sink.keys, sink.version)
        if batch.rows.select(*map(quoted, sink.keys)).distinct().count() != batch.count:
            raise sink_refusals.repeated(self.flow, sink)
        return rows

    def _mysql(self, sink: FlowSink, batch: Batch) -> int:
        rows = self._of_each_key(sink, batch) if sink.keys else marked(batch.rows, None)
        names = [name for name in rows.columns if name not in (GONE, VERSION)]
        ready = for_servers(rows.select(*map(quoted, [*names, GONE])))
        server, found = self._fitting(sink, batch.rows.schema)
        rooms = mysql_table.rooms(found, names)
        into = mysql_rows.Into(server, sink.mysql or "", tuple(names), sink.keys, rooms)
        kept = [0]

        def refused(found: Sequence[Refused]) -> None:
            kept[0] = self._refused(batch, sink, found)

        def all_rows() -> Iterator[Any]:
            # One transaction is one connection, so these go through the driver: a partition of them at a time.
            return ready.toLocalIterator(prefetchPartitions=True) if batch.count else iter(())

        replaces = self.mode == "complete" or batch.whole
        if sink.notes_places:
            first, end = self._behind(batch.number - 1), self._behind(batch.number)
            mysql_places.at_once(
                into, self._whose(sink), first, end, all_rows, refused, replaces=replaces
            )
        elif replaces:
            refused(mysql_rows.replace(into, all_rows))
        elif batch.count:
            refused(_in_tasks(ready, lambda part: mysql_rows.by_key(into, part)))
        return kept[0]

    def _redis(self, sink: FlowSink, batch: Batch) -> int:
        rows = self._of_each_key(sink, batch)
        server, epoch = self._server(sink), redis_sink.epoch(*self._versions_of(sink))
        version = F.col(VERSION) if VERSION in rows.columns else F.lit(f"{batch.number:020d}")
        rows = rows.withColumn(VERSION, F.concat(F.lit(f"{epoch:06d}"), version))
        names = [name for name in rows.columns if name not in (GONE, VERSION)]
        ready = for_servers(rows.select(*map(quoted, [*names, GONE, VERSION])))
        into = redis_sink.Into(server, sink.redis or "", tuple(names), sink.keys)
        return self._refused(
            batch, sink, _in_tasks(ready, lambda part: redis_sink.by_key(into, part))
        )

    def _refused(self, batch: Batch, sink: FlowSink, found: Sequence[Refused]) -> int:
        held = RefusedRows(
            batch.rows.sparkSession,
            self._folder.refused,
            self.committer,
            self.app_id("refused", Role.LATE),
            self.record.checkpoint_id,
        )
        return held.keep(sink.name, batch.number, found)

    def _kafka(self, sink: FlowSink, batch: Batch) -> None:
        """At least once. A row's id is made of its batch and content, and of its number among those that are alike, so that who
        reads a repeated one knows it.
        """
        alike = Window.partitionBy("value").orderBy(F.lit(0))
        keys = (
            F.to_json(F.struct(*map(quoted, sink.keys)))
            if sink.keys
            else F.lit(None).cast("string")
        )
        rows = batch.rows.select(F.to_json(F.struct("*")).alias("value"), keys.alias("key"))
        batch_id = f"{self.record.checkpoint_id}/{batch.number}"
        text = F.concat_ws(
            "/", F.lit(batch_id), F.sha2("value", 256), F.row_number().over(alike).cast("string")
        )
        header = F.struct(F.lit("ingest-id").alias("key"), text.cast("binary").alias("value"))
        said = rows.select("key", "value", F.array(header).alias("headers"))
        said.write.format("kafka").options(**client_options(self.pipeline)).option(
            "includeHeaders", "true"
        ).option("topic", sink.kafka or "").save()


def _in_tasks(rows: DataFrame, send: Callable[[Any], Iterator[tuple[str, str]]]) -> list[Refused]:
    """Rows sent to a server by Spark's tasks. Returns what it refuses."""
    return [Refused(*one) for one in rows.rdd.mapPartitions(send).collect()]


def merge(table: SparkTable, keys: tuple[str, ...], rows: DataFrame) -> None:
    """Rows of these keys are as these are, and those that are gone (``keyed_rows.GONE``) are not. NULL is a key like others."""
    same = " AND ".join(f"held.{quoted(key)} <=> now.{quoted(key)}" for key in keys)
    merging = table.delta().alias("held").merge(rows.alias("now"), same).withSchemaEvolution()
    if GONE not in rows.columns:
        merging = merging.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    else:
        values: dict[str, str | Column] = {
            quoted(name): f"now.{quoted(name)}" for name in rows.columns if name != GONE
        }
        alive = f"NOT now.{GONE}"
        merging = merging.whenMatchedDelete(f"now.{GONE}").whenMatchedUpdate(set=values)
        merging = merging.whenNotMatchedInsert(alive, values)
    merging.execute()


def overwrite(table: SparkTable, rows: DataFrame) -> None:
    """A table's rows and columns are these."""
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(table.path)
