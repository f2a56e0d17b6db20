"""`ingest run`: check, take the lease, apply the connector, stream, end as asked.

``--once`` is exact: it notes where MySQL's log ends, waits until Connect has delivered all of that
to Kafka, fixes Kafka's end, and applies up to there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from ingest.batch.batch_report import BatchReport
from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_runs import beside, each_once
from ingest.job import executors, spark_session, stop_signal
from ingest.job.lent_keys import LentKeys
from ingest.job.run_end import told
from ingest.job.stream_failure import again
from ingest.job.streaming import Streaming
from ingest.kafka import broker, topic_retention
from ingest.kafka.prefetch import Ahead
from ingest.lake import ownership
from ingest.lake.delta.commit import Committer
from ingest.lake.engines.engine_choice import read_in_driver
from ingest.lake.files import durability, object_store
from ingest.lake.files.lease import Lease, Term
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.storage import files_at
from ingest.lake.manifest.manifest_reader import Ledger, newest_term
from ingest.model.epochs import newest_number
from ingest.model.errors import IngestError
from ingest.model.location import within_reach
from ingest.model.names import lease_path
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop
from ingest.model.topics import TableId
from ingest.observe.observer import Observer, observed
from ingest.source import first_rows, later_tables, mysql, resync, resync_signal, schema_history
from ingest.source.connector import Connector
from ingest.source.delivery import await_delivery
from ingest.source.epoch_registry import EpochRegistry
from ingest.source.supervisor import Supervisor
from ingest.start import lake_format, power_cut
from ingest.start.fencing import fence_every_target
from ingest.start.preflight import refuse_unfit

_RESTARTS = 8
"""How often a run decides its start anew without publishing a batch in between, before it gives up."""
_LONGEST_PAUSE = 15.0
"""Seconds before such a decision; the first ones follow sooner, all of them within a minute and a
half, in which a broker has long restarted."""

_THE_LAKE: tuple[type[IngestError], ...] = (LakeAwayError, LakeDeniedError)

Say = Callable[[str], None]


@dataclass
class Run:
    """One run of a pipeline. ``say`` gets sentences, ``report`` each batch."""

    pipeline: Pipeline
    log: Path
    say: Say
    report: Callable[[BatchReport], None]
    only_replay: bool = False
    """Take in what waits in quarantine, and nothing else."""
    drop: Drop | None = None
    """What of it is given up before."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _spark: SparkSession | None = None
    _keys: LentKeys = field(init=False)

    def __post_init__(self) -> None:
        self._keys = LentKeys(self.pipeline.lake)

    def execute(
        self, *, once: bool = False, standby: bool = False, from_beginning: bool = False
    ) -> None:
        """Run until stopped (or, ``once``, until everything committed by now is applied)."""
        stop_signal.stops(self._stop)
        durability.switch(on=self.pipeline.lake.sync)
        object_store.lend(self.pipeline.lake)
        lake = self.pipeline.lake.path
        try:
            with told(self.log, lake):
                captured = refuse_unfit(self.pipeline)
                for pattern, why in self.pipeline.unmatched(captured).items():
                    self.say(f"tables.{pattern}: {why}; what is said there is of no table")
                if standby or not within_reach(lake):
                    # A standby has Spark warm before it is needed; a lake in HDFS is reached through Spark.
                    self._start_spark()
                ownership.refuse_other(self.pipeline)  # the lease's files are the lake's, too
                lease = Lease(
                    files_at(lease_path(lake)),
                    self.say,
                    self._keys.are_old,
                    written=lambda: newest_term(lake),
                )
                try:
                    term = lease.acquire(standby=standby, stop=self._stop)
                    if term is None:
                        return
                    with (
                        observed(self.pipeline, self.log, term.number, self.say) as observer,
                        told(self.log, lake),  # inside, since the observer tells why a run ends
                    ):
                        self._hold(
                            lease,
                            term,
                            captured,
                            observer,
                            once=once,
                            from_beginning=from_beginning,
                        )
                finally:
                    lease.release()
        finally:
            spark_session.end(self._spark)

    def _hold(
        self,
        lease: Lease,
        term: Term,
        captured: Sequence[TableId],
        observer: Observer,
        *,
        once: bool,
        from_beginning: bool,
    ) -> None:
        """Everything that needs the lease."""
        lease.refuse_lost()  # what follows removes what unpublished batches have left: a living job's, had this one lost it
        lake_format.refuse_other(self.pipeline.lake.path)
        ownership.claim(self.pipeline)  # whoever stood by may find another's lake by now
        power_cut.look_through(self.pipeline, captured, self.say, lease.refuse_lost)
        connector = Connector(self.pipeline)
        first_rows.begin(self.pipeline, connector)
        unknown, leave_out = self._expect_later(connector, captured, observer)
        epochs = EpochRegistry(self.pipeline)
        broker.ensure_topic(self.pipeline, resync_signal.signal_topic(self.pipeline))
        plan = epochs.follow(connector, self.say)
        self.say(f"connector {self.pipeline.name}: {_PLANNED[plan.action]}")
        topic_retention.lengthen(self.pipeline, self.say)
        number = newest_number(epochs.known())
        supervisor = Supervisor(connector, self.say, number, unknown, leave_out)
        first_rows.follow(connector, supervisor, self.say, self._stop)
        with mysql.connected(self.pipeline.source) as cursor:
            target = mysql.reached(cursor)
            plain = self._read_in_driver(captured, mysql.keyed(cursor))
        with closing(Ahead(self.pipeline)) as ahead:
            if plain and not (from_beginning or self.only_replay):
                ahead.begin({self.pipeline.topic(table) for table in plain})
            # Where all tables are such, Spark has little to compute.
            short = once and bool(plain) and plain.issuperset(captured) and not self.pipeline.flows
            spark = self._spark or self._start_spark(short=short)
            if once:
                await_delivery(connector, supervisor, target, stop=self._stop, say=self.say)
            committer = Committer(term.number, lease.refuse_lost)
            if term.fence:
                fence_every_target(spark, self.pipeline, committer)
                lease.fenced()
            streaming = Streaming(
                self.pipeline,
                spark,
                committer,
                supervisor,
                ahead,
                self.log,
                self.say,
                self._reported(observer),
                self._stop,
                once=once,
                only_replay=self.only_replay,
                drop=self._drop(epochs, target),
                observer=observer,
            )
            with closing(streaming.registering), self._flows(spark, observer, once=once):
                self._stream_until_done(streaming, from_beginning=from_beginning)

    @contextmanager
    def _flows(self, spark: SparkSession, observer: Observer, *, once: bool) -> Iterator[None]:
        """Beside the mirrors; where the run is to end, behind them, each up to where its inputs end then."""
        flows = () if self.only_replay else tuple(self.pipeline.flows)
        if not flows or once:
            stands = None
            try:
                yield
            except IngestError as failure:
                if failure.code != "E-TABLE-STOPPED":
                    raise
                stands = failure  # of some tables, and no flow's trouble
            each_once(spark, self.pipeline, flows, self.say, self._stop)
            if stands is not None:
                raise stands
            return
        with beside(spark, self.pipeline, self.say) as runs:
            observer.flows = lambda: {one.name: one.status for one in runs}
            yield

    def _expect_later(
        self, connector: Connector, captured: Sequence[TableId], observer: Observer
    ) -> tuple[Callable[[Iterable[TableId]], None] | None, Callable[[TableId, str], None] | None]:
        """Have the connector pass over tables that join until it has read them; before it hears which tables are taken. Returns
        who notes others that it does not know, and those that it leaves out; None where tables cannot be taken whole by
        themselves, or the run is to stop instead.
        """
        if not resync.is_possible(self.pipeline):
            return None, None
        before = later_tables.TakenBefore(self.pipeline)
        before.begin()
        joining = before.joining(captured)
        newest = Ledger(self.pipeline.lake.path).last()
        incomplete = later_tables.untold_in(newest) | before.unknown()
        connector.passes_over = bool(joining or incomplete)
        if joining:
            schema_history.forget(connector, joining, self.say)

        def leave_out(table: TableId, why: str) -> None:
            before.leave_out(table, why)
            observer.left_out(table)

        leaves = self.pipeline.connect.at_failing_table == "leave_out"
        return before.note_unknown, leave_out if leaves else None

    def _drop(self, epochs: EpochRegistry, now: mysql.Reached) -> Drop | None:
        """With where MySQL's log ends: all that is dropped was read from before."""
        at = Position(newest_number(epochs.known()), now.file, now.pos)
        return replace(self.drop, at=at) if self.drop else None

    def _reported(self, observer: Observer) -> Callable[[BatchReport], None]:
        def report(batch: BatchReport) -> None:
            observer.upkeep(batch.entry.batch_id, batch.upkeep)
            self.report(batch)

        return report

    def _stream_until_done(self, streaming: Streaming, *, from_beginning: bool) -> None:
        """Decide anew and stream again whenever the query ends without being asked to. A lake that is away, or lets nobody in, is waited for
        however long that lasts, but where the run is to end, or only a new start would be let in: nothing else can be done
        meanwhile, and nothing is lost.
        """
        tries, waited = 0, 0
        waits_for = () if streaming.once or streaming.only_replay else _THE_LAKE
        while True:
            try:
                ended = streaming.stream(from_beginning=from_beginning)
            except IngestError as failure:
                ended = again(failure, self.log)
            except Exception as failure:
                if spark_session.has_died(failure):
                    raise  # nothing can be begun anew inside this process
                ended = again(executors.lost() or failure, self.log, self.pipeline.lake.path)
            if ended is None or self._stop.is_set():
                return
            if self._keys.are_old(ended.error):
                raise ended.error
            from_beginning = False
            if isinstance(ended.error, waits_for):
                waited, known = (1 if streaming.applied else waited + 1), streaming.away
                streaming.away, pause = ended.code, waited
            else:
                tries = 1 if streaming.applied else tries + 1
                if tries > (1 if ended.lasting else _RESTARTS):
                    raise ended.error
                waited, known, streaming.away, pause = 0, "", "", tries
            streaming.observer.restarted(ended.code)
            if ended.code != known:
                self.say(f"{ended.reason}; deciding anew where to go on")
            self._stop.wait(min(2.0 ** min(pause - 1, _RESTARTS), _LONGEST_PAUSE))

    def stop(self) -> None:
        """End the run after the batch in hand."""
        self._stop.set()

    def _start_spark(self, *, short: bool = False) -> SparkSession:
        self.say("starting Spark …")
        self._spark = spark_session.for_pipeline(
            self.pipeline, self.log, short=short, stopping=self._stop.is_set
        )
        return self._spark

    def _read_in_driver(
        self, captured: Sequence[TableId], keyed: Collection[TableId]
    ) -> frozenset[TableId]:
        if self.pipeline.spark.lane == "columns":
            return frozenset()
        return read_in_driver(
            self.pipeline.spark.merge_engine,
            captured,
            lake=self.pipeline.lake.path,
            state=self.pipeline.dedup.keeps_state,
            keyed=keyed,
        )


_PLANNED = {
    "create": "created",
    "change": "changed to match the pipeline file",
    "nothing": "as the pipeline file says",
}
