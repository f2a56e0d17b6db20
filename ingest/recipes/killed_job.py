"""The first process of a recipe that is killed half-way: nobody waits for it without end, and what it said is kept."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from ingest.model.errors import Exit, IngestError
from ingest.recipes.stage import Stage

WITHIN = 900.0
"""Seconds for a process to come to where it is killed: several times what a slow machine takes."""


def run_until_killed(stage: Stage, module: str, within: float = WITHIN) -> None:
    """Run a module of ours, given the stage's folder, until it has killed itself half-way. Raises :class:`IngestError`
    where it ends in another way, or does not come so far. What it says goes to a file.
    """
    log = stage.folder / "killed.out"
    stage.say(f"a process of its own begins, and is killed half-way ({log}) …")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(stage.folder)], stdout=output, stderr=output
        )
        try:
            status = process.wait(within)
        except subprocess.TimeoutExpired:
            raise _other_end(f"did not come half-way within {within:.0f} s", log) from None
        finally:
            process.kill()  # nothing, once it has ended
            process.wait()
    if status != -signal.SIGKILL:
        raise _other_end(f"ended with exit code {status} before it was killed", log)


def _other_end(how: str, log: Path) -> IngestError:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return IngestError(
        "E-RECIPE-KILL",
        f"The recipe's first process {how}: {said[:300]}",
        means="Nothing outside the recipe's folder and its tables was touched.",
        remedy=f"read {log}, then run the recipe again on a quieter machine, or report it.",
        exit_code=Exit.FAILED,
    )


def all_reached(reached: threading.Semaphore, queries: Sequence[StreamingQuery]) -> None:
    """Wait until each query has released it once. Raises where one has failed: it never will."""
    for _ in queries:
        while not reached.acquire(timeout=1):
            for query in queries:
                if failure := query.exception():
                    raise failure
