"""`ingest run`: check, apply the connector, start the one query, and end as asked.

``--once`` is exact: it notes where MySQL's log ends, waits until Connect has delivered all of that
to Kafka, fixes Kafka's end, and applies up to there.
"""

from __future__ import annotations

import re
import signal
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ingest import kafka, mysql, session, source, topics
from ingest.config import Pipeline
from ingest.connector import Connector, delivered, offset_gtids
from ingest.errors import Exit, IngestError
from ingest.gtid import GtidSet
from ingest.ledger import Ledger
from ingest.manifest import Entry
from ingest.names import checkpoint_path
from ingest.pipeline import Batches, BatchReport
from ingest.progress import CheckpointFacts, Create, Rebuild, Refuse, Resume, decide
from ingest.storage import Storage
from ingest.supervisor import Supervisor
from ingest.table import LakeTable

IDENTITY_FILE = "ingest.identity"
"""Inside the checkpoint: pipeline name and checkpoint id. Minted once, gone with the checkpoint."""

_WORKER_RESTART = 60.0
"""Seconds that `--once` waits for a Connect worker that does not answer."""

Say = Callable[[str], None]


@dataclass
class Run:
    """One run of a pipeline. ``say`` gets sentences, ``report`` each batch."""

    pipeline: Pipeline
    log: Path
    say: Say
    report: Callable[[BatchReport], None]
    _stop: threading.Event = field(default_factory=threading.Event)
    _in_hand: threading.Lock = field(default_factory=threading.Lock)
    _failure: list[Exception] = field(default_factory=list)

    def execute(self, *, once: bool) -> None:
        """Run until stopped (or, ``once``, until everything committed by now is applied)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        refuse_unfit(self.pipeline)
        connector = Connector(self.pipeline)
        plan = connector.apply()
        self.say(f"connector {self.pipeline.name}: {_PLANNED[plan.action]}")
        supervisor = Supervisor(connector, self.say)
        with mysql.connected(self.pipeline.source) as cursor:
            target = mysql.reached(cursor)
        self.say("starting Spark …")
        spark = session.for_pipeline(self.pipeline, self.log)
        try:
            if once:
                self._await_delivery(connector, supervisor, target)
            self._stream(spark, supervisor, once=once)
        finally:
            spark.stop()

    def stop(self) -> None:
        """End the run after the batch in hand."""
        self._stop.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._stop.is_set():
            raise KeyboardInterrupt
        self._stop.set()

    def _await_delivery(
        self, connector: Connector, supervisor: Supervisor, target: mysql.Reached
    ) -> None:
        """Return when Kafka holds every change up to ``target``."""
        said = 0.0
        answered = time.monotonic()
        while not self._stop.is_set():
            supervisor.look()
            try:
                offset = connector.offset()
            except IngestError:  # a worker that restarts is given a minute
                if time.monotonic() - answered > _WORKER_RESTART:
                    raise
                self._stop.wait(1)
                continue
            answered = time.monotonic()
            if delivered(offset, target):
                return
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self.say(_waiting_for(offset, target))
            self._stop.wait(0.2)

    def _stream(self, spark: SparkSession, supervisor: Supervisor, *, once: bool) -> None:
        lake = self.pipeline.lake.path
        checkpoint = Storage(spark, checkpoint_path(lake))
        newest = Ledger(lake).last()
        facts = _checkpoint_facts(checkpoint)
        decision = decide(self.pipeline.name, facts, newest, _multisets(spark, newest))
        if isinstance(decision, Refuse):
            raise IngestError(
                "E-START-REFUSED",
                f"Pipeline {self.pipeline.name!r} cannot start: {decision.reason}.",
                means="Going on could lose or repeat changes; nothing was touched.",
                remedy=f"{decision.remedy}.",
            )
        checkpoint_id = self._checkpoint_id(checkpoint, decision)
        starting = decision.starting_offsets if isinstance(decision, Rebuild) else None
        batches = Batches(spark, self.pipeline, checkpoint_id, checkpoint, newest, self.report)
        try:
            batches.ensure_tables()
            query = self._start(spark, batches, starting, once=once)
            self._watch(query, supervisor)
            if not self._stop.is_set():
                batches.ensure_tables()
        finally:
            batches.close()

    def _checkpoint_id(self, checkpoint: Storage, decision: object) -> str:
        if isinstance(decision, Resume):
            return decision.checkpoint_id
        if isinstance(decision, Rebuild):
            self.say("the checkpoint is gone; resuming from the manifest")
        assert isinstance(decision, Create | Rebuild)
        minted = uuid.uuid4().hex[:16]
        checkpoint.write(IDENTITY_FILE, f"{self.pipeline.name}\n{minted}\n")
        return minted

    def _start(
        self, spark: SparkSession, batches: Batches, starting: str | None, *, once: bool
    ) -> StreamingQuery:
        def apply(batch: Any, batch_id: int) -> None:
            try:
                with self._in_hand:
                    if self._stop.is_set():
                        raise _StoppingError
                    batches.apply(batch, batch_id)
            except _StoppingError:
                raise
            except Exception as failure:
                # Spark would hand it on as the text of a Python traceback.
                self._failure.append(failure)
                raise

        writer = (
            source.records(spark, self.pipeline, starting)
            .writeStream.foreachBatch(apply)
            .queryName(f"ingest-{self.pipeline.name}")
            .option("checkpointLocation", checkpoint_path(self.pipeline.lake.path))
        )
        if once:
            return writer.trigger(availableNow=True).start()
        seconds = self.pipeline.spark.trigger_seconds
        return writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()

    def _watch(self, query: StreamingQuery, supervisor: Supervisor) -> None:
        try:
            while not query.awaitTermination(1):
                supervisor.look()
                if self._stop.is_set():
                    self.say("stopping after the batch in hand …")
                    with self._in_hand:  # waits for the batch that is being applied
                        pass
                    query.stop()
                    break
        except StreamingQueryException as failure:
            if not self._failure and not self._stop.is_set():
                self._failure.append(failure)
        for cause in self._failure:
            if isinstance(cause, IngestError):
                raise cause
            raise _translated(cause, self.log) from None


class _StoppingError(Exception):
    """A batch that would begin while the run ends: nothing of it is done, it comes again."""


_PLANNED = {
    "create": "created",
    "change": "changed to match the pipeline file",
    "nothing": "as the pipeline file says",
}


def refuse_unfit(pipeline: Pipeline) -> list[topics.TableId]:
    """Everything that can be known before anything is started. Returns the captured tables."""
    facts = mysql.server_facts(pipeline.source)
    captured = mysql.refuse_unfit(pipeline.source, facts)
    mysql.refuse_unreadable(pipeline.source, captured)
    topics.refuse_collisions(pipeline.name, captured, pipeline.source.topic_names)
    kafka.refuse_away(pipeline)
    refuse_unwritable(pipeline.lake.path)
    return captured


def refuse_unwritable(lake: str) -> None:
    """Raise when a local lake folder cannot be written. Object stores tell at the first write."""
    if "://" in lake and not lake.startswith("file:"):
        return
    folder = Path(lake.removeprefix("file://").removeprefix("file:"))
    probe = folder / f".ingest-probe-{uuid.uuid4().hex[:8]}"
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
        if made:
            folder.rmdir()
    except OSError as failure:
        raise IngestError(
            "E-LAKE-UNWRITABLE",
            f"The lake path {lake} cannot be written: {failure.strerror}.",
            means="Nothing was started.",
            remedy="correct `lake.path` in the pipeline file, or the folder's permissions.",
        ) from None


def _waiting_for(offset: dict[str, Any] | None, target: mysql.Reached) -> str:
    if offset is None:
        return "waiting for the connector's first records …"
    if offset.get("snapshot"):
        return "waiting for the snapshot to reach Kafka …"
    missing = target.gtids.minus_count(offset_gtids(offset) or GtidSet())
    return f"waiting for {missing:,} transactions to reach Kafka …"


def _checkpoint_facts(checkpoint: Storage) -> CheckpointFacts:
    identity = (checkpoint.read(IDENTITY_FILE) or "").split()
    batches = [name for name in checkpoint.names("offsets") if name.isdigit()]
    if len(identity) != 2:
        return CheckpointFacts(None, None, len(batches))
    return CheckpointFacts(identity[1], identity[0], len(batches))


def _multisets(spark: SparkSession, newest: Entry | None) -> dict[str, int]:
    """Tables without a key and their newest versions: only they are not guarded by row."""
    found = {}
    for name, state in (newest.tables if newest else {}).items():
        description = LakeTable(spark, state.path).describe()
        if description is not None and description.is_multiset:
            found[name] = description.version
    return found


def _translated(failure: Exception, log: Path) -> IngestError:
    text = str(failure)
    if "OffsetOutOfRange" in text or "KAFKA_DATA_LOSS" in text or "data loss" in text.lower():
        return IngestError(
            "E-KAFKA-GAP",
            "Kafka no longer has changes that were not applied yet (retention or a re-created "
            "topic).",
            means="The lake is as it was at the last published batch; nothing was skipped.",
            remedy="take the tables again in a pipeline of another name and lake; raise "
            "`kafka.retention_hours`.",
            exit_code=Exit.FAILED,
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"(Exception|Error): |^\[[A-Z_]+\]", line)]
    return IngestError(
        "E-STREAM-FAILED",
        f"The streaming query failed: {(named or lines or ['no reason given'])[0][:300]}",
        means="The batch in hand was not published; its changes stay in Kafka and are applied "
        "by the next run.",
        remedy=f"run it again; if it fails again, read {log}.",
        exit_code=Exit.FAILED,
    )


def refuse_away_lake(pipeline: Pipeline) -> None:
    """Before an audit: every part answers, and there is a lake to compare."""
    mysql.refuse_unfit(pipeline.source, mysql.server_facts(pipeline.source))
    kafka.refuse_away(pipeline)
    if Ledger(pipeline.lake.path).last() is None:
        raise IngestError(
            "E-AUDIT-NO-LAKE",
            f"There is no batch in the lake {pipeline.lake.path} yet.",
            remedy="run the pipeline first: `ingest run FILE --once`.",
        )
