"""Keeping a flow running: under its lease, from its checkpoint, again after whatever ends it. One flow's trouble is its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.flows.flow_record import FlowStatus
from ingest.lake.delta.commit import Committer, sibling
from ingest.lake.files.lease import Lease, Term
from ingest.lake.files.storage import files_at
from ingest.model.errors import IngestError

LONGEST_PAUSE = 60.0
"""Seconds before a flow that fails again and again is tried once more."""
_AT_ONCE = ("SCHEMA_CHANGED", "DELTA_SCHEMA_CHANGED")
"""In the text of a failure behind which a new start goes on: an input has a column more."""
PAUSE = 1.0
"""Seconds before it is tried for the first time."""
_TRIES = 3
"""Of a flow that is to end once its inputs are read: so often in a row without a batch."""

Say = Callable[[str], None]


@dataclass
class FlowRun:
    """Of one flow. ``stop``: set when it is to end after the batch in hand. ``name``: as in the pipeline file."""

    spark: SparkSession
    pipeline: Pipeline
    name: str
    say: Say
    stop: threading.Event
    status: FlowStatus = field(default_factory=FlowStatus)

    def __post_init__(self) -> None:
        self.folder = FlowFolder(self.pipeline, self.name)
        self._session = sibling(self.spark)

    def until_stopped(self) -> None:
        """Run it, and again whenever it ends unasked. Waits while another process does. Raises nothing."""
        pause = PAUSE
        while not self.stop.is_set():
            try:
                with self._held(standby=True) as term:
                    if term is not None:
                        self._stream(term)
            except Exception as failure:  # noqa: BLE001 (whatever it is, the mirrors go on)
                if self.stop.is_set():
                    break
                went_on = self.status.state == "runs" and self.status.batch >= 0
                at_once = any(word in str(failure) for word in _AT_ONCE)
                pause = PAUSE if went_on or at_once else min(pause * 2, LONGEST_PAUSE)
                self._failed(failure, quietly=at_once, pause=pause)
                self.stop.wait(0.1 if at_once else pause)
        self._note(state="ended")

    def once(self) -> None:
        """Up to where the inputs end now. Raises :class:`IngestError` where that cannot be."""
        tries, done = 0, -2
        with self._held(standby=False) as term:
            while term is not None:
                try:
                    self._stream(term, once=True)
                    break
                except IngestError as failure:
                    if not failure.may_pass:
                        raise
                    tries = self._count(tries, done)
                    if tries >= _TRIES:
                        raise
                except Exception as failure:
                    tries = self._count(tries, done)
                    if tries >= _TRIES:
                        raise failed(self.name, failure) from failure
                done = self.status.batch
                if self.stop.wait(PAUSE):
                    break
        self._note(state="ended")

    def _count(self, tries: int, done: int) -> int:
        return 1 if self.status.batch > done and tries else tries + 1

    @contextmanager
    def _held(self, *, standby: bool) -> Iterator[Term | None]:
        """Under the flow's lease. None where it is to stop before it is had."""
        self._note(state="waits")
        lease = Lease(
            files_at(self.folder.lease), lambda said: self.say(f"flow {self.name}: {said}")
        )
        term = lease.acquire(standby=standby, stop=self.stop)
        self._refuse_lost = lease.refuse_lost
        try:
            yield term
        finally:
            lease.release()

    def _stream(self, term: Term, *, once: bool = False) -> None:
        """Until it is to stop, or ends. Raises why it ended unasked."""
        committer = Committer(term.number, self._refuse_lost)
        flow = FlowQuery(
            self._session, self.folder, self.pipeline.flows[self.name], committer, self.say
        )
        # Spark shares its tasks out by pools; a thread's queries are in that which it names (spark.scheduler.mode).
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"flow-{self.name}")
        query = flow.start(once=once, fence=term.fence)
        self._note(state="runs", batch=self.status.batch, error="")
        try:
            self._watch(query, flow)
        finally:
            with suppress(Py4JError, OSError):
                query.stop()

    def _watch(self, query: StreamingQuery, flow: FlowQuery) -> None:
        try:
            while not query.awaitTermination(1):
                self._progress(query)
                if self.stop.is_set():
                    query.stop()
                    return
            self._progress(query)
        except StreamingQueryException as failure:
            raise flow.failure or failure from None

    def _progress(self, query: StreamingQuery) -> None:
        """What Spark tells of its newest batches, once each."""
        for one in query.recentProgress:
            said: dict[str, Any] = json.loads(one.json)
            if said["batchId"] > self.status.batch:
                self._note(**_of_progress(said, self.status))

    def _note(self, **now: Any) -> None:
        self.status = replace(self.status, **now)
        with suppress(OSError, Py4JError):  # nothing depends on it
            self.folder.say(self.status)

    def _failed(self, failure: Exception, *, quietly: bool, pause: float) -> None:
        said = in_a_sentence(failure)
        self._note(
            state="runs" if quietly else "failed",
            error="" if quietly else said,
            restarts=self.status.restarts + 1,
        )
        if quietly:
            self.say(f"flow {self.name}: an input has a column more; going on with it")
        else:
            self.say(f"flow {self.name} failed, and is tried again in {pause:.0f} s: {said}")


def _of_progress(said: dict[str, Any], before: FlowStatus) -> dict[str, Any]:
    operators = tuple(
        {
            "operator": one["operatorName"],
            "rows": int(one["numRowsTotal"]),
            "bytes": int(one["memoryUsedBytes"]),
        }
        for one in said["stateOperators"]
    )
    late = sum(int(one["numRowsDroppedByWatermark"]) for one in said["stateOperators"])
    return {
        "batch": int(said["batchId"]),
        "rows": before.rows + int(said["numInputRows"]),
        "late": before.late + late,
        "watermark": _known(said.get("eventTime", {}).get("watermark", "")),
        "seconds": said["durationMs"].get("triggerExecution", 0) / 1000,
        "operators": operators,
    }


def _known(watermark: str) -> str:
    """Spark begins with that of 1970."""
    return "" if watermark.startswith("1970-01-01T00:00:00") else watermark


def in_a_sentence(failure: BaseException) -> str:
    """Short enough for a screen."""
    if isinstance(failure, IngestError):
        return failure.what
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    said = (named or lines or [type(failure).__name__])[-1 if named else 0]
    return f"{type(failure).__name__}: {said}"[:300]


def failed(name: str, failure: Exception) -> IngestError:
    """A flow that has ended by itself."""
    return IngestError(
        "E-FLOW-FAILED",
        f"The flow {name!r} failed: {in_a_sentence(failure)}",
        means="What it has written stays, and the batch in hand comes again with the next run.",
        remedy="mend what is named there, and run it again; it goes on from its checkpoint.",
    )


def each_once(
    spark: SparkSession,
    pipeline: Pipeline,
    flows: Sequence[str],
    say: Say,
    stop: threading.Event,
) -> None:
    """Up to where their inputs end now, one after the other, whatever becomes of the ones before. Raises :class:`IngestError` at last,
    where one failed.
    """
    failures = dict[str, IngestError]()
    for name in flows:
        if stop.is_set():
            break
        try:
            FlowRun(spark, pipeline, name, say, stop).once()
        except IngestError as failure:
            failures[name] = failure
    if len(failures) == 1:
        raise next(iter(failures.values()))
    if failures:
        raise IngestError(
            "E-FLOW-FAILED",
            "Flows failed",
            each=tuple(f"{name}: {failure.what}" for name, failure in failures.items()),
            means="The mirrors, and all other flows, are up to date.",
            remedy="mend what is named there, and run again; each goes on from its checkpoint.",
        )


@contextmanager
def beside(spark: SparkSession, pipeline: Pipeline, say: Say) -> Iterator[list[FlowRun]]:
    """All flows of a pipeline, each in a thread of its own, as long as this lasts."""
    stop = threading.Event()
    runs = [FlowRun(spark, pipeline, name, say, stop) for name in pipeline.flows]
    threads = [
        threading.Thread(target=one.until_stopped, name=f"flow-{one.name}", daemon=True)
        for one in runs
    ]
    for thread in threads:
        thread.start()
    try:
        yield runs
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
