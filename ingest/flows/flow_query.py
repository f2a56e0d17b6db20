"""A flow as a streaming query: started from its checkpoint, and what one batch of it does.

A batch: Spark reads its inputs and moves its state; what came late is kept; the result goes to each sink. All of it is written under
the batch's number, so a batch that comes again after a kill, whichever of these had been written, adds nothing twice. Behind it
its Delta tables are kept in order. Spark notes the batch as done behind that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ingest.config.durations import seconds
from ingest.config.flow_settings import Flow
from ingest.config.flow_sinks import FlowSink
from ingest.flows import inputs, late_pairs, spark_plans, state_shape
from ingest.flows.continuity import Continuity, Fingerprint, continuity, inputs_of
from ingest.flows.cut import Cut
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_function import FlowFunction, load
from ingest.flows.flow_record import FlowRecord
from ingest.flows.flow_upkeep import FlowUpkeep
from ingest.flows.joined_tables import JoinedTables
from ingest.flows.read_logs import ReadLogs
from ingest.flows.sinks import Batch, Since, Sinks
from ingest.flows.totals_flow import TotalsFlow, not_audited
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.failpoints import reached
from ingest.model.names import Role, join


class StoppingError(Exception):
    """A batch would begin while the flow ends: nothing of it is done, it comes again."""


class RepeatedError(Exception):
    """The batch that came again is done, joined as it was; the next one is to be joined with newer tables, so it is planned anew."""


POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass
class FlowQuery:
    """One run of a flow, in a session of its own. ``failure``: what a batch raised, since Spark would hand it on as the text of a Python
    traceback; ``stopping``: whether no batch is to begin any more; ``busy``: one is in hand; ``generation``: that it runs in; ``refused``:
    rows that a sink's server did not take.
    """

    session: SparkSession
    folder: FlowFolder
    flow: Flow
    committer: Committer
    say: Callable[[str], None]
    failure: Exception | None = None
    stopping: Callable[[], bool] = lambda: False
    generation: int = 0
    busy: bool = False
    refused: int = 0
    totals: TotalsFlow | None = None
    _only: int | None = None
    """The batch that comes again, behind which this run is to end."""

    def __post_init__(self) -> None:
        self.joined = JoinedTables(self.folder, self.flow)
        self.logs = ReadLogs(self.session, self.folder, self.flow)
        self._upkeep = FlowUpkeep(self.folder.pipeline, self.folder.name, self.committer)

    @property
    def name(self) -> str:
        """Of the query."""
        return f"flow-{self.folder.pipeline.name}-{self.folder.name}"

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Begin, or go on. ``once``: up to where the inputs end now. Raises :class:`IngestError` where it cannot be."""
        function = load(self.folder.name, self.flow)
        if self.flow.totals:
            self.totals = self.totals_of(function)
            self.totals.refuse_outliving()
            result = self.totals.bell()
            now = totals_fingerprint(self.flow, function, self.totals.made_of)
            record = self._record(now, self.totals.columns)
        else:
            result, now = self.made(function)
            record = self._record(now, result.schema)
            try:
                result = self._joined_as_before(function, record, result)
            except AnalysisException as failure:
                said = " ".join(str(failure).split())[:200]
                why = f"a batch has to come again, joined with tables as they were, and its function cannot read them ({said})"
                record = self._record(now, result.schema, cannot=why)
        sinks = self._sinks(record)
        self.generation = record.generation
        writer = (
            result.writeStream.queryName(self.name)
            .outputMode(self.flow.mode)
            .foreachBatch(lambda rows, number: self._guarded(sinks, rows, number))
            .option("checkpointLocation", self.folder.checkpoint(record))
        )
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{seconds(self.flow.trigger)} seconds")
        return writer.start()

    def _joined_as_before(
        self, function: FlowFunction, record: FlowRecord, result: DataFrame
    ) -> DataFrame:
        """The result, or, where a batch has to come again, the same of tables as that was joined with; then the run ends behind it."""
        number = self.folder.logged(record)
        if not self.joined.paths or number <= self.folder.done(record):
            return result
        versions = self.joined.noted(record, number)
        if versions is None:
            return result
        self._only = number
        return self.made(function, versions=versions)[0]

    def totals_of(self, function: FlowFunction) -> TotalsFlow:
        """Of a flow of totals."""
        return TotalsFlow(self.session, self.folder, self.flow, function, self.say)

    def audit(self, limit: int) -> tuple[Cut, int, list[dict[str, object]]]:
        """Its table beside the tables that it is of: up to where, how many rows differ, and some of them. Raises :class:`IngestError` where it has not
        begun, or is no flow of totals.
        """
        record = self.folder.record()
        if record is None or not self.flow.totals:
            raise not_audited(self.folder.name, begun=record is not None)
        totals = self.totals_of(load(self.folder.name, self.flow))
        return totals.differences(self._sinks(record), limit)

    def fence(self) -> None:
        """So that who was suspended in the middle of a batch, and wakes up, commits nothing any more. Before anything else is done, by what
        the flow itself has noted: its function may not even load.
        """
        record = self.folder.record()
        if record is None:
            return
        sinks, lake = self._sinks(record), self.folder.pipeline.lake.path
        for name in record.tables:
            if not name.startswith("delta:"):  # its place in MySQL is a fence by itself
                continue
            table = SparkTable(self.session, join(lake, name.removeprefix("delta:")))
            if table.exists() and sinks.owns(table):
                self.committer.fence(table, sinks.app_id(name), sinks.app_id(name, Role.LATE))
        late = SparkTable(self.session, self.folder.late)
        if late.exists():
            self.committer.fence(late, sinks.app_id("late", Role.LATE))

    def made(
        self,
        function: FlowFunction,
        *,
        streams: bool = True,
        versions: Mapping[str, int] | None = None,
    ) -> tuple[DataFrame, Fingerprint]:
        """What the function makes of the inputs, and what a flow of it is."""
        self.session.conf.set(POLICY, self.flow.watermarks)
        given = {
            name: inputs.frame(
                self.session, self.folder.pipeline, one, streams=streams, versions=versions
            )
            for name, one in self.flow.inputs.items()
        }
        result = function.of(self.session, given)
        return result, fingerprint(self.flow, function, result, given)

    def goes_on(self, before: FlowRecord, now: Fingerprint) -> Continuity:
        """Whether a flow can go on from its checkpoint, and the tables that it has."""
        lost = self._lost(before)
        return Continuity(lost) if lost else continuity(before.fingerprint, now)

    def _record(self, now: Fingerprint, columns: StructType, cannot: str = "") -> FlowRecord:
        """That of the checkpoint to go on from, or of a new one. Tables are made before it is kept which they are, so that one which is gone
        later is known to have been there. ``cannot``: why it is not to go on, if that is known.
        """
        before, name, old = self.folder.record(), self.folder.name, self.folder.generations()
        if before is not None:
            found = Continuity(cannot) if cannot else self.goes_on(before, now)
            record = before.going_on(now)
        else:
            record, gone = FlowRecord.first(now), ""
            if self.folder.has_planned():
                gone = "what it was is gone (flow.json), and a checkpoint is there"
            elif old := self._written_by(record):
                gone = "what it was is gone (flow.json), and rows that it has written are there"
            found = Continuity(gone)
        if found.cannot and self.flow.on_change == "refuse":
            raise refused(name, found.cannot)
        if found.cannot:
            self.say(f"flow {name}: {found.cannot}; it begins again")
            generations = max(old, before.generation if before else 0)
            record = FlowRecord.first(now, generations, before.epochs if before else ())
        elif found.changed:
            self.say(f"flow {name}: {found.changed}")
        sinks, epochs = self._sinks(record), dict(record.epochs)
        goes_on = before is not None and before.checkpoint_id == record.checkpoint_id
        for sink in self.flow.sinks:
            known = record.generation > 1 if before is None else sink.name in before.tables
            since: Since = "again" if known else "new"
            if goes_on:
                since = "known" if known else "later"
            epoch = sinks.make(sink, self.session, columns, since=since)
            if epoch is not None:
                epochs[sink.name] = epoch
        wanted = [one for one in self.flow.sinks if one.holds_its_place]
        tables = tuple(one.name for one in wanted)
        record = replace(record, tables=tables, epochs=tuple(sorted(epochs.items())))
        if record != before:
            self.folder.keep(record)
        return record

    def _written_by(self, record: FlowRecord) -> int:
        """How many generations have written to its sinks, as far as these tell."""
        sinks = self._sinks(record)
        return max((sinks.generations(one, self.session) for one in self.flow.sinks), default=0)

    def _lost(self, record: FlowRecord) -> str:
        """What is gone that the flow cannot go on without; empty where nothing is."""
        if not self.folder.holds(record):
            return "its checkpoint is gone, or is another one"
        if gone := self.logs.lost(record):
            return gone
        logged = self.folder.logged(record)
        if logged > self.folder.done(record):
            gone = self.joined.gone(self.session, record, logged)
            if gone:
                return gone
        sinks = self._sinks(record)
        had = [sink for sink in self.flow.sinks if sink.name in record.tables]
        found = (sinks.lost(sink, self.session) for sink in had)
        return next((why for why in found if why), "")

    def _sinks(self, record: FlowRecord) -> Sinks:
        folder = self.folder
        return Sinks(folder.pipeline, folder.name, self.flow.mode, record, self.committer)

    def _guarded(self, sinks: Sinks, rows: DataFrame, number: int) -> None:
        if self.stopping():
            raise StoppingError
        if self._only is not None and number > self._only:
            self.failure = RepeatedError()
            raise self.failure
        self.busy = True
        try:
            self._apply(sinks, rows, number)
            tables = [sinks.path(sink) for sink in self.flow.sinks if sink.delta]
            for done in self._upkeep.behind_batch(self.session, tables):
                if done.what == "failed":
                    self.say(f"flow {self.folder.name}: {done}")
        except Exception as failure:
            self.failure = self.failure or failure
            raise
        finally:
            self.busy = False

    def _apply(self, sinks: Sinks, rows: DataFrame, number: int) -> None:
        self.committer.refuse_lost()
        reached("flow_started", number, self.folder.name)
        self.folder.make_lasting(sinks.record, number)
        if gone := self.logs.note(sinks.record, number):
            raise refused(self.folder.name, gone)
        if self.totals:
            written = partial(self._written, number)
            self.refused += self.totals.apply(sinks, number, written)
            return
        if self.joined.paths:
            execution = spark_plans.of_batch(self.session, self.name)
            self.joined.note(sinks.record, number, execution)
        kept = rows.persist()
        try:
            count = kept.count()
            batch = Batch(spark_plans.rows_alone(kept), count, number)
            self._keep_late(sinks, kept.sparkSession, number)
            reached("flow_late", number, self.folder.name)
            for sink in self.flow.sinks:
                self.refused += sinks.write(sink, batch)
                self._written(number, sink)
        finally:
            kept.unpersist()

    def _written(self, number: int, sink: FlowSink) -> None:
        reached("flow_written", number, f"{self.folder.name}/{sink.name}")

    def _keep_late(self, sinks: Sinks, session: SparkSession, number: int) -> None:
        """Nothing is read again unless Spark says that it has dropped something."""
        if self.flow.mode == "complete" or not self.flow.keep_late:
            return
        execution = spark_plans.of_batch(self.session, self.name)
        if not late_pairs.dropped(execution):
            return
        found = late_pairs.late(session, execution, late_pairs.watermark_of(execution))
        if found is None:
            return
        pairs = found.select(
            F.lit(sinks.record.checkpoint_id).alias("checkpoint"),
            F.lit(number).cast("bigint").alias("batch_id"),
            "*",
        )
        sinks.append_late(self.folder.late, late_pairs.LATE, pairs, number)


def fingerprint(
    flow: Flow, function: FlowFunction, result: DataFrame, given: Mapping[str, DataFrame]
) -> Fingerprint:
    """Of a flow as it is now. ``given``: its inputs."""
    plan = hashlib.sha256(state_shape.plan_text(result).encode()).hexdigest()[:16]
    reads = inputs_of(flow, state_shape.sources(result, given))
    state = state_shape.shape(result, given)
    return Fingerprint(reads, flow.mode, state, plan, function.digest, _times(flow, given))


def _times(flow: Flow, given: Mapping[str, DataFrame]) -> tuple[tuple[str, str], ...]:
    """What event times are made of, by input, where they are no column of it."""
    said = ((name, one.event_time) for name, one in flow.inputs.items() if one.watermark)
    return tuple((name, time) for name, time in said if time and time not in given[name].columns)


def totals_fingerprint(flow: Flow, function: FlowFunction, made_of: str) -> Fingerprint:
    """Of totals, whose state is their table, which is computed anew where they were changed."""
    reads = inputs_of(flow, tuple(flow.inputs))
    return Fingerprint(reads, flow.mode, (), made_of, function.digest)


def refused(name: str, why: str) -> IngestError:
    """A flow that cannot go on from its checkpoint."""
    return IngestError(
        "E-FLOW-CHANGED",
        f"The flow {name!r} cannot go on from its checkpoint: {why}.",
        means="It was not started; its tables stay as they are, and the mirrors and all other flows go on.",
        remedy="take that back, or say `on_change: restart` of it: then it reads its inputs from where a new flow begins, and its "
        "Delta tables are written anew. Under another name both can be kept.",
    )
