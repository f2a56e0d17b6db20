"""What a batch costs by its size and by the lane that reads it: in the driver, in Spark's tasks, and merged by Spark.

    .venv/bin/python -m bench.lanes [--tables 10] [--rows 50000] [--sizes 100 1000 10000 100000] [--batches 7]
                                    [--most 2600000] [--rounds 5]

Each lane has a lake of its own, all of them read the same topics. Each lake is filled by the snapshot first. Then one lane after the other takes
``--batches`` batches of each size, with a job of its own; the first two of them are not counted. In the end each takes what is left,
the changes of ``--most`` statements more, as one batch, the first of its job: ``--rounds`` times in turns, each time into a copy of the lake as it
was. Seconds are those of the manifest; CPU is that of the job's processes between two rows of it. Every lake is compared with MySQL, value by value.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from bench import result_file
from bench.drains import WAYS, WHOLE, change, drain, fill, pipeline, refuse_different, source_rows
from bench.spent import tree_seconds
from bench.stacks import fresh_stack
from ingest.demo.job import Job
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack

T = TypeVar("T")

LANES = ("ingest_driver", "ingest_tasks", "ingest_spark")
WARM = 2
"""Batches of a job that are not counted."""

Took = dict[str, list[tuple[int, float, float]]]
"""By lane, of each batch: changes, seconds and CPU seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000], help="changes"
    )
    parser.add_argument("--batches", type=int, default=7, help="of each size")
    parser.add_argument(
        "--most", type=int, default=2_600_000,
        help="statements for the last one, of which four fifths change a row",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="of the last one")
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("lanes") as (stack, folder):
        found = measure(stack, folder, given)
    for size, took in found.items():
        for who, batches in took.items():
            changes, seconds, cpu = (median(each) for each in zip(*batches, strict=True))
            print(
                f"{size:>9,}: {who:<14} {changes:>9,.0f} changes  {seconds:8.2f} s  cpu {cpu:8.2f} s  "
                f"{changes / seconds:>9,.0f} a second"
            )
    result_file.write(given, "lanes", took={f"{size:,}": took for size, took in found.items()})


def measure(stack: Stack, folder: Path, given: argparse.Namespace) -> dict[int, Took]:
    """By size. Exits when a lake does not become what MySQL holds."""
    tables = [f"t{index:03d}" for index in range(given.tables)]
    fill(stack, tables, given.rows)
    for who in LANES:
        print(f"the snapshot into the lake of {who} …", flush=True)
        drain(stack, folder / who, who, tables, 0)
    # A job has taken some more by the time that it has stopped.
    count = 3 * (given.batches + WARM) * sum(given.sizes)
    first = folder / "first"

    def more(count: int, after: int) -> None:
        print(f"filling Kafka: {count:,} changes …", flush=True)
        change(stack, tables, given.rows, count, 10, after=after)
        drain(stack, first, "ingest", tables, 0)  # once that is done, all of it is in Kafka

    more(count, 0)
    found: dict[int, Took] = {}
    for size in given.sizes:
        found[size] = {
            who: _warm(stack, folder / who, WAYS[who], size, given.batches) for who in LANES
        }
        print(f"{size:,}: {found[size]}", flush=True)
    more(given.most, count)
    wanted = {table: source_rows(stack, table) for table in tables}
    found[given.most] = _rests(stack, folder, tables, given.rounds, wanted)
    return found


def _warm(
    stack: Stack, lake: Path, way: Mapping[str, Any], size: int, batches: int
) -> list[tuple[int, float, float]]:
    """Batches of a job that takes no more than so many changes at once."""
    file, ledger = lake / "b.yaml", Ledger(str(lake))
    pipeline(stack, file, lake, size, **way)
    last = ledger.last()
    start = last.batch_id if last else 0
    job = Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
    seen = by_batch(job, ledger, start, batches + WARM, tree_seconds)
    of = {one.batch_id: one for one in ledger.entries(10_000)}
    full = [one for one in seen if of[one].changes >= size / 2]
    pairs = [(one, one + 1) for one in full if one + 1 in full][WARM - 1 :]
    if not pairs:
        came = [of[one].changes for one in seen]
        sys.exit(f"no two batches of {size} changes came one after the other: {came}")
    return [(of[now].changes, of[now].seconds, seen[now] - seen[before]) for before, now in pairs]


def by_batch(
    job: Job, ledger: Ledger, start: int, many: int, cost: Callable[[int], T]
) -> dict[int, T]:
    """What a job's process has cost when each batch behind ``start`` was seen first. The job is stopped once there are so many."""
    seen: dict[int, T] = {}
    try:
        while len(seen) < many:
            job.refuse_dead()
            newest = ledger.last()
            if newest is not None and newest.batch_id > start and newest.batch_id not in seen:
                seen[newest.batch_id] = cost(job.process.pid)
            time.sleep(0.01)
    finally:
        job.stop()
    return seen


def _rests(
    stack: Stack,
    folder: Path,
    tables: list[str],
    rounds: int,
    wanted: dict[str, list[tuple[Any, ...]]],
) -> Took:
    """All that is left, in turns. A lake is put back between them: its path stays, so nothing of it knows of the other rounds."""
    kept = {who: folder / f"{who}-before" for who in LANES}
    for who, copy in kept.items():
        shutil.copytree(folder / who, copy, symlinks=True)
    took: Took = {who: [] for who in LANES}
    for number in range(rounds):
        for who in LANES if number % 2 == 0 else LANES[::-1]:
            lake = folder / who
            shutil.rmtree(lake)
            shutil.copytree(kept[who], lake, symlinks=True)
            took[who].append(_rest(stack, lake, who, tables))
            print(f"all that is left, round {number}: {who} {took[who][-1]}", flush=True)
            refuse_different(lake, wanted)
    return took


def _rest(stack: Stack, lake: Path, who: str, tables: list[str]) -> tuple[int, float, float]:
    """Changes of one batch of all that is left, its seconds, and the CPU seconds of its job but for those of a start."""
    spent = drain(stack, lake, who, tables, WHOLE)
    newest = Ledger(str(lake)).last()
    assert newest is not None
    empty = drain(stack, lake, who, tables, WHOLE)
    return newest.changes, newest.seconds, spent.cpu - empty.cpu


if __name__ == "__main__":
    main()
