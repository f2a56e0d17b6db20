"""One streaming query of a run: where it begins, what it does, why it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ingest.batch.batch_report import BatchReport
from ingest.batch.batch_size import Pace
from ingest.batch.micro_batch import Batches
from ingest.batch.side_by_side import Failures
from ingest.config.pipeline_file import Pipeline
from ingest.job import executors, standing_tables, stream_failure
from ingest.job.registering import Registering
from ingest.job.rehearsal import Rehearsal, newest_records
from ingest.job.spark_session import has_died, is_stopped
from ingest.job.stream_failure import Again, again, is_everybodys, may_pass, tried_again
from ingest.job.stream_guard import StreamGuard
from ingest.job.wall_clock import ClockSetBackError, WallClock
from ingest.kafka import broker, record_stream
from ingest.kafka.batch_ranges import KafkaLog
from ingest.kafka.ports import Schemas
from ingest.kafka.prefetch import Ahead
from ingest.kafka.topic_identity import TopicIdentity, TopicMadeAgainError
from ingest.lake.delta.commit import Committer
from ingest.lake.engines.engine_choice import collects
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.epochs import Epoch
from ingest.model.errors import IngestError
from ingest.model.failpoints import reached
from ingest.model.names import checkpoint_path
from ingest.model.offset_ranges import offsets_as_json
from ingest.model.quarantine_drop import Drop
from ingest.model.start_facts import StartFacts
from ingest.observe.observer import Observer
from ingest.source import resync, schema_history
from ingest.source.binlog import MySqlLog
from ingest.source.connector import Connector
from ingest.source.definition_check import SecondLook
from ingest.source.epoch_registry import EpochRegistry
from ingest.source.later_tables import LaterTables
from ingest.source.left_out import LeftOut
from ingest.source.supervisor import Supervisor
from ingest.start import gather_facts, new_checkpoint
from ingest.start.repair import mended
from ingest.start.start_decision import Start
from ingest.start.upgrade import Upgrade

HOLDS = 15
"""Seconds in which a stream has not ended that meets a lake which is away at once: it does as soon as there is anything to do."""
SETTLE_EVERY = 5.0
"""Seconds after which what is due between batches is done behind one, where none of them has had a pause."""


@dataclass
class Streaming:
    """What the queries of one run have in common. ``say`` gets sentences, ``report`` each batch; ``stop`` is set when the
    run is to end; ``once``: up to where Kafka ends; ``only_replay``: take in what waits in quarantine, and nothing else;
    ``drop``: what of it is given up before.
    """

    pipeline: Pipeline
    spark: SparkSession
    committer: Committer
    supervisor: Supervisor
    ahead: Ahead
    log: Path
    say: Callable[[str], None]
    report: Callable[[BatchReport], None]
    stop: threading.Event
    once: bool = False
    only_replay: bool = False
    drop: Drop | None = None
    observer: Observer = field(default_factory=Observer)
    applied: int = 0
    """Batches of the newest query."""
    away: str = ""
    """The code of the failure by which the lake was not reached; empty once a query holds again."""
    _epochs: list[Epoch] = field(default_factory=list)
    _failures: Failures = field(init=False)
    _settled: float = -SETTLE_EVERY
    _denied: str = ""
    """By MySQL, as it was said last; empty where it lets us in."""
    _rehearsal: Rehearsal | None = None
    registering: Registering = field(init=False)

    def __post_init__(self) -> None:
        self.registering = Registering(self.spark, self.pipeline, self.say)
        self._topics = TopicIdentity(partial(broker.topic_ids, self.pipeline))
        of_all = partial(is_everybodys, lake=self.pipeline.lake.path)
        self._pace = Pace.of_kept() if self.pipeline.spark.on_cluster else Pace()
        self._failures = Failures(of_all, goes_on=not (self.once or self.only_replay))

    def stream(self, *, from_beginning: bool) -> Again | None:
        """Decide, mend, stream; returns why it ended, unless it was to end."""
        self.applied = 0
        if self.pipeline.spark.on_cluster:
            executors.await_one(self.spark, stopping=self.stop.is_set)
        checkpoint = HadoopFiles(self.spark, checkpoint_path(self.pipeline.lake.path))
        # One list, which all that reads records has: each look puts right in it what Kafka has lost (``_look``).
        self._epochs = epochs = EpochRegistry(self.pipeline).known()
        log = KafkaLog(self.spark, self.pipeline, checkpoint, self.ahead)
        schemas = broker.SchemaTopic(self.pipeline, epochs)
        keep = partial(schema_history.keep, Connector(self.pipeline))
        requests = resync.Requests(self.pipeline, self.say, keep)
        batches = Batches(
            self.spark,
            self.pipeline,
            log=log,
            schemas=schemas,
            committer=self.committer,
            newest=Ledger(self.pipeline.lake.path).last(),
            report=self.report,
            requests=requests,
            binlog=MySqlLog(self.pipeline, epochs),
            epochs=epochs,
            second_look=SecondLook(self.pipeline),
            later=LaterTables(self.pipeline, self.supervisor.none_joins)
            if resync.is_possible(self.pipeline)
            else None,
            failures=self._failures,
            pace=self._pace,
            published=self.observer.published,
        )
        self.observer.resumed(batches.newest)
        if self._rehearsal is None or not self._rehearsal.has_begun:
            self._rehearsal = self._to_rehearse(log, epochs)
        try:
            start, facts = mended(
                self.spark,
                batches,
                lambda: self._look(batches, from_beginning=from_beginning),
                self.say,
                self.committer.refuse_lost,
                self._upgrade(schemas),
                self._decided,
            )
            self._take_again(facts, batches, requests)
            batches.ensure_tables()
            starting = self._checkpoint(checkpoint, batches, start, facts)
            batches.filling.look()
            if self.drop:
                self.say(f"{batches.drop(self.drop):,} changes of {self.drop.table} dropped")
            batches.replay()
            if self.only_replay:
                return None
            guard = StreamGuard(self.stop.is_set)
            ended = self.watch(self._start(batches, guard, starting), guard, batches)
            if ended is None and not self.stop.is_set():
                batches.ensure_tables()
                batches.clean_up(self.supervisor.streaming(now=True))
                self.registering.finish(batches.newest, self.stop)
                batches.upkeep.all_due(self.stop.is_set)
                left_out = LeftOut(self.pipeline).tables()
                patterns = self.pipeline.source.tables
                standing_tables.refuse(batches.newest, left_out, patterns, once=self.once)
                for one in requests.open():
                    self.say(
                        f"{one.table} is still being taken again; the next run goes on with it"
                    )
            return ended
        finally:
            closes = [batches.close, log.close, schemas.close, requests.close]
            if self._rehearsal:
                closes.insert(0, self._rehearsal.close)
            for close in closes:
                with suppress(Exception):  # how a client leaves hides nothing that ended the query
                    close()

    def _to_rehearse(self, log: KafkaLog, epochs: Sequence[Epoch]) -> Rehearsal | None:
        """Where Spark reads what is odd alone, and a run goes on; None else."""
        spark, lake = self.pipeline.spark, self.pipeline.lake.path
        short = self.once or self.only_replay
        if short or self.pipeline.dedup.keeps_state or not collects(spark.merge_engine, lake):
            return None
        records = partial(record_stream.range_, self.pipeline)
        return Rehearsal(self.spark, self.pipeline, log, records, epochs, self.committer)

    def _rehearse(self, batches: Batches, *, idle: bool) -> None:
        mine = self._rehearsal
        if mine is None or not mine.is_due(idle=idle):
            return
        newest = batches.newest
        if newest is not None and (ranges := newest_records(newest)):
            note = replace(batches.note(), ranges=ranges)
            # What is wrong here the next batch says, or it has passed by then.
            with suppress(IngestError):
                mine.begin(batches.definitions.in_force(note, newest))

    def _upgrade(self, schemas: Schemas) -> Upgrade:
        possible = partial(resync.is_possible, self.pipeline)
        return Upgrade(self.spark, self.pipeline, self.committer, schemas, self.say, possible)

    def _decided(self, start: Start) -> None:
        self.observer.decided(
            finish=start.finish.batch_id if start.finish else None,
            resume=start.resume,
            rewinds=start.entry is not None,
            resync=start.resync,
            restored=[path for path, _ in start.restore],
        )

    def _look(self, batches: Batches, *, from_beginning: bool) -> StartFacts:
        """The facts as they are now; what others did to the tables is decided upon from here. A job that has lost the
        lease decides nothing any more, whatever it failed by.
        """
        self.committer.refuse_lost()
        places = broker.partitions(self.pipeline)
        # By the very facts that are decided from, before anything is: see there.
        self._epochs[:] = EpochRegistry(self.pipeline).over_losses(batches.newest, places)
        facts = gather_facts.gather(
            self.spark,
            self.pipeline,
            places,
            from_beginning=from_beginning,
            barred=batches.barred(),
            catalog=batches.definitions.streamed(),
            failed=self._failures.tables,
        )
        self.committer.begin_anew(facts.versions, facts.versions)
        return facts

    def _take_again(self, facts: StartFacts, batches: Batches, requests: resync.Requests) -> None:
        """Ask the connector for what Kafka has lost, and for what a crash left unasked: both are open gaps by now. What was
        asked for of a table whose topic is deleted may have come and gone with it: that is asked for anew.
        """
        if gone := facts.deleted:
            # Its task makes a table's topic once, and would wait for a deleted one for ever.
            Connector(self.pipeline).restart()
        void = [one for one in requests.open() if one.table in gone] if gone else []
        for one in void:
            requests.done(one)
        batches.ask_again({one.table for one in void})

    def _checkpoint(
        self, checkpoint: HadoopFiles, batches: Batches, start: Start, facts: StartFacts
    ) -> str | None:
        """Make the checkpoint what was decided; returns where a new one starts."""
        if start.resume:
            assert facts.checkpoint.id
            batches.checkpoint_id = facts.checkpoint.id
            return None
        batches.checkpoint_id = new_checkpoint.begin(
            checkpoint, self.pipeline.name, facts.shape, self.committer.refuse_lost
        )
        if batches.newest is None:
            return None
        ends = batches.newest.ends
        # Spark wants every partition named; -2 is its word for the earliest offset.
        here = broker.partitions(self.pipeline)
        return offsets_as_json({place: ends.get(place, -2) for place in here})

    def _start(self, batches: Batches, guard: StreamGuard, starting: str | None) -> StreamingQuery:
        def between_parts() -> None:
            self.applied += 1
            self.behind_a_batch(batches)
            guard.go_on()

        def apply(batch: Any, batch_id: int) -> None:
            with guard.batch():
                batches.apply(batch, batch_id, between_parts)
                self.applied += 1
                self.behind_a_batch(batches)

        writer = (
            record_stream.records(self.spark, self.pipeline, starting)
            .writeStream.foreachBatch(apply)
            .queryName(f"ingest-{self.pipeline.name}")
            .option("checkpointLocation", checkpoint_path(self.pipeline.lake.path))
        )
        if self.once:
            return writer.trigger(availableNow=True).start()
        seconds = self.pipeline.spark.trigger_seconds
        return writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()

    def watch(self, query: StreamingQuery, guard: StreamGuard, batches: Batches) -> Again | None:
        """Until the query ends; returns why, unless it was to end."""
        seen, clock, held = -1, WallClock(), 0
        try:
            while not query.awaitTermination(1):
                if executors.lost():
                    break
                self.committer.refuse_lost()
                clock.refuse_set_back()
                self.supervisor.look()
                held += 1
                if self.away and (self.applied or held >= HOLDS):
                    self.away = ""
                    self.say("the lake is reached again")
                newest = batches.newest.batch_id if batches.newest else 0
                if _logged(query) > seen and newest:
                    seen = _logged(query)
                    batches.state_size = _state_size(query)
                    reached("batch_logged", newest)
                if not query.status["isTriggerActive"]:
                    self._between(guard, batches)
                if self._failures.try_again() and not self.stop.is_set():
                    guard.close()
                    return tried_again()
                if self.stop.is_set():
                    self.say("stopping after the batch in hand …")
                    guard.close()
                    query.stop()
                    break
        except (StreamingQueryException, ClockSetBackError, TopicMadeAgainError) as failure:
            if not self.stop.is_set():
                guard.failure = guard.failure or failure
        finally:
            guard.close()  # also where Spark is gone: its last batch may still be writing, without it
            _end(query)
        guard.failure = (gone := executors.lost()) or guard.failure
        if guard.failure is None:
            if not self.stop.is_set() and is_stopped():  # a query ends without a failure then
                raise RuntimeError("Spark has ended below the query")
            return None
        if gone or stream_failure.lost_executor(guard.failure):
            self._pace.lost()
        return again(guard.failure, self.log, self.pipeline.lake.path)

    def _between(self, guard: StreamGuard, batches: Batches) -> None:
        with guard.between() as mine:
            if mine:
                self._settle(batches)
                self._rehearse(batches, idle=True)

    def behind_a_batch(self, batches: Batches) -> None:
        """What has become due by the batch; and what else has, where batches follow one another so closely that there is no
        moment between them: a table that joins would wait for the traffic to cease.
        """
        if time.monotonic() - self._settled >= SETTLE_EVERY:
            self._settle(batches)
            self._rehearse(batches, idle=False)
        else:
            batches.clean_up(None)

    def _settle(self, batches: Batches) -> None:
        self._settled = time.monotonic()
        self.registering.look(batches.newest)
        denied, self._denied = self._denied, ""
        try:
            batches.clean_up(self.supervisor.streaming())
            self._topics.refuse_made_again(batches.newest)
        except IngestError as failure:
            if not may_pass(failure):  # a server is away: nothing depends on when
                raise
            self._denied = "" if failure.may_pass else failure.what
            if self._denied and not denied:
                self.say(f"{self._denied} It is asked again every few seconds; changes go on")


def _end(query: StreamingQuery) -> None:
    """Stop a query that has not ended. With Spark's process it has, and what is raised then is not to hide why."""
    try:
        if query.isActive:
            query.stop()
    except (Py4JError, OSError) as failure:
        if not has_died(failure):
            raise


def _logged(query: StreamingQuery) -> int:
    last = query.lastProgress
    return int(last["batchId"]) if last else -1


def _state_size(query: StreamingQuery) -> tuple[int, int]:
    last = query.lastProgress
    operators = last["stateOperators"] if last else []
    rows = sum(int(one["numRowsTotal"]) for one in operators)
    return rows, sum(int(one["memoryUsedBytes"]) for one in operators)
