"""What every fault is made with: the list they enter, and hands on a laboratory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deltalake import DeltaTable

from ingest.demo.job import Job
from tests.kills.lab import TABLES, Lab, LabError

FAULTS: dict[str, Callable[[Lab], str]] = {}


def fault(act: Callable[[Lab], str]) -> Callable[[Lab], str]:
    """Enter it into the list. It gets a quiet, equal laboratory and leaves one; it returns what came
    out, in words, or raises :class:`LabError`.
    """
    FAULTS[act.__name__] = act
    return act


def expect(fact: object, what: str) -> None:
    if not fact:
        raise LabError(what)


def stop(lab: Lab) -> None:
    assert lab.job is not None
    lab.job.stop()
    lab.job = None


def restart(lab: Lab, *words: str) -> None:
    lab.start(*words)
    lab.until_equal()


def stand_by(lab: Lab, env: dict[str, str]) -> Job:
    """A second job, once it says that it is one."""
    log = lab.folder / "standby.log"
    standby = Job.start(lab.file, log, words=["--standby"], env=env)
    lab.until(lambda: log.exists() and "standing by" in log.read_text(), "standing by")
    return standby


def suspend(lab: Lab, first: Job, standby: Job) -> float:
    """SIGSTOP, the standby takes over, SIGCONT: the first commits nothing. Returns how many seconds the taking over took."""
    os.killpg(first.process.pid, signal.SIGSTOP)
    lab.disarm()
    stopped = time.monotonic()
    lab.job = standby
    lab.until(lambda: "taking over" in standby.log.read_text(), "taking over", 60)
    took = time.monotonic() - stopped
    lab.touch()
    lab.until_equal()
    before = versions(lab)
    os.killpg(first.process.pid, signal.SIGCONT)
    status = first.process.wait(120)
    expect(status == 4 and "E-LEASE-LOST" in first.log.read_text(), f"{status}: {said(lab)[-500:]}")
    expect(versions(lab) == before, "the suspended job committed after its successor")
    return took


def versions(lab: Lab) -> dict[str, int]:
    return {table: DeltaTable(str(lab.lake / lab.name / table)).version() for table in TABLES}


def said(lab: Lab) -> str:
    """What its job has said, which may be a standby of before."""
    log = lab.job.log if lab.job else lab.folder / "job.log"
    return log.read_text(errors="replace")


def command(lab: Lab, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ingest", *words],
        capture_output=True,
        text=True,
        cwd=lab.folder,
        env={**os.environ, **lab.env, "NO_COLOR": "1", "COLUMNS": "200"},
        timeout=300,
    )
    if check and done.returncode:
        raise LabError(f"{words}: {done.stderr}")
    return done


def fresh(lab: Lab, **settings: Any) -> Lab:
    """Create its tables, write its pipeline, start its job and wait until equal."""
    lab.settings.update(settings)
    lab.prepare()
    restart(lab)
    return lab


@contextmanager
def another(
    lab: Lab, name: str, environment: dict[str, str] | None = None, **settings: Any
) -> Iterator[Lab]:
    """A second pipeline on the same stack while the first one's job is stopped."""
    stop(lab)
    other = Lab(lab.stack, lab.folder / name, name=name, environment=environment or {})
    try:
        yield fresh(other, **settings)
    finally:
        other.close()
        restart(lab)  # what the next fault kills must not be missed by a job that has yet to begin
