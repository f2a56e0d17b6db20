"""Who tells machines what a run does: events into a file, metrics on a page. The sentences for people are not its own.

Nothing of a run depends on it: what cannot be told is counted, and the run goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ingest import __version__
from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_record import FlowStatus
from ingest.maintenance.upkeep import Upkeep
from ingest.model.manifest import Entry
from ingest.model.topics import TableId
from ingest.observe import events
from ingest.observe.caught_up import Progress
from ingest.observe.event_log import EventLog, path_beside
from ingest.observe.events import Event
from ingest.observe.lag_watch import LagWatch, Outside
from ingest.observe.metrics import Facts
from ingest.observe.metrics_page import MetricsPage
from ingest.observe.published import Published
from ingest.observe.totals import Totals


@dataclass
class Observer:
    """Of one run. Without ``log`` and ``lag`` it sums up and tells nobody. Its methods are called from any thread."""

    pipeline: str = ""
    lake: str = ""
    patterns: tuple[str, ...] = ("*.*",)
    term: int = 0
    log: EventLog | None = None
    lag: LagWatch | None = None
    totals: Totals = field(default_factory=Totals)
    flows: Callable[[], Mapping[str, FlowStatus]] = field(default=dict)
    """How the flows are that run beside the mirrors."""
    _begun: float = field(default_factory=time.time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resumed(self, newest: Entry | None) -> None:
        """The manifest was read: its newest row is where the run goes on."""
        with self._lock:
            self.totals.newest = newest

    def published(self, what: Published) -> None:
        """A row of the manifest was written."""
        self._tell(lambda: self.totals.take(what), lambda: events.published(what))

    def upkeep(self, batch: int, done: Sequence[Upkeep]) -> None:
        """Something was done for tables before a batch."""

        def told() -> Iterator[Event]:
            for one in done:
                table = events.table_at(self.lake, one.path)
                yield events.upkeep(
                    batch, table, one.what, rows=one.rows, files=one.files, seconds=one.seconds
                )

        self._tell(lambda: self.totals.upkeep.update(one.what for one in done), told)

    def decided(
        self,
        *,
        finish: int | None,
        resume: bool,
        rewinds: bool,
        resync: Sequence[str],
        restored: Sequence[str],
    ) -> None:
        """A start was decided; ``restored``: paths of tables. The rest as ``events.decided`` has it."""

        def told() -> Iterator[Event]:
            names = [events.table_at(self.lake, path) for path in restored]
            yield events.decided(
                finish=finish, resume=resume, rewinds=rewinds, resync=resync, restored=names
            )

        self._tell(lambda: None, told)

    def restarted(self, reason: str) -> None:
        """The stream ended unasked, and begins anew."""
        newest = self.totals.newest
        self._tell(
            lambda: self.totals.restarts.update([reason]),
            lambda: [events.restarted(reason, newest.batch_id if newest else None)],
        )

    def left_out(self, table: TableId) -> None:
        """The connector leaves it out until the next run."""
        self._tell(lambda: None, lambda: [events.left_out(table)])

    def facts(self) -> Facts:
        """All that metrics are drawn from, as of now."""
        with self._lock:
            totals = self.totals.copy()
            totals.failures += self.log.failed if self.log else 0
            return Facts(
                pipeline=self.pipeline,
                totals=totals,
                progress=self.lag.progress if self.lag else Progress(),
                now=time.time(),
                started=self._begun,
                term=self.term,
                patterns=self.patterns,
                memory=resident(),
                looks=dict(self.lag.looks) if self.lag else {},
                flows=self.flows(),
            )

    def begin(self) -> None:
        """The run holds the lease."""
        self._tell(lambda: None, lambda: [events.started(self.pipeline, __version__, self.term)])

    def end(self, failure: BaseException | None) -> None:
        """The run is over."""
        batches, seconds = sum(self.totals.batches.values()), time.time() - self._begun
        self._tell(lambda: None, lambda: [events.ended(failure, batches, seconds)])

    def _tell(self, count: Callable[[], None], tell: Callable[[], Iterable[Event]]) -> None:
        with self._lock:
            try:
                count()
                if self.log:
                    self.log.write(tell())
            except Exception:  # noqa: BLE001 (a batch is published by now: nothing may fail it for want of a line)
                self.totals.failures += 1


def resident() -> dict[str, int]:
    """Resident bytes of the driver's Python, and of its JVM (all of its child processes)."""
    me = psutil.Process()
    java = 0
    for child in me.children(recursive=True):
        try:
            java += child.memory_info().rss
        except psutil.Error:  # it has just ended
            continue
    return {"python": me.memory_info().rss, "java": java}


@contextmanager
def observed(
    pipeline: Pipeline, log: Path, term: int, say: Callable[[str], None]
) -> Iterator[Observer]:
    """An observer of a run that holds the lease, as the pipeline file wants it. ``log``: Spark's own, beside which the
    events go. Where the port is taken or the file cannot be written, that is said and the run goes on without.
    """
    settings = pipeline.observe
    found = Observer(pipeline.name, pipeline.lake.path, pipeline.source.tables, term)
    with ExitStack() as open_:
        if settings.log != "off":
            path = path_beside(log, pipeline.name, settings.log)
            try:
                found.log = EventLog(path, settings.log)
            except OSError as failure:
                say(f"no events are written: {path.parent}: {failure.strerror}")
            else:
                open_.callback(found.log.close)
        if settings.metrics_port is not None:
            at = f"{settings.metrics_address}:{settings.metrics_port}"
            try:
                page = MetricsPage(found.facts, settings.metrics_port, settings.metrics_address)
            except OSError as failure:
                say(f"no metrics are served on {at}: {failure.strerror}")
            else:
                open_.callback(page.close)
                found.lag = LagWatch(
                    *(Outside.of(pipeline), pipeline.topic, pipeline.topic_prefix),
                    pipeline.source.tables,
                )
                found.lag.start()
                open_.callback(found.lag.stop)
                say(f"metrics on http://{at}/metrics")
        found.begin()
        try:
            yield found
        except BaseException as failure:
            found.end(failure)
            raise
        else:
            found.end(None)
