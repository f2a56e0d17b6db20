"""A batch of totals: up to one published batch of the manifest, under Spark's number, whatever dies.

The stream of change logs rings the bell, and its offsets are the flow's log of what was planned. What a batch does is decided by a cut, which is noted before
anything is written: the newest published batch of the manifest that holds all that the stream has seen. Changes are those of the logs between the cut before and
this one; tables are read as both cuts have them. So all tables of a join are of one moment, and a batch that comes again does the same again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.config.flow_settings import Flow
from ingest.config.flow_sinks import FlowSink
from ingest.config.flow_totals import Totals
from ingest.flows import cut as cuts
from ingest.flows import inputs, log_ends, spark_plans, state_shape, totals_plan, totals_query
from ingest.flows.cut import Cut, LogFacts, TableCut
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_function import FlowFunction
from ingest.flows.flow_record import FlowRecord
from ingest.flows.joined_tables import WAITS
from ingest.flows.keyed_rows import GONE
from ingest.flows.sinks import Batch, Sinks, merge
from ingest.flows.totals_query import ROWS, Shape
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry
from ingest.model.names import quoted
from ingest.model.topics import TableId

_IMAGES = ("insert", "update", "delete")


@dataclass
class TotalsFlow:
    """One run of it. ``session``: the flow's own."""

    session: SparkSession
    folder: FlowFolder
    flow: Flow
    function: FlowFunction
    say: Callable[[str], None]
    rows: int = 0
    """Changes that were taken in."""

    def __post_init__(self) -> None:
        assert self.flow.totals is not None
        self.totals: Totals = self.flow.totals
        self.ledger = Ledger(self.folder.pipeline.lake.path)
        given = {
            name: inputs.table_of_log(self.session, self.folder.pipeline, one)
            for name, one in self.flow.inputs.items()
        }
        self._columns = {name: frame.schema for name, frame in given.items()}
        made = self.function.of(self.session, given)
        self.shape: Shape = totals_query.shape(made, self.totals)
        self.why_whole = totals_plan.why_whole(made, given)
        said = [*self.totals.by, *(f"{name}={text}" for name, text in self.totals.values.items())]
        plan = state_shape.plan_text(made)
        self.made_of = hashlib.sha256("\n".join([plan, *said]).encode()).hexdigest()[:16]

    @property
    def columns(self) -> StructType:
        """Of its table."""
        given = {
            name: self.session.createDataFrame([], kind) for name, kind in self._columns.items()
        }
        return totals_query.whole(self.function.of(self.session, given), self.shape).schema

    def bell(self) -> DataFrame:
        """A stream of the change logs, which nobody reads a row of: what it tells is that there are some, and how far they go."""
        logs = []
        for name, one in self.flow.inputs.items():
            path = inputs.log_path(self.folder.pipeline, one)
            reader = self.session.readStream.option("maxFilesPerTrigger", "1000000")
            logs.append(reader.format("delta").load(path).select(F.lit(name).alias("input")))
        return reduce(DataFrame.union, logs)

    def apply(self, sinks: Sinks, number: int, written: Callable[[FlowSink], None]) -> int:
        """A batch, to all sinks. Returns how many rows their servers refuse, which are kept."""
        record = sinks.record
        text, before = self.folder.cut(record, number), self.folder.cut(record, number - 1)
        now = Cut.from_text(text) if text else self._chosen(record, number)
        was = Cut.from_text(before) if before else None
        with self._between(was, now) as (logs, facts):
            sums, why = self.shape.parts is not None, self.why_whole
            readable = was is None or all(map(self._readable, was.tables.values()))
            found = cuts.decide(was, now, facts, sums=sums, why_whole=why, readable=readable)
            if found.why and found.why != why:
                self.say(
                    f"flow {self.folder.name}: all totals are computed from the tables; {found.why}"
                )
            self.rows += sum(one.changes for one in facts.values())
            if found.way == "whole":
                batch = self._whole(sinks, now, number)
            elif found.way == "nothing":
                batch = self._none(number)
            else:
                assert was is not None
                batch = self._changed(sinks, was, now, logs, number, sums=found.way == "sums")
            kept = batch.rows.persist()
            try:
                batch = Batch(spark_plans.rows_alone(kept), kept.count(), number)
                refused = 0
                for sink in self.flow.sinks:
                    if sink != self._main:
                        keyed = sink.model_copy(update={"keys": self.totals.by})
                        refused += sinks.write(keyed, batch)
                    written(sink)
            finally:
                kept.unpersist()
            return refused

    @property
    def _main(self) -> FlowSink:
        """The table that holds the sums."""
        return next(one for one in self.flow.sinks if one.delta)

    def _chosen(self, record: FlowRecord, number: int) -> Cut:
        """The newest published batch, once that holds all that the stream has seen; noted for good."""
        ends, until = log_ends.of(self.folder.offsets(record, number)), time.monotonic() + WAITS
        while True:
            entry = self.ledger.last()
            tables = self._tables(entry) if entry else {}
            holds = all(ends.get(one.log_id, -1) <= one.log_version for one in tables.values())
            if entry and holds and len(tables) == len(self.flow.inputs):
                break
            if time.monotonic() > until:
                raise log_ends.unpublished(self.folder.name)
            time.sleep(0.2)
        found = Cut(entry.batch_id, tables, self.made_of)
        self.folder.keep_cut(record, number, found.as_text())
        return found

    def _tables(self, entry: Entry) -> dict[str, TableCut]:
        found = {}
        for name, one in self.flow.inputs.items():
            state = entry.tables.get(one.change_log or "")
            if state is not None and state.log is not None:
                log = state.log
                found[name] = TableCut(
                    state.path, state.version, state.id, log.path, log.version, log.id
                )
        return found

    @contextmanager
    def _between(
        self, was: Cut | None, now: Cut
    ) -> Iterator[tuple[dict[str, DataFrame], dict[str, LogFacts]]]:
        """By input: the rows of its log between two cuts, kept for as long as this lasts, and what they are."""
        logs, facts = dict[str, DataFrame](), dict[str, LogFacts]()
        try:
            for name, table in now.tables.items():
                old = was.tables.get(name) if was else None
                if (
                    was is None
                    or old is None
                    or old.log_id != table.log_id
                    or old.log_version == table.log_version
                ):
                    facts[name] = LogFacts()
                    continue
                log = inputs.log_at(self.session, table.log_path)
                rows = log.where((F.col("batch_id") > was.batch) & (F.col("batch_id") <= now.batch))
                logs[name] = rows.select("operation", "before", "after").persist()
                facts[name] = _facts(logs[name])
            yield logs, facts
        finally:
            for rows in logs.values():
                rows.unpersist()

    def _at(self, cut: Cut) -> dict[str, DataFrame]:
        """The tables, by input, as a cut has them: their live rows, by the columns of their logs."""
        found = {}
        for name, table in cut.tables.items():
            held = inputs.table_at(self.session, table.path, table.version)
            there = {one.lower() for one in held.columns}
            # One that a later DDL has brought: a batch that takes the DDL in computes all anew.
            columns = [
                (F.col(quoted(one.name)) if one.name.lower() in there else F.lit(None))
                .cast(one.dataType)
                .alias(one.name)
                for one in self._columns[name]
            ]
            found[name] = held.select(*columns)
        return found

    def _readable(self, table: TableCut) -> bool:
        try:
            inputs.table_at(self.session, table.path, table.version).limit(1).count()
        except (PySparkException, IngestError):
            return False
        return True

    def refuse_outliving(self) -> None:
        """Raises :class:`IngestError` for a table in which rows stay, and count, that the source no longer has: what goes in the log does not go there."""
        for name, one in self.flow.inputs.items():
            path = self.folder.pipeline.path(TableId.parse(one.change_log or ""))
            description = SparkTable(self.session, path).describe()
            if description is not None and description.target.outlives:
                raise _outlives(self.folder.name, name)

    def _rows(self, given: Mapping[str, DataFrame]) -> DataFrame:
        return self.function.of(self.session, given)

    def _whole(self, sinks: Sinks, now: Cut, number: int) -> Batch:
        table = SparkTable(self.session, sinks.path(self._main))
        everything = totals_query.whole(self._rows(self._at(now)), self.shape)
        identity = sinks.identity(sinks.app_id(self._main.name), number)
        sinks.committer.once(table, identity, lambda: table_is(table, everything))
        # Who has read of a group that is no more is told. Nobody but this flow writes its table, so what stood there is a version back.
        version = table.version()
        shown, by = table.frame().select(*map(quoted, self.shape.columns)), self.totals.by
        if version < 1:
            return Batch(shown.withColumn(GONE, F.expr("false")), 0, number)
        older = (
            self.session.read.format("delta").option("versionAsOf", version - 1).load(table.path)
        )
        if not {*by} <= {*older.columns}:
            return Batch(shown.withColumn(GONE, F.expr("false")), 0, number)
        groups = older.select(*map(quoted, by))
        return Batch(totals_query.with_gone(shown, groups, by), 0, number)

    def _none(self, number: int) -> Batch:
        shown = [one for one in self.columns if one.name in self.shape.columns]
        empty = self.session.createDataFrame([], StructType(shown))
        return Batch(empty.withColumn(GONE, F.expr("false")), 0, number)

    def _changed(
        self,
        sinks: Sinks,
        was: Cut,
        now: Cut,
        logs: Mapping[str, DataFrame],
        number: int,
        *,
        sums: bool,
    ) -> Batch:
        table = SparkTable(self.session, sinks.path(self._main))
        identity = sinks.identity(sinks.app_id(self._main.name), number)
        by, after = self.totals.by, self._at(now)
        came = {name: _images(rows, "after") for name, rows in logs.items()}
        went = {name: _images(rows, "before") for name, rows in logs.items()}
        signed = totals_query.signed(self._rows, self.shape, self._at(was), after, came, went)
        if sums:
            changes = spark_plans.rows_alone(totals_query.changes(signed, self.shape).persist())
            sinks.committer.once(table, identity, lambda: _add(table, changes, self.shape))
            groups = changes.select(*map(quoted, by))
            shown = table.frame().select(*map(quoted, self.shape.columns))
            return Batch(
                totals_query.with_gone(totals_query.of_groups(shown, groups, by), groups, by),
                0,
                number,
            )
        groups = spark_plans.rows_alone(signed.select(*map(quoted, by)).distinct().persist())
        again = totals_query.again(self._rows(after), groups, self.shape)
        kept = spark_plans.rows_alone(again.persist())
        sinks.committer.once(table, identity, lambda: merge(table, by, kept))
        return Batch(kept, 0, number)

    def differences(self, sinks: Sinks, limit: int) -> tuple[Cut, int, list[dict[str, object]]]:
        """Its table beside Spark's own GROUP BY over the tables as its newest cut has them: the cut, how many rows differ, and some of them. Raises
        :class:`IngestError` where it has not begun.
        """
        done = self.folder.done(sinks.record)
        text = self.folder.cut(sinks.record, done)
        if text is None:
            raise not_audited(self.folder.name, begun=False)
        cut = Cut.from_text(text)
        wanted = totals_query.grouped(self._rows(self._at(cut)), self.totals)
        held = SparkTable(self.session, sinks.path(self._main)).frame()
        held = held.select(*map(quoted, self.shape.columns))
        wanted = wanted.select(
            *[F.col(quoted(one.name)).cast(one.dataType).alias(one.name) for one in held.schema]
        )
        extra = held.exceptAll(wanted).withColumn("is", F.lit("in its table alone"))
        missing = wanted.exceptAll(held).withColumn("is", F.lit("right"))
        both = extra.unionByName(missing).persist()
        try:
            many = both.count()
            some = both.orderBy(*map(quoted, self.totals.by)).limit(limit).collect()
        finally:
            both.unpersist()
        return cut, many, [row.asDict(recursive=True) for row in some]


def table_is(table: SparkTable, rows: DataFrame) -> None:
    """A table's rows and columns are these."""
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(table.path)


def _facts(rows: DataFrame) -> LogFacts:
    bare = (F.col("operation").isin("update", "delete") & F.col("before").isNull()) | (
        F.col("operation").isin("insert", "update") & F.col("after").isNull()
    )
    counted = rows.groupBy("operation").agg(
        F.count("*").alias("n"), F.sum(bare.cast("bigint")).alias("bare")
    )
    found = {row.operation: (row.n, row.bare) for row in counted.collect()}
    many = sum(n for operation, (n, _) in found.items() if operation in _IMAGES)
    others = tuple(sorted(found.keys() - {*_IMAGES}))
    return LogFacts(many, others, sum(bare for _, bare in found.values()))


def _images(rows: DataFrame, image: str) -> DataFrame:
    operations = ("insert", "update") if image == "after" else ("update", "delete")
    return rows.where(F.col("operation").isin(*operations)).select(f"{image}.*")


def _add(table: SparkTable, changes: DataFrame, shape: Shape) -> None:
    same = " AND ".join(f"held.{quoted(one)} <=> now.{quoted(one)}" for one in shape.totals.by)
    updated, inserted = totals_query.merged(shape)
    left = f"held.{ROWS} + now.{ROWS}"
    wrong = F.raise_error(F.lit("more rows have gone from a group than it has"))
    updated[ROWS] = F.when(F.expr(f"{left} > 0"), F.expr(left)).otherwise(wrong.cast("bigint"))
    inserted[ROWS] = F.when(F.expr(f"now.{ROWS} > 0"), F.col(f"now.{ROWS}")).otherwise(
        wrong.cast("bigint")
    )
    merging = DeltaTable.forPath(table.session, table.path).alias("held")
    merging_with = merging.merge(changes.alias("now"), same)
    merging_with.whenMatchedDelete(f"{left} = 0").whenMatchedUpdate(
        set=updated
    ).whenNotMatchedInsert(f"now.{ROWS} <> 0", inserted).execute()


def _outlives(flow: str, name: str) -> IngestError:
    return IngestError(
        "E-FLOW-TOTALS",
        f"The totals of the flow {flow!r} cannot go by {name}: the table keeps rows that the source no longer has (`append_only`).",
        means="The flow was not started; its table stays as it is.",
        remedy="count its change log by a flow without `totals`.",
    )


def not_audited(name: str, *, begun: bool) -> IngestError:
    """There is nothing to compare a flow's tables with."""
    if begun:
        return IngestError(
            "E-FLOW-AUDIT",
            f"The flow {name!r} has no `totals`, and what it has made of its inputs cannot be computed from tables.",
            remedy="audit flows with `totals`; of others, read what they write.",
        )
    return IngestError(
        "E-FLOW-AUDIT",
        f"The flow {name!r} has not finished a batch.",
        remedy="run it first: `ingest flow run FILE NAME --once`.",
    )
