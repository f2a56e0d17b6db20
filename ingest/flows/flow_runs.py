"""Keeping a flow running: under its lease, from its checkpoint, again after whatever ends it. One flow's trouble is its own."""

from __future__ import annotations

import json
import threading
import time
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
from ingest.flows.flow_query import FlowQuery, RepeatedError
from ingest.flows.flow_record import FlowStatus
from ingest.lake.delta.commit import Committer, sibling
from ingest.lake.files.lease import Lease, LeaseLostError, Term
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.storage import files_at
from ingest.model.errors import IngestError

LONGEST_PAUSE = 60.0
"""Seconds before a flow that fails again and again is tried once more."""
_NOT_NOW = ("E-LEASE-HELD", "E-FLOW-INPUT")
"""Codes of what is no failure of a run that drains all flows: another process runs one; a table has not changed yet, so it has no log."""
_AT_ONCE = {
    "SCHEMA_CHANGED": "an input has a column more; going on with it",
    "ColumnsChangedError": "a table has other columns now; going on with them",
    "OlderThanItsEventsError": "its events are newer than a table that they are joined with; reading that again",
}
"""By what is in the text of a failure behind which a new start goes on: what to say of it."""
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
    gives_up: Callable[[BaseException], bool] = lambda _: False
    """Of a failure behind which this process can go on with nothing."""
    _generation: int = 0
    _unfenced: bool = False
    _fenced: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.folder = FlowFolder(self.pipeline, self.name)
        self._session = sibling(self.spark)

    def until_stopped(self) -> None:
        """Run it, and again whenever it ends unasked. Waits while another process does. Raises nothing but what ``gives_up`` says."""
        while not self.stop.is_set():
            try:
                with self._held(standby=True) as term:
                    self._again_and_again(term)
            except LeaseLostError as lost:
                self.say(f"flow {self.name}: {lost.what}")
            except Exception as failure:
                if self.gives_up(failure):
                    raise
                if not self.stop.is_set():
                    self._failed(failure, at_once="", pause=LONGEST_PAUSE)
                    self.stop.wait(LONGEST_PAUSE)

    def _again_and_again(self, term: Term | None) -> None:
        """Under one term, so that a fence that could not be set is set by the next try."""
        pause = PAUSE
        while term is not None and not self.stop.is_set():
            before = self.status.batch
            try:
                self._stream(term)
            except LeaseLostError:
                raise
            except Exception as failure:
                if self.gives_up(failure):
                    raise
                if self.stop.is_set():
                    break
                at_once = _at_once(failure)
                went_on = self.status.batch > before
                pause = PAUSE if went_on or at_once else min(pause * 2, LONGEST_PAUSE)
                self._failed(failure, at_once=at_once, pause=pause)
                self.stop.wait(0.1 if at_once else pause)
        if term is not None:
            self._note(state="ended")

    def once(self) -> None:
        """Up to where the inputs end now. Raises :class:`IngestError` where that cannot be."""
        tries = 0
        with self._held(standby=False) as term:
            while term is not None and not self.stop.is_set():
                before = self.status.batch
                try:
                    while self._stream(term, once=True):
                        pass
                    break
                except Exception as failure:
                    tries = 1 if self.status.batch > before else tries + 1
                    known = isinstance(failure, IngestError)
                    lasting = isinstance(failure, IngestError) and not failure.may_pass
                    if lasting or tries >= _TRIES:
                        self._note(state="failed", error=in_a_sentence(failure))
                        raise failure if known else failed(self.name, failure) from failure
                self.stop.wait(PAUSE)
            if term is not None:
                self._note(state="ended")

    @contextmanager
    def _held(self, *, standby: bool) -> Iterator[Term | None]:
        """Under the flow's lease. None where it is to stop before it is had."""
        self.status = replace(self.status, state="waits")
        lease = Lease(
            files_at(self.folder.lease),
            lambda said: self.say(f"flow {self.name}: {said}"),
            self.gives_up,
        )
        term = lease.acquire(standby=standby, stop=self.stop)
        self._refuse_lost, self._unfenced = lease.refuse_lost, term is not None and term.fence
        self._fenced = lease.fenced
        try:
            yield term
        finally:
            lease.release()

    def _stream(self, term: Term, *, once: bool = False) -> bool:
        """Until it is to stop, or ends. Returns whether it is to go on at once. Raises why it ended unasked."""
        committer = Committer(term.number, self._refuse_lost)
        settings = self.pipeline.flows[self.name]
        flow = FlowQuery(self._session, self.folder, settings, committer, self.say)
        flow.stopping = self.stop.is_set
        if self._unfenced:
            flow.fence()
            self._fenced()
            self._unfenced = False
        # Spark shares its tasks out by pools; a thread's queries are in that which it names (spark.scheduler.mode).
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"flow-{self.name}")
        query = flow.start(once=once)
        begins, self._generation = flow.generation != self._generation, flow.generation
        self._note(state="runs", error="", **({"batch": -1} if begins else {}))
        try:
            return self._watch(query, flow)
        finally:
            self._note(refused=self.status.refused + flow.refused)
            with suppress(Py4JError, OSError):
                query.stop()

    def _watch(self, query: StreamingQuery, flow: FlowQuery) -> bool:
        try:
            while not query.awaitTermination(1):
                self._progress(query, flow)
                if self.stop.is_set():
                    while flow.busy and query.isActive:  # no other begins any more
                        time.sleep(0.05)
                    self._progress(query, flow)
                    query.stop()
                    return False
            self._progress(query, flow)
        except StreamingQueryException as failure:
            if isinstance(flow.failure, RepeatedError):
                return not self.stop.is_set()
            if not self.stop.is_set():
                raise flow.failure or failure from None
        return False

    def _progress(self, query: StreamingQuery, flow: FlowQuery) -> None:
        """What Spark tells of its newest batches, once each."""
        for one in query.recentProgress:
            said: dict[str, Any] = json.loads(one.json)
            if said["batchId"] > self.status.batch:
                refused, flow.refused = self.status.refused + flow.refused, 0
                now = {**_of_progress(said, self.status), "refused": refused}
                if flow.totals:
                    now["rows"], flow.totals.rows = self.status.rows + flow.totals.rows, 0
                self._note(**now)

    def _note(self, **now: Any) -> None:
        self.status = replace(self.status, **now)
        with suppress(OSError, Py4JError, LakeAwayError, LakeDeniedError):  # nothing depends on it
            self.folder.say(self.status)

    def _failed(self, failure: Exception, *, at_once: str, pause: float) -> None:
        said = in_a_sentence(failure)
        self._note(
            state="runs" if at_once else "failed",
            error="" if at_once else said,
            restarts=self.status.restarts + 1,
        )
        if at_once:
            self.say(f"flow {self.name}: {at_once}")
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


def _at_once(failure: Exception) -> str:
    text = f"{type(failure).__name__}: {failure}"
    return next((said for sign, said in _AT_ONCE.items() if sign in text), "")


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
            if failure.code in _NOT_NOW:
                say(f"flow {name}: {failure.what}")
            else:
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
