"""Processes that are killed, suspended and continued."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

from ingest.demo.job import Job
from tests.kills.faults.act import (
    command,
    expect,
    fault,
    restart,
    stand_by,
    stop,
    suspend,
)
from tests.kills.lab import Lab


@fault
def suspended_and_succeeded(lab: Lab) -> str:
    """SIGSTOP in the middle of a batch, a standby takes over, SIGCONT: the first commits nothing."""
    first = lab.job
    assert first is not None
    refused = command(lab, "run", str(lab.file), "--once", check=False)
    expect("E-LEASE-HELD" in refused.stderr and refused.returncode == 2, refused.stderr)
    standby = stand_by(lab, lab.env)
    time.sleep(8)  # its Spark is warm
    lab.arm(f"table_committed~{lab.name}.bag")
    lab.change()
    lab.until_reached()
    took = suspend(lab, first, standby)
    lab.change()
    lab.until_equal()
    return f"taken over after {took:.0f} s, equal; the first ended with E-LEASE-LOST"


def _names(folder: Path) -> set[str]:
    with os.scandir(folder) as found:
        return {entry.name for entry in found}


@fault
def killed_inside_a_commit(lab: Lab) -> str:
    """SIGKILL while Delta's log holds a commit's temporary file and not yet the commit."""
    log = lab.lake / lab.name / "keyed" / "_delta_log"
    inside = tries = 0
    while tries < 12 and inside < 2:
        before = _names(log)
        lab.change()
        deadline = time.monotonic() + 120
        while not _names(log) - before and time.monotonic() < deadline:
            pass  # a commit takes less than a millisecond from one name to the other
        lab.kill("driver")
        made = _names(log) - before
        expect(made, "no commit began")
        tries += 1
        inside += not any(re.fullmatch(r"\d{20}\.json", name) for name in made)
        restart(lab)
    expect(inside, f"never inside a commit in {tries} tries")
    return f"equal; inside {inside} of {tries} times"


def _kill_java(lab: Lab, job: Job) -> None:
    """SIGKILL to the first of the job's Java processes of Spark's that there is, and to nothing else: not to the one that is
    asked for its version.
    """

    def killed() -> bool:
        for child in psutil.Process(job.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # the one that only writes Spark's command line
                if child.name() == "java" and "-version" not in child.cmdline():
                    child.kill()
                    return True
        return False

    lab.until(killed, "a Java to kill")


@fault
def spark_killed(lab: Lab) -> str:
    """Spark's process alone, as the kernel kills it for want of memory: in a batch, between two, at its start."""
    for moment in ("in a batch", "between two", "at its start"):
        job = lab.job
        if moment == "in a batch":
            lab.arm(f"table_committed~{lab.name}.bag")
            lab.change()
            lab.until_reached()
        elif moment == "at its start":
            stop(lab)
            job = lab.start()
        assert job is not None
        before = len(job.log.read_text(errors="replace"))
        _kill_java(lab, job)
        lab.disarm()
        status = job.process.wait(120)
        lab.job = None
        told = job.log.read_text(errors="replace")[before:]
        expect(
            status == 4 and told.count("E-SPARK-DIED") == 1, f"{moment}: {status}: {told[-800:]}"
        )
        expect("Traceback" not in told, f"{moment}: {told[-3000:]}")
        lab.change()
        restart(lab)
    return "equal after each, which ended with E-SPARK-DIED"


@fault
def suspended_parts(lab: Lab) -> str:
    """Each part stands still for 40 s with its connections open: no answer, no reset."""
    for part in ("mysql", "kafka", "connect"):
        process = lab.stack.children[part].process()
        assert process is not None
        lab.change()
        process.suspend()
        time.sleep(40)
        process.resume()
        lab.change()
        lab.until_equal(300)
    return "equal after each"
