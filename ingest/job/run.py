"""`ingest run`: check, take the lease, apply the connector, start the one query, end as asked.

``--once`` is exact: it notes where MySQL's log ends, waits until Connect has delivered all of that
to Kafka, fixes Kafka's end, and applies up to there.
"""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ingest.batch.batch_report import BatchReport
from ingest.batch.micro_batch import Batches
from ingest.config.pipeline_file import Pipeline
from ingest.job import spark_session
from ingest.job.stream_failure import Again, again, spark_died
from ingest.kafka import broker, record_stream
from ingest.kafka.kafka_log import KafkaLog
from ingest.kafka.prefetch import Ahead
from ingest.lake.delta.commit import Committer
from ingest.lake.engines.engine_choice import read_in_driver
from ingest.lake.files.lease import Lease, Term
from ingest.lake.files.storage import Storage, files_at, is_local, within_delta_rs_s_reach
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.epochs import newest_number
from ingest.model.errors import IngestError
from ingest.model.failpoints import reached
from ingest.model.manifest import offsets_as_json
from ingest.model.names import checkpoint_path, lease_path
from ingest.model.start_facts import StartFacts
from ingest.model.topics import TableId
from ingest.source import mysql, resync
from ingest.source.binlog import MySqlLog
from ingest.source.connector import Connector
from ingest.source.definition_check import SecondLook
from ingest.source.delivery import await_delivery
from ingest.source.epoch_registry import EpochRegistry
from ingest.source.supervisor import Supervisor
from ingest.start import gather_facts
from ingest.start.fencing import fence_every_target
from ingest.start.preflight import refuse_unfit
from ingest.start.repair import mended
from ingest.start.start_decision import Start
from ingest.start.upgrade import Upgrade

_RESTARTS = 8
"""How often a run decides its start anew without publishing a batch in between, before it gives up."""
_LONGEST_PAUSE = 15.0
"""Seconds before such a decision; the first ones follow sooner, all of them within a minute and a
half, in which a broker has long restarted."""

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
    _stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    """The query in hand is to begin no further batch; unlike ``_stop``, another may follow it."""
    _in_hand: threading.Lock = field(default_factory=threading.Lock)
    _failure: list[Exception] = field(default_factory=list)
    _applied: int = 0

    def execute(
        self, *, once: bool = False, standby: bool = False, from_beginning: bool = False
    ) -> None:
        """Run until stopped (or, ``once``, until everything committed by now is applied)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        captured = refuse_unfit(self.pipeline)
        spark: SparkSession | None = None
        if standby or not is_local(self.pipeline.lake.path):
            # A standby has Spark warm before it is needed; a lake that is not on this machine's
            # disk is reached through Spark.
            spark = self._start_spark()
        lease = Lease(files_at(lease_path(self.pipeline.lake.path)), self.say)
        try:
            term = lease.acquire(standby=standby, stop=self._stop)
            if term is None:
                return
            self._hold(lease, term, captured, spark, once=once, from_beginning=from_beginning)
        finally:
            lease.release()
            active = SparkSession.getActiveSession() or spark
            if active is not None:
                with suppress(Py4JError, ConnectionRefusedError):  # it is gone already
                    active.stop()

    def _hold(
        self,
        lease: Lease,
        term: Term,
        captured: Sequence[TableId],
        spark: SparkSession | None,
        *,
        once: bool,
        from_beginning: bool,
    ) -> None:
        """Everything that needs the lease."""
        connector = Connector(self.pipeline)
        epochs = EpochRegistry(self.pipeline)
        broker.ensure_topic(self.pipeline, resync.signal_topic(self.pipeline))
        plan = epochs.follow(connector, self.say)
        self.say(f"connector {self.pipeline.name}: {_PLANNED[plan.action]}")
        supervisor = Supervisor(connector, self.say, newest_number(epochs.known()))
        with mysql.connected(self.pipeline.source) as cursor:
            target = mysql.reached(cursor)
            plain = self._read_in_driver(captured, mysql.keyed(cursor))
        with closing(Ahead(self.pipeline)) as ahead:
            if plain and not (from_beginning or self.only_replay):
                ahead.begin({self.pipeline.topic(table) for table in plain})
            # Where all tables are such, Spark has little to compute.
            short = once and bool(plain) and plain.issuperset(captured)
            spark = spark or self._start_spark(short=short)
            if once:
                await_delivery(connector, supervisor, target, stop=self._stop, say=self.say)
            committer = Committer(term.number, lease.refuse_lost)
            if term.fence:
                fence_every_target(spark, self.pipeline, committer)
            self._stream_until_done(
                spark, committer, supervisor, ahead, once=once, from_beginning=from_beginning
            )

    def _stream_until_done(
        self,
        spark: SparkSession,
        committer: Committer,
        supervisor: Supervisor,
        ahead: Ahead,
        *,
        once: bool,
        from_beginning: bool,
    ) -> None:
        """Decide anew and stream again whenever the query ends without being asked to."""
        tries = 0
        while True:
            self._applied = 0
            try:
                ended = self._stream(
                    spark, committer, supervisor, ahead, once=once, from_beginning=from_beginning
                )
            except (Py4JNetworkError, ConnectionRefusedError):
                raise spark_died(self.log) from None
            except Exception as failure:  # noqa: BLE001 (each start is decided from facts, whatever failed)
                if isinstance(failure, Py4JError) and spark_session.has_died(spark):
                    raise spark_died(self.log) from None  # in the middle of a call
                ended = again(failure, self.log)
            if ended is None or self._stop.is_set():
                return
            tries = 1 if self._applied else tries + 1
            from_beginning = False
            if tries > (1 if ended.lasting else _RESTARTS):
                raise ended.error
            self.say(f"{ended.reason}; deciding anew where to go on")
            self._stop.wait(min(2.0 ** (tries - 1), _LONGEST_PAUSE))

    def stop(self) -> None:
        """End the run after the batch in hand."""
        self._stop.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._stop.is_set():
            raise KeyboardInterrupt
        self._stop.set()

    def _start_spark(self, *, short: bool = False) -> SparkSession:
        self.say("starting Spark …")
        return spark_session.for_pipeline(self.pipeline, self.log, short=short)

    def _read_in_driver(
        self, captured: Sequence[TableId], keyed: Collection[TableId]
    ) -> frozenset[TableId]:
        return read_in_driver(
            self.pipeline.spark.merge_engine,
            captured,
            reachable=within_delta_rs_s_reach(self.pipeline.lake.path),
            state=self.pipeline.dedup.keeps_state,
            keyed=keyed,
            appended=self.pipeline.append_only,
        )

    def _stream(
        self,
        spark: SparkSession,
        committer: Committer,
        supervisor: Supervisor,
        ahead: Ahead,
        *,
        once: bool,
        from_beginning: bool,
    ) -> Again | None:
        """Decide, mend, stream; returns why it ended, unless it was to end."""
        checkpoint = Storage(spark, checkpoint_path(self.pipeline.lake.path))
        epochs = EpochRegistry(self.pipeline).known()
        log = KafkaLog(spark, self.pipeline, checkpoint, ahead)
        schemas = broker.SchemaTopic(self.pipeline, epochs)
        requests = resync.Requests(self.pipeline, self.say)
        batches = Batches(
            spark,
            self.pipeline,
            log=log,
            schemas=schemas,
            committer=committer,
            newest=Ledger(self.pipeline.lake.path).last(),
            report=self.report,
            requests=requests,
            binlog=MySqlLog(self.pipeline, epochs),
            epochs=epochs,
            second_look=SecondLook(self.pipeline),
        )
        try:
            start, facts = mended(
                spark,
                batches,
                lambda: self._look(spark, committer, batches, from_beginning=from_beginning),
                self.say,
                Upgrade(
                    spark,
                    self.pipeline,
                    committer,
                    schemas,
                    self.say,
                    lambda: resync.is_possible(self.pipeline),
                ),
            )
            self._take_again(start, facts, requests, batches)
            batches.ensure_tables()
            starting = self._checkpoint(checkpoint, batches, start, facts)
            batches.replay()
            if self.only_replay:
                return None
            query = self._start(spark, batches, starting, once=once)
            ended = self._watch(query, supervisor, batches, committer.refuse_lost)
            if ended is None and not self._stop.is_set():
                batches.ensure_tables()
                batches.clean_up(supervisor.streaming(now=True))
            return ended
        finally:
            batches.close()
            log.close()
            schemas.close()
            requests.close()

    def _look(
        self, spark: SparkSession, committer: Committer, batches: Batches, *, from_beginning: bool
    ) -> StartFacts:
        """The facts as they are now; what others did to the tables is decided upon from here."""
        committer.begin_anew()
        places = broker.partitions(self.pipeline)
        return gather_facts.gather(
            spark,
            self.pipeline,
            places,
            from_beginning=from_beginning,
            barred=batches.barred(),
        )

    def _take_again(
        self, start: Start, facts: StartFacts, requests: resync.Requests, batches: Batches
    ) -> None:
        """Ask the connector for what Kafka has lost, and for what a crash left unasked."""
        if set(facts.topic_of.values()) - {topic for topic, _ in facts.kafka}:
            # Its task makes a table's topic once, and would wait for a deleted one for ever.
            Connector(self.pipeline).restart()
        requests.ask(start.resync)
        batches.ask_again(facts.newest.gaps if facts.newest else ())

    def _checkpoint(
        self, checkpoint: Storage, batches: Batches, start: Start, facts: StartFacts
    ) -> str | None:
        """Make the checkpoint what was decided; returns where a new one starts."""
        if start.resume:
            assert facts.checkpoint.id
            batches.checkpoint_id = facts.checkpoint.id
            return None
        minted = uuid.uuid4().hex[:16]
        checkpoint.delete("")
        checkpoint.write(
            gather_facts.IDENTITY_FILE, f"{self.pipeline.name}\n{minted}\n{facts.shape}\n"
        )
        batches.checkpoint_id = minted
        if batches.newest is None:
            return None
        ends = batches.newest.ends
        # Spark wants every partition named; -2 is its word for the earliest offset.
        here = broker.partitions(self.pipeline)
        return offsets_as_json({place: ends.get(place, -2) for place in here})

    def _start(
        self, spark: SparkSession, batches: Batches, starting: str | None, *, once: bool
    ) -> StreamingQuery:
        def apply(batch: Any, batch_id: int) -> None:
            try:
                with self._in_hand:
                    if self._stop.is_set() or self._over.is_set():
                        raise _StoppingError
                    batches.apply(batch, batch_id)
                    self._applied += 1
                    batches.clean_up(None)
            except _StoppingError:
                raise
            except Exception as failure:
                # Spark would hand it on as the text of a Python traceback.
                self._failure.append(failure)
                raise

        self._failure.clear()
        self._over.clear()
        writer = (
            record_stream.records(spark, self.pipeline, starting)
            .writeStream.foreachBatch(apply)
            .queryName(f"ingest-{self.pipeline.name}")
            .option("checkpointLocation", checkpoint_path(self.pipeline.lake.path))
        )
        if once:
            return writer.trigger(availableNow=True).start()
        seconds = self.pipeline.spark.trigger_seconds
        return writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()

    def _watch(
        self,
        query: StreamingQuery,
        supervisor: Supervisor,
        batches: Batches,
        refuse_lost: Callable[[], None],
    ) -> Again | None:
        """Until the query ends; returns why, unless it was to end."""
        seen = -1
        try:
            while not query.awaitTermination(1):
                refuse_lost()
                supervisor.look()
                newest = batches.newest.batch_id if batches.newest else 0
                if _logged(query) > seen and newest:
                    seen = _logged(query)
                    batches.state_size = _state_size(query)
                    reached("batch_logged", newest)
                if not query.status["isTriggerActive"] and self._in_hand.acquire(blocking=False):
                    try:
                        batches.clean_up(supervisor.streaming())
                    except IngestError as failure:
                        if not failure.may_pass:  # a server is away: nothing depends on when
                            raise
                    finally:
                        self._in_hand.release()
                if self._stop.is_set():
                    self.say("stopping after the batch in hand …")
                    with self._in_hand:  # waits for the batch that is being applied
                        pass
                    query.stop()
                    break
        except StreamingQueryException as failure:
            if not self._failure and not self._stop.is_set():
                self._failure.append(failure)
        finally:
            if query.isActive:
                with self._in_hand:
                    self._over.set()
                query.stop()
        return again(self._failure[0], self.log) if self._failure else None


class _StoppingError(Exception):
    """A batch that would begin while the run ends: nothing of it is done, it comes again."""


_PLANNED = {
    "create": "created",
    "change": "changed to match the pipeline file",
    "nothing": "as the pipeline file says",
}


def _logged(query: StreamingQuery) -> int:
    last = query.lastProgress
    return int(last["batchId"]) if last else -1


def _state_size(query: StreamingQuery) -> tuple[int, int]:
    last = query.lastProgress
    operators = last["stateOperators"] if last else []
    rows = sum(int(one["numRowsTotal"]) for one in operators)
    return rows, sum(int(one["memoryUsedBytes"]) for one in operators)
