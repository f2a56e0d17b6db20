"""A batch of totals: up to one published batch of the manifest, under Spark's number, whatever dies.

The stream of change logs rings the bell, and its offsets are the flow's log of what was planned. What a batch does is decided by a cut, which is noted before
anything is written: the newest published batch of the manifest that holds all that the stream has seen. Changes are those of the logs between the cut before and
this one; tables are read as both cuts have them. So all tables of a join are of one moment, and a batch that comes again does the same again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.config.flow_settings import Flow
from ingest.config.flow_sinks import FlowSink
from ingest.config.flow_totals import Totals
from ingest.flows import cut as cuts
from ingest.flows import (
    inputs,
    log_ends,
    published_batch,
    state_shape,
    table_versions,
    totals_plan,
    totals_query,
)
from ingest.flows.cut import Cut, LogFacts, TableCut
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_function import FlowFunction
from ingest.flows.flow_record import FlowRecord
from ingest.flows.sinks import Sinks
from ingest.flows.totals_query import Shape
from ingest.flows.totals_step import Kept, TotalsStep
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry
from ingest.model.names import quoted
from ingest.model.read_again import is_read_again
from ingest.model.topics import TableId
from ingest.schema.change_log import BEGINS_PROPERTY

_IMAGES = ("insert", "update", "delete")


class ColumnsChangedError(Exception):
    """A table has other columns than this run began with: it begins anew."""


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

    @cached_property
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
            reader = reader.option("ignoreDeletes", "true")  # old days that go are no change
            logs.append(reader.format("delta").load(path).select(F.lit(name).alias("input")))
        return reduce(DataFrame.union, logs)

    def apply(self, sinks: Sinks, number: int, written: Callable[[FlowSink], None]) -> int:
        """A batch, to all sinks: to the table that holds the totals first. Returns how many rows their servers refuse, which are kept."""
        was, now, stale = self._cuts(sinks, number)
        with self._between(was, now) as (logs, facts), Kept() as kept:
            self._refuse_changed_columns(facts)
            sums, why = self.shape.parts is not None, self.why_whole
            readable = was is None or self._as_they_were(was)
            found = cuts.decide(was, now, facts, sums=sums, why_whole=why, readable=readable)
            if found.why and found.why != why:
                self.say(
                    f"flow {self.folder.name}: all totals are computed from the tables; {found.why}"
                )
            self.rows += sum(one.changes for one in facts.values())
            step = TotalsStep(self, sinks, now, number, kept)
            if found.way == "nothing" or stale:
                batch = step.nothing()
            elif found.way == "whole":
                batch = step.whole()
            else:
                assert was is not None
                batch = step.changed(was, logs, sums=found.way == "sums")
            refused = 0
            for sink in self.flow.sinks:
                if sink != self.main:
                    keyed = sink.model_copy(update={"keys": self.totals.by})
                    is_new = was is None or sink.name not in was.told
                    refused += sinks.write(
                        keyed, step.everything() if is_new and not stale else batch
                    )
                written(sink)
            return refused

    @property
    def main(self) -> FlowSink:
        """The table that holds the sums."""
        return next(one for one in self.flow.sinks if one.delta)

    def _cuts(self, sinks: Sinks, number: int) -> tuple[Cut | None, Cut, bool]:
        """That of the batch before, and that of this one, noted for good. Of a batch that failed before the table had it, the note may not fit any more: the
        function was mended since, the table is another one, versions are gone. Then there is a new one. ``stale``: the table has the batch by
        another function than now; the next batch tells all sinks.
        """
        record, main = sinks.record, SparkTable(self.session, sinks.path(self.main))
        text, before = self.folder.noted(record, number), self.folder.noted(record, number - 1)
        was = Cut.from_text(before) if before else None
        now = Cut.from_text(text) if text else None
        is_there = sinks.reached(main, self.main.name) > number
        name = f"{self.main.name}/{main.id()}"
        if now is not None and not is_there:
            same = (now.made_of, now.main) == (self.made_of, name)
            if not same or not all(map(self._readable, now.tables.values())):
                now = None
        if now is None:
            now = self._chosen(record, number, name, main.version())
        return was, now, now.made_of != self.made_of

    def _chosen(self, record: FlowRecord, number: int, main: str, version: int) -> Cut:
        """The newest published batch, once that holds all that the stream has seen, and each table all that its log tells: one that is being
        read again gets what is missing without a word of the log, so sums that took it half filled would lack it for good.
        """
        ends = log_ends.of(self.folder.offsets(record, number))

        def holds(entry: Entry) -> bool:
            tables = self._tables(entry)
            read = all(
                published_batch.is_published(
                    one.log_path, one.log_version, ends.get(one.log_id, -1)
                )
                for one in tables.values()
            )
            return read and len(tables) == len(self.flow.inputs) and not self._behind(entry)

        entry = published_batch.newest(self.ledger, self.folder.name, holds)
        told = tuple(one.name for one in self.flow.sinks if one != self.main)
        found = Cut(entry.batch_id, self._tables(entry), self.made_of, main, version, told)
        self.folder.note(record, number, found.as_text())
        return found

    def _behind(self, entry: Entry) -> bool:
        """Whether a table is not as far as its log."""
        named = [one.change_log or "" for one in self.flow.inputs.values()]
        topic = self.folder.pipeline.topic
        return any(is_read_again(entry, name, topic(TableId.parse(name))) for name in named)

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
                # Behind the rows: what a log lacks it says before it lacks it.
                lacks = _begins(self.session, table.log_path) > was.batch + 1
                facts[name] = replace(_facts(logs[name]), lacks=lacks)
            yield logs, facts
        finally:
            for rows in logs.values():
                rows.unpersist()

    def at(self, cut: Cut) -> dict[str, DataFrame]:
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

    def key(self, name: str, told: Sequence[str]) -> tuple[str, ...]:
        """Columns by which the rows of an input's table are told apart: its key's, or else all that both the table and its log (``told``) have by now."""
        path = self.folder.pipeline.path(TableId.parse(self.flow.inputs[name].change_log or ""))
        description = SparkTable(self.session, path).describe()
        both = [one for one in self._columns[name].names if one in told]
        key = description.key if description else ()
        return key if key and {*key} <= {*both} else tuple(both)

    def made(self, given: Mapping[str, DataFrame]) -> DataFrame:
        """The function's rows of these tables."""
        return self.function.of(self.session, given)

    def _readable(self, table: TableCut) -> bool:
        return table_versions.readable(self.session, table.path, table.version)

    def _as_they_were(self, cut: Cut) -> bool:
        """Whether the tables can still be read as a cut had them. One that an older copy was put in the place of has come to the same version once more,
        by a later batch, and with other rows.
        """
        return all(
            published_batch.batch_of(one.path, one.version) <= cut.batch and self._readable(one)
            for one in cut.tables.values()
        )

    def _refuse_changed_columns(self, facts: Mapping[str, LogFacts]) -> None:
        """Raises :class:`ColumnsChangedError` where a DDL is among the changes and the tables' columns are other ones than this run began with."""
        if any("schema" in one.others for one in facts.values()):
            pipeline = self.folder.pipeline
            for name, one in self.flow.inputs.items():
                now = inputs.table_of_log(self.session, pipeline, one).schema
                if now != self._columns[name]:
                    raise ColumnsChangedError(name)

    def refuse_outliving(self) -> None:
        """Raises :class:`IngestError` for a table in which rows stay, and count, that the source no longer has: what goes in the log does not go there."""
        for name, one in self.flow.inputs.items():
            table, pipeline = TableId.parse(one.change_log or ""), self.folder.pipeline
            description = SparkTable(self.session, pipeline.path(table)).describe()
            if description is None:
                continue
            now = pipeline.target(table, keyed=not description.multiset)
            if now.outlives or description.target.outlives:
                raise _outlives(self.folder.name, name)

    def differences(self, sinks: Sinks, limit: int) -> tuple[Cut, int, list[dict[str, object]]]:
        """Its table beside Spark's own GROUP BY over the tables as its newest cut has them: the cut, how many rows differ, and some of them. Raises
        :class:`IngestError` where it has not begun.
        """
        done = self.folder.done(sinks.record)
        text = self.folder.noted(sinks.record, done)
        if text is None:
            raise not_audited(self.folder.name, begun=False)
        cut = Cut.from_text(text)
        wanted = totals_query.grouped(self.made(self.at(cut)), self.totals)
        held = SparkTable(self.session, sinks.path(self.main)).frame()
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


def _begins(session: SparkSession, log: str) -> int:
    """The first batch that a change log has whole."""
    said = SparkTable(session, log).property_of(BEGINS_PROPERTY)
    return int(json.loads(said)["batch"]) if said else 0


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
