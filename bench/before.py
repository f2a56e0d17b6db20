"""Has anything become slower? An earlier commit and this checkout in turns, on one machine.

    .venv/bin/python -m bench.before REVISION [--only drain merge tables freshness] [--rounds 5] [--no-sync [before]] [--logs]
                                     [--rate 500 2000]

Four figures, each of both sides in every round, the side that goes first changing from round to round:

- P1 drain: a backlog of 10 tables and 1.5 million changes in Kafka, into an empty lake, in one batch;
- P2 merge: 1,000 changes to random keys of a table of a million rows, warm;
- P3 many tables: a batch of 100 changes to each of 100 tables, warm;
- P4 freshness: how long 500 changes a second take from MySQL's commit to a reader of Delta (``--rate``: other numbers, each in turn).

The earlier commit is checked out into a temporary folder and runs with this checkout's packages. Both sides
read the same Kafka topics. ``HEAD --no-sync before`` is what it costs that a batch outlasts a power cut.
Prints the medians of each side, and the median of the rounds' own ratios: the
machine's speed drifts, a round's two sides have the same of it. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench import result_file
from bench.drains import (
    LOGGED,
    change,
    drain,
    fill,
    pipeline,
    refuse_different,
    source_rows,
)
from bench.freshness import Pace, Traffic, Written, statements
from bench.spent import tree_seconds
from bench.stacks import fresh_stack
from ingest.local.stack import Stack

HERE = Path(__file__).parents[1]
NO_SYNC = "--no-sync"
"""What this takes, and the merges of a checkout that knows it."""
NAMES = {
    "drain": "P1 drain",
    "merge": "P2 merge",
    "tables": "P3 many tables",
    "freshness": "P4 freshness",
}
"""What ``--only`` takes, and the name that a text can cite: it stays when the measurement is made better."""
FIGURES = tuple(NAMES)


@dataclass(frozen=True)
class Side:
    """A checkout whose code is measured."""

    name: str
    code: Path
    sync: bool
    logs: bool = False
    """Each table has a change log."""


@dataclass(frozen=True)
class Took:
    """Seconds of one side in one round: what a user waits, and CPU."""

    time: float
    cpu: float


Rounds = dict[str, list[Took]]
"""By side, a round after the other."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the earlier commit")
    parser.add_argument("--only", nargs="*", default=list(FIGURES), choices=FIGURES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        NO_SYNC, nargs="?", const="both", choices=("before", "both"),
        help="on these sides nothing is made to outlast a power cut",
    )  # fmt: skip
    parser.add_argument(
        "--logs",
        action="store_true",
        help="this checkout's tables have change logs: `HEAD --logs` is what they cost",
    )
    parser.add_argument("--transactions", type=int, default=1_000_000, help="of the drain")
    parser.add_argument("--rate", type=float, nargs="+", default=[500], help="changes a second")
    parser.add_argument(
        "--seconds", type=float, default=30, help="of one side's freshness a round, at each rate"
    )
    parser.add_argument(
        "--warm",
        type=float,
        default=75,
        help="seconds before them: half a minute after a start the job rehearses (`job/rehearsal.py`)",
    )
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    measured: dict[str, Callable[[list[Side], argparse.Namespace], dict[str, Rounds]]] = {
        "drain": drains,
        "merge": lambda sides, told: merges(
            sides, told, "merge", "--tables 1 --rows 1000000 --changes 1000"
        ),
        "tables": lambda sides, told: merges(
            sides, told, "tables", "--tables 100 --rows 5000 --changes 100"
        ),
        "freshness": freshness,
    }
    found = dict[str, Rounds]()
    with checked_out(given.revision) as code:
        sides = [
            Side("before", code, sync=given.no_sync is None),
            Side("now", HERE, sync=given.no_sync != "both", logs=given.logs),
        ]
        for figure in given.only:
            new = measured[figure](sides, given)
            found |= new
            for name, rounds in new.items():
                print(f"\n{summary(name, rounds)}\n", flush=True)
    for name, rounds in found.items():
        print(summary(name, rounds))
    rows = {
        name: {side: [vars(one) for one in took] for side, took in rounds.items()}
        for name, rounds in found.items()
    }
    result_file.write(given, "before", took=rows)


def summary(name: str, rounds: Rounds) -> str:
    """Medians of both sides, and of the rounds' ratios."""
    told = [
        f"{side} {median(one.time for one in took):.2f} s, cpu {median(one.cpu for one in took):.2f} s"
        for side, took in rounds.items()
    ]
    pairs = list(zip(rounds["before"], rounds["now"], strict=True))
    time_ = median(now.time / before.time for before, now in pairs)
    cpu = median(now.cpu / before.cpu for before, now in pairs)
    return f"{name:<14}  {';  '.join(told)};  now / before: time {time_:.3f}, cpu {cpu:.3f} ({len(pairs)} rounds)"


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A commit's files in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="ingest-before-") as folder:
        code = Path(folder) / "code"
        code.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(HERE), "archive", revision], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", str(code)], input=archive.stdout, check=True)
        yield code


def in_turns(
    sides: list[Side], rounds: int, measure: Callable[[Side], list[Took]], names: list[str]
) -> dict[str, Rounds]:
    """Each side in each round, the first one last in the next. ``measure`` gives one of each of ``names``, by which the answer is."""
    found: dict[str, Rounds] = {name: {side.name: [] for side in sides} for name in names}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            for name, took in zip(names, measure(side), strict=True):
                found[name][side.name].append(took)
                print(
                    f"{name} round {number}: {side.name:<6} {took.time:8.2f} s  cpu {took.cpu:8.2f} s",
                    flush=True,
                )
    return found


def drains(sides: list[Side], given: argparse.Namespace) -> dict[str, Rounds]:
    """A backlog into an empty lake; every lake is compared with MySQL."""
    tables, rows = [f"t{index:03d}" for index in range(10)], 50_000
    with fresh_stack("before") as (stack, folder):
        fill(stack, tables, rows)
        first = folder / "first"
        drain(stack, first, "ingest", tables, 0)
        change(stack, tables, rows, given.transactions, 10)
        drain(stack, first, "ingest", tables, 0)
        wanted = {table: source_rows(stack, table) for table in tables}
        shutil.rmtree(first)

        def one(side: Side) -> list[Took]:
            at = folder / side.name
            spent = drain(stack, at, _who(side), tables, 0, code=side.code, sync=side.sync)
            refuse_different(at, wanted)
            shutil.rmtree(at)
            return [Took(spent.wall, spent.cpu)]

        return in_turns(sides, given.rounds, one, [NAMES["drain"]])


def merges(
    sides: list[Side], given: argparse.Namespace, figure: str, size: str
) -> dict[str, Rounds]:
    """`bench.merges` of each checkout, a process a round: the median of its warm batches."""
    command = [sys.executable, "-m", "bench.merges", "--only", "ingest", *size.split()]

    def one(side: Side) -> list[Took]:
        with tempfile.TemporaryDirectory(prefix="ingest-before-") as folder:
            result, log = Path(folder) / "result.json", Path(folder) / "log"
            words = [*command, "--rounds", "7", "--warm", "3", "--json", str(result)]
            if not side.sync and NO_SYNC in (side.code / "bench" / "merges.py").read_text():
                words.append(NO_SYNC)
            with log.open("wb") as output:
                subprocess.run(
                    words, check=True, cwd=side.code, stdout=output, stderr=output,
                    env={**os.environ, "PYTHONPATH": str(side.code)},
                )  # fmt: skip
            took: list[list[float]] = json.loads(result.read_text())["took"]["ingest"]
        return [Took(median(each[0] for each in took), median(each[1] for each in took))]

    return in_turns(sides, given.rounds, one, [NAMES[figure]])


def freshness(sides: list[Side], given: argparse.Namespace) -> dict[str, Rounds]:
    """By rate. Each side has a lake of its own and follows the same topics; only one of the jobs runs at a time."""
    paces, rows = [Pace(rate, 1 if rate <= 500 else 10) for rate in given.rate], 10_000
    with fresh_stack("before") as (stack, folder):
        names = [f"t{index:03d}" for index in range(10)]
        fill(stack, names, rows)
        written = {name: Written(born=rows) for name in names}
        writes = statements(written, rows)
        for side in sides:
            at = folder / side.name
            drain(stack, at, _who(side), names, 0, code=side.code, sync=side.sync)

        def one(side: Side) -> list[Took]:
            lake = folder / side.name
            for each in written.values():
                each.table = None
                each.unseen.clear()
            took = list[Took]()
            with job(stack, lake, side) as process:
                traffic = Traffic(stack, lake, written, writes)
                traffic.window(paces[0], given.warm)
                for pace in paces:
                    before = tree_seconds(process.pid)
                    window = traffic.window(pace, given.seconds)
                    took.append(Took(window.age(0.5), tree_seconds(process.pid) - before))
                    print(
                        f"{pace.rate:,.0f}/s: {window.age(0.5):.2f} s, 99 % {window.age(0.99):.2f} s",
                        flush=True,
                    )
            return took

        found = in_turns(
            sides, given.rounds, one, [f"{NAMES['freshness']} {pace.rate:,.0f}/s" for pace in paces]
        )
        wanted = {name: source_rows(stack, name) for name in names}
        for side in sides:
            at = folder / side.name
            drain(stack, at, _who(side), names, 0, code=side.code, sync=side.sync)
            refuse_different(at, wanted)
        return found


def _who(side: Side) -> str:
    return f"ingest{LOGGED}" if side.logs else "ingest"


@contextmanager
def job(stack: Stack, lake: Path, side: Side) -> Iterator[psutil.Process]:
    """`ingest run` of a checkout, caught up with the log once it is yielded; ended by SIGTERM."""
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None, code=side.code, sync=side.sync, logs=side.logs)
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(side.code)}
    environment["INGEST_HOME"] = str(stack.home)
    command = [sys.executable, "-m", "ingest", "run", str(file), "--log", str(lake / "spark.log")]
    with (lake / "job.log").open("ab") as output:
        process = subprocess.Popen(
            command, cwd=side.code, env=environment, stdout=output, stderr=output
        )
    try:
        time.sleep(10)  # Spark's start; the window before the one that counts covers the rest
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(120)


if __name__ == "__main__":
    main()
