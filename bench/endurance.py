"""Days of batches as fast as they go, with upkeep, DDLs and kills: does anything grow without bound, or become slower?

    PYTHONPATH=. .venv/bin/python -m bench.endurance --batches 20000 --json endurance.json
    PYTHONPATH=. .venv/bin/python -m bench.endurance --through kafka --batches 300

``--through lake``: a drawn history (``bench.long_history``) goes through the job's own batches into a lake of its own, in a process
whose clock goes on by ``--tick`` seconds with each batch, so that versions, logs and rows of the manifest become too old to be kept
again and again. It is killed at drawn moments in the first half; the second half is one process. The last batches take turns with those
of a young lake in a process as young: a ratio of the two does not depend on what else the machine did hours ago.
``--through kafka``: a job as users start it, behind MySQL, Debezium and Kafka (``bench.endurance_kafka``), with the checkpoint of Spark's
own streaming query.

Every ``--every`` batches files and processes are looked at from outside. Ends with an error when a table is not what the history makes
of it; says of each figure whether it grew over the second half (``bench.watched``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench import result_file, watched
from bench.ageing_lake import Clock
from bench.endurance_kafka import through_kafka
from bench.long_history import GROWING, TABLES
from bench.watched import SECONDS, Run, Series

CLOCK, LIBRARY = Path(__file__).with_name("moved_clock.c"), "moved_clock.so"
WARM, MANY = 200, 100
"""Batches before the first warm ones, and how many are held against how many."""
LONG = 3 * 3600
"""Seconds after which what is kept for an hour has come to its measure by the second half."""
AT_ONCE = ("files of the checkpoint", "MB of memory", "threads", "file descriptors")
"""What no clock bounds."""
SOON = 0.5
"""Seconds within which a process is killed when it is its turn: that is two or three batches."""
SLOWER = 1.1
"""A batch of an old lake may take so many times as long as one of a young one."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--through", choices=["lake", "kafka"], default="lake")
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kills", type=int, default=10, help="in the first half")
    parser.add_argument("--ddl-every", type=int, default=150, help="batches")
    parser.add_argument("--every", type=int, default=25, help="batches from look to look")
    parser.add_argument(
        "--tick", type=float, default=12, help="seconds of its clock from batch to batch (lake)"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where, and stays, and a run that was ended goes on there; else a temporary one",
    )
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-endurance-") as name:
        folder = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if given.through == "lake":
            found = through_lake(folder, given)
        else:
            found = through_kafka(folder, given)
    sys.exit(0 if report(found, given) else 1)


@dataclass
class Process:
    """One that applies batches when it is told to (``bench.ageing_lake``)."""

    popen: subprocess.Popen[str]
    batches: int = 0
    """That the lake had when it started."""

    @classmethod
    def start(cls, lake: Path, given: argparse.Namespace, since: float) -> Process:
        """It has started when it has said so."""
        clock = lake.with_name(f"{lake.name}.clock")
        Clock.create(clock, given.batches)
        words = [
            "--seed",
            str(given.seed),
            "--ddl-every",
            str(given.ddl_every),
            "--clock",
            str(clock),
        ]
        words += ["--since", str(since), "--tick", str(given.tick)]
        library = str(lake.with_name(LIBRARY))
        command = [sys.executable, "-m", "bench.ageing_lake", str(lake), *words]
        with lake.with_name(f"{lake.name}.log").open("ab") as log:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "LD_PRELOAD": library, "MOVED_CLOCK": str(clock)},
                text=True,
                start_new_session=True,
            )
        process = cls(popen)
        started = list(process._said(1))
        if not started:
            sys.exit(f"it did not start: {log.name}")
        process.batches = started[0]["started"]
        return process

    def go(self, batches: int) -> Iterator[dict[str, Any]]:
        """What it says of each; fewer where it is killed."""
        return self._asked(str(batches), batches)

    def check(self) -> None:
        """Every table is what the history makes of it, or this process ends."""
        if not any(self._asked("check", 1)):
            sys.exit("a table is not what the history makes of it: read the log beside the lake")

    def kill(self) -> None:
        """It and its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def _asked(self, what: str, answers: int) -> Iterator[dict[str, Any]]:
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{what}\n")
        self.popen.stdin.flush()
        return self._said(answers)

    def _said(self, answers: int) -> Iterator[dict[str, Any]]:
        assert self.popen.stdout is not None
        for _ in range(answers):
            if not (line := self.popen.stdout.readline()).endswith("\n"):
                return
            yield json.loads(line)


def through_lake(folder: Path, given: argparse.Namespace) -> Run:
    """The whole of it."""
    library, old = folder / LIBRARY, folder / "old"
    build = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(CLOCK), "-ldl"]
    subprocess.run(build, check=True)
    run = Run.so_far(folder)
    rng = Random(given.seed)
    half = given.batches // 2
    kills = set(rng.sample(range(2, half), min(given.kills, half // 4)))
    process = Process.start(old, given, run.since)
    young: Process | None = None
    try:
        done = process.batches
        kills = {one for one in kills if one > done}
        while done < given.batches - MANY:
            some = min(given.every, given.batches - MANY - done)
            killer: threading.Timer | None = None
            for said in process.go(some):
                run.took(said)
                done = said["batch"]
                if done in kills:
                    kills.discard(done)
                    run.kills.append(done)
                    killer = threading.Timer(rng.uniform(0, SOON), process.kill)
                    killer.start()
            if killer is not None:
                killer.join()
                process = Process.start(old, given, run.since)
                continue
            look = watched.lake(old, TABLES, GROWING) | watched.processes(process.popen.pid)
            last = [one["seconds"] for one in run.batches[-some:]]
            at = {"batch": done, "at": time.time() - run.since}
            run.looks.append({**at, **look, SECONDS: median(last)})
            if len(run.looks) % 8 == 0:
                print(
                    f"batch {done}: {median(last):.3f} s, {time.time() - run.since:.0f} s so far",
                    flush=True,
                )
                run.note(folder)
        run.note(folder)
        process.check()
        shutil.rmtree(folder / "young", ignore_errors=True)
        (folder / "young.clock").unlink(missing_ok=True)
        young = Process.start(folder / "young", given, time.time())
        turns(run, process, young)
        process.check()
        young.check()
        run.note(folder)
    finally:
        process.kill()
        if young is not None:
            young.kill()
    return run


def turns(run: Run, old: Process, young: Process) -> None:
    """The last batches of the old lake and warm ones of the young one, one by one."""
    for _ in young.go(WARM):
        pass
    took = run.turns
    for number in range(MANY):
        sides = {"old": old, "young": young}
        for who in sorted(sides, reverse=number % 2 == 0):
            for said in sides[who].go(1):
                took.setdefault(who, []).append(said["seconds"])
                took.setdefault(f"{who}, with upkeep", []).append(said["all"])
                if who == "old":
                    run.took(said)


def warm(run: Run) -> tuple[float, float]:
    """Median seconds of the first warm batches and of the last ones: hours lie between them, and what the machine did then."""
    seconds = [one["seconds"] for one in run.batches]
    return median(seconds[WARM : WARM + MANY] or seconds), median(seconds[-MANY:])


def report(run: Run, given: argparse.Namespace) -> bool:
    """Says it all; returns whether nothing grew, nothing became slower and no upkeep failed."""
    found: Sequence[Series] = watched.series(run.looks)
    first, last = warm(run)
    print(
        f"\n{len(run.batches):,} batches, seed {given.seed}, killed {len(run.kills)} times; upkeep: {dict(run.upkeep)}"
    )
    for one in found:
        print(one)
    for text in run.failed:
        print(text)
    print(
        f"the first {MANY} warm batches {first:.3f} s, the last {MANY} {last:.3f} s: {last / first:.3f} x"
    )
    ratio = last / first
    if run.turns:
        medians = {who: median(took) for who, took in run.turns.items()}
        ratio = medians["old"] / medians["young"]
        print(f"in turns with a young lake's: {ratio:.3f} x  {json.dumps(medians)}")
    result_file.write(given, "endurance", **vars(run))
    judged = [one for one in found if _is_judged(one.name, run, given)]
    grew = [one.name for one in judged if not one.is_bounded]
    print(f"grew: {', '.join(grew) or 'nothing'}; {'slower' if ratio > SLOWER else 'not slower'}")
    return not grew and ratio <= SLOWER and not run.failed


def _is_judged(figure: str, run: Run, given: argparse.Namespace) -> bool:
    """Seconds are held against a young lake's: how fast the machine is changes more by the hour. One table is meant to grow. Behind Kafka
    no clock goes faster: what is kept for an hour grows until then, so that a short run says nothing of it.
    """
    if figure == SECONDS or GROWING in figure:
        return False
    lasting = given.through == "lake" or run.looks[-1]["at"] > LONG
    return lasting or figure.startswith(AT_ONCE)


if __name__ == "__main__":
    main()
