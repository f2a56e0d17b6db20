"""A cluster's executors: whether any is there, whether they can run our tasks, and what becomes of a job that has none.

A job of Spark's waits for executors for ever, and says so in its log alone. So a thread looks while a session lives, and where there is work
and nobody for :data:`WAIT`, it has every job cancelled until somebody comes: whoever waits for one then fails, and is told why by :func:`lost`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.batch import in_task, own_version
from ingest.changes.arrow_frames import mapped
from ingest.job import shipped_packages
from ingest.model.errors import Exit, IngestError

WAIT = 120.0
"""Seconds in which a cluster has to give an executor; a machine that unpacks packages for the first time takes some ten."""

_EVERY = 5.0
"""Seconds between two looks."""
_KEEP_EVERY = 3600.0
"""Seconds after which what the job brings is said to be in use once more; what is not for a month goes."""


def there(session: SparkSession) -> int:
    """How many. Of a session that has just begun the driver itself may not be told of yet."""
    context: Any = session.sparkContext._jsc
    return max(0, len(context.sc().statusTracker().getExecutorInfos()) - 1)


def await_one(
    session: SparkSession,
    *,
    wait: float = WAIT,
    stopping: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return when there is one, when nobody waits any more, or at once where Spark asks for them only as there is work. Raises
    :class:`IngestError` where none comes.
    """
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    until = time.monotonic() + wait
    while not there(session) and not stopping():
        if time.monotonic() > until:
            raise _none_there(session)
        sleep(0.2)


def refuse_unfit(session: SparkSession) -> None:
    """Have them import what our tasks do, and say what it is. Raises :class:`IngestError` where one cannot, as otherwise each batch would go the long
    way, by Spark's columns, without a word; or where it is not what runs here. As many tasks as there are executors go to one each where all have
    a core free; one that comes later is not asked.
    """
    some = max(1, there(session))
    try:
        found = mapped(session.range(0, some, 1, some), in_task.probe, "version string").toArrow()
    except (PySparkException, Py4JJavaError) as failure:
        if error := lost():
            raise error from failure  # nobody was there to say it
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("at ", "... "))]  # Java's stack
        named = [line for line in lines if "Error" in line or "MISMATCH" in line]
        raise IngestError(
            "E-SPARK-PYTHON",
            f"The cluster's machines cannot run our tasks: {(named or lines or ['no reason given'])[-1][:300]}",
            means="Nothing was changed in the lake.",
            remedy=f"they need Python {sys.version_info.major}.{sys.version_info.minor} (`spark.python` names it) of this platform, and, with "
            "`packages: installed`, what ingest needs.",
            exit_code=Exit.FAILED,
        ) from failure
    ours = own_version.held()
    for theirs in found.column(0).to_pylist():
        if differs := own_version.unlike(theirs, ours):
            raise IngestError(
                "E-SPARK-PYTHON",
                f"The cluster's machines run other code than this one: {differs}.",
                means="Nothing was changed in the lake: tasks would read changes by other rules than what is decided here.",
                remedy="install the same versions on all of them and here, or leave out `packages: installed`, so that the job brings its own.",
                exit_code=Exit.FAILED,
            )


def _none_there(session: SparkSession) -> IngestError:
    conf = session.sparkContext.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    return IngestError(
        "E-SPARK-EXECUTORS",
        f"The cluster {session.sparkContext.master} has given no executor for {WAIT:.0f} seconds.",
        means="What was published stands; it is tried again from there.",
        remedy="see on the master's page that a worker is alive and has a core and `spark.executor.memory` (1g unless `spark.conf` "
        f"says otherwise) free, and in the executors' logs that they reach the driver at {driver}, and that the secret is the same everywhere.",
        may_pass=True,
    )


@dataclass
class Patience:
    """How long nobody has been there although there was work."""

    over: bool = False
    _since: float | None = None

    def look(self, executors: int, *, working: bool, now: float) -> bool:
        """Whether it is over: until somebody comes. Without work nobody has to be there, as where Spark asks for executors by need."""
        if executors:
            self.over, self._since = False, None
        elif not self.over and working:
            self._since = now if self._since is None else self._since
            self.over = now - self._since > WAIT
        elif not working:
            self._since = None
        return self.over


@dataclass
class Watchdog:
    """Of one session."""

    session: SparkSession
    archives: Sequence[Path] = ()
    """What the job brings to machines that come (``shipped_packages``)."""
    lost: IngestError | None = None
    _kept: float = float("-inf")
    _patience: Patience = field(default_factory=Patience)
    _closing: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """In a thread that keeps nobody."""
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """No more looks."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(1.0 if self.lost else _EVERY):
            self._keep_archives(time.monotonic())
            try:
                self._look()
            except Py4JJavaError:
                continue  # a full heap, say, which passes
            except (Py4JError, OSError, AttributeError):
                return  # Spark is gone, which is said by whoever asks it for something

    def _keep_archives(self, now: float) -> None:
        if now - self._kept >= _KEEP_EVERY:
            self._kept = now
            shipped_packages.keep(self.archives)

    def _look(self) -> None:
        context = self.session.sparkContext
        working = bool(context.statusTracker().getActiveJobsIds())
        over = self._patience.look(there(self.session), working=working, now=time.monotonic())
        if over and self.lost is None:
            self.lost = _none_there(self.session)
        elif not over:
            self.lost = None
        if over and working:
            context.cancelAllJobs()


_watching: list[Watchdog] = []
"""Of this process, which has one session at most."""


def watch(session: SparkSession, archives: Sequence[Path] = ()) -> None:
    """From here on. ``archives``: to be kept as long."""
    _watching.append(Watchdog(session, archives))
    _watching[-1].start()


def unwatch() -> None:
    """The session ends."""
    while _watching:
        _watching.pop().close()


def lost() -> IngestError | None:
    """Why jobs fail now; None as long as somebody is there, or may come."""
    return _watching[-1].lost if _watching else None
