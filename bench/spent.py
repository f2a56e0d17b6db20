"""What processes cost: CPU seconds and memory of a process and everything it started."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Spent:
    """Seconds of wall time and of CPU, and the highest resident memory in bytes: of all processes together, of those
    that are Java and those that are not, and of the one that began the others.
    """

    wall: float
    cpu: float
    memory: int
    java: int = 0
    python: int = 0
    driver: int = 0


def medians(of: Iterable[Sequence[float]]) -> list[float]:
    """Of rows of numbers, the median of each column."""
    return [statistics.median(each) for each in zip(*of, strict=True)]


def by_command(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    code: Path | None = None,
) -> Spent:
    """Run a command to its end; what it says goes to ``command.log`` in its folder. CPU is what a look
    every tenth of a second last saw. ``code``: the checkout that ``python -m`` takes its modules from, this one
    by default. Ends this process when the command fails.
    """
    search = {"PYTHONPATH": str(code)} if code else {}
    folder.mkdir(parents=True, exist_ok=True)
    started, spent, peak = time.perf_counter(), dict[int, float](), 0
    peaks, driver = {True: 0, False: 0}, 0
    with (folder / "command.log").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=code,
            env={**os.environ, **search, **(environment or {})},
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
        while process.poll() is None:
            resident = {True: 0, False: 0}
            for one in _tree(process.pid):
                try:
                    times = one.cpu_times()
                    spent[one.pid] = times.user + times.system
                    mine = one.memory_info().rss
                    resident[one.name() == "java"] += mine
                    driver = max(driver, mine) if one.pid == process.pid else driver
                except psutil.NoSuchProcess:
                    continue
            peak = max(peak, sum(resident.values()))
            peaks = {which: max(peaks[which], now) for which, now in resident.items()}
            time.sleep(0.1)
    if process.returncode:
        tail = (folder / "command.log").read_text()[-2000:]
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{tail}")
    wall = time.perf_counter() - started
    return Spent(wall, sum(spent.values()), peak, peaks[True], peaks[False], driver)


def cpu_seconds() -> float:
    """CPU seconds so far of this process and what it started, the JVM among them."""
    return tree_seconds(os.getpid())


def tree_seconds(pid: int) -> float:
    """CPU seconds so far of a process and what it started."""
    total = 0.0
    for one in _tree(pid):
        try:
            times = one.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def compiler_seconds(pid: int) -> float:
    """Of :func:`tree_seconds`, what the compilers of Java took: much in a process that is young, and nothing of what it is given to do.
    By the names of threads, of which Linux keeps 15 characters; one that has ended is not counted.
    """
    total, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for one in _tree(pid):
        for thread in Path(f"/proc/{one.pid}/task").glob("*/stat"):
            with suppress(OSError):
                name, _, rest = thread.read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                if name.startswith(_COMPILERS):
                    total += (int(fields[11]) + int(fields[12])) / tick
    return total


_COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")


def tree_memory(pid: int) -> int:
    """Resident bytes now of a process and what it started."""
    total = 0
    for one in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
