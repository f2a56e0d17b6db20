"""What a cluster's workers bring: reading and parsing by one and by two of them, by four where reading is slow; and what is left to the driver.

    .venv/bin/python -m bench.cluster [--tables 2] [--rows 200000] [--changes 500000] [--batch 150000] [--batches 3] [--rounds 5] [--slow 0.2]

Workers of a Spark standalone cluster are processes on this machine, each pinned to a core of its own, with one executor of one core. All read the same
topics, into lakes of their own in a folder that all reach; Spark merges. Each round has one worker and then two of them take
``--batches`` batches behind two that are not counted (of the driver's CPU, with ``--small-first``, behind so many small ones more; the second executor's first tasks take as long again); seconds are those of the stage `read` in the manifest. Where reading is slow
(``--slow`` seconds for each thousand records, slept in the task; half the batch, two rounds) four workers stand beside one, and pinning means nothing. The driver's CPU is that of its own processes,
Python and Java, between two rows of the manifest: of batches of ``--batch`` changes and of a fourth of that, and what the difference comes to for a million;
with and without Java's compilers, which in the first minutes take a third of it; and that of the larger ones for a million changes. With several tables the smaller batch has fewer of them, whose
plans are not there then: ask for ``--tables 1``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import pyarrow as pa

from bench import result_file
from bench.drains import WHOLE, change, change_ranges, drain, fill, pipeline
from bench.lanes import WARM, by_batch
from bench.spent import compiler_seconds, tree_seconds
from bench.stacks import fresh_stack
from ingest.batch.parts import Parts
from ingest.demo.job import Job
from ingest.kafka.batch_ranges import KafkaLog
from ingest.kafka.ports import RecordSource
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from ingest.model.manifest import Entry, Place
from tests.support.cluster import Cluster

SLOW = "BENCH_SLOW"
"""Of a job's environment: seconds that a task sleeps for each thousand records."""
SMALL_FIRST = "BENCH_SMALL_FIRST"
"""Of a job's environment: how many of its first batches are small."""
SMALL = 60_000
"""Changes of such a one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=150_000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--slow-rounds", type=int, default=2, help="what is slept is the same each time"
    )
    parser.add_argument("--slow", type=float, default=0.2)
    parser.add_argument(
        "--ranges", type=int, help="changes are UPDATEs of so many rows each: millions in minutes"
    )
    parser.add_argument(
        "--small-first", type=int, default=0,
        help=f"batches of {SMALL:,} that a job takes before the driver's CPU is looked at",
    )  # fmt: skip
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("cluster") as (stack, folder):
        tables = [f"t{number:03d}" for number in range(given.tables)]
        fill(stack, tables, given.rows)
        print("filling Kafka …", flush=True)
        drain(stack, folder / "first", "ingest", tables, 0)
        if given.ranges:
            change_ranges(stack, tables, given.rows, given.changes, given.ranges)
        else:
            change(stack, tables, given.rows, given.changes, 10)
        drain(stack, folder / "first", "ingest-limited", tables, 200_000)
        found = Bench(stack, folder, given).measure()
    result_file.write(given, "cluster", **found)


@dataclass
class Bench:
    """``folder``: for clusters and lakes; ``given``: as it was asked."""

    stack: Stack
    folder: Path
    given: argparse.Namespace

    def measure(self) -> dict[str, Any]:
        """Prints; returns the figures."""
        batch, found = self.given.batch, dict[str, list[float]]()
        for number in range(self.given.rounds):
            for workers in (1, 2):
                self._note(found, f"{workers} pinned", self._taken(workers, batch))
            for workers in (1, 4) if number < self.given.slow_rounds else ():
                of = self._taken(workers, batch // 2, slow=self.given.slow)
                self._note(found, f"{workers} slow", of)
        for few, many in (("1 pinned", "2 pinned"), ("1 slow", "4 slow")):
            if many not in found:
                continue
            ratios = [b / a for a, b in zip(found[few], found[many], strict=True)]
            print(
                f"{many} beside {few}: {median(ratios):.2f} times ({min(ratios):.2f}–{max(ratios):.2f})"
            )
        few = batch // 4
        cost = {
            size: self._taken(2, size, small_first=self.given.small_first) for size in (few, batch)
        }
        for what in ("all", "work"):
            small, large = (
                median(getattr(spent, what) for _, spent in each) for each in cost.values()
            )
            slope = (large - small) / (batch - few) * 1e6
            without = " without Java's compilers" if what == "work" else ""
            each = median(getattr(spent, what) / one.changes * 1e6 for one, spent in cost[batch])
            print(
                f"the driver{without}: {small:.2f} s of CPU for {few:,} changes, {large:.2f} for {batch:,}: "
                f"{each:.2f} for each million of these, {slope:.2f} for a million more"
            )
        driver = {
            f"{size:,}": [{"changes": one.changes, **asdict(spent)} for one, spent in each]
            for size, each in cost.items()
        }
        return {"rates": found, "driver": driver}

    def _note(self, found: dict[str, list[float]], name: str, of: list[tuple[Entry, Cpu]]) -> None:
        if not of:
            sys.exit("no two whole batches followed one another: ask for more --changes")
        rate = median(one.changes / one.stages["read"] for one, _ in of)
        found.setdefault(name, []).append(rate)
        print(f"{name:<9} {rate:>9,.0f} changes read a second", flush=True)

    def _taken(
        self, workers: int, size: int, slow: float = 0, small_first: int = 0
    ) -> list[tuple[Entry, Cpu]]:
        """Batches of a job with so many workers, and what each cost the driver."""
        home = self.folder / f"cluster{time.monotonic_ns()}"
        cluster = Cluster(home, workers, pinned=not slow)
        try:
            cluster.start()
            given = {SLOW: str(slow), SMALL_FIRST: str(small_first)}
            return self._batches(cluster, home / "lake", size, given)
        finally:
            cluster.stop()
            shutil.rmtree(home)

    def _batches(
        self, cluster: Cluster, lake: Path, size: int, given: Mapping[str, str]
    ) -> list[tuple[Entry, Cpu]]:
        lake.mkdir()
        file, ledger = lake / "b.yaml", Ledger(str(lake))
        spark: dict[str, Any] = cluster.settings(
            merge_engine="spark", max_megabytes_per_batch=WHOLE
        )
        pipeline(self.stack, file, lake, size, **spark)
        environment = {"INGEST_HOME": str(self.stack.home), **given}
        job = Job.start(file, lake / "job.log", env=environment, program="bench.cluster")
        many = int(given[SMALL_FIRST]) + self.given.batches + WARM
        seen = by_batch(job, ledger, 0, many, _cost)
        of = {one.batch_id: one for one in ledger.entries(1000)}
        pairs = [(one, one + 1) for one in seen if one + 1 in seen]
        full = [(of[now], _spent(seen[before], seen[now])) for before, now in pairs]
        return [one for one in full if one[0].changes > size / 2][WARM - 1 :]


@dataclass(frozen=True)
class Cpu:
    """Seconds of a driver: ``all``, and its ``work``, without Java's compilers."""

    all: float
    work: float


def _cost(pid: int) -> Cpu:
    spent = tree_seconds(pid)
    return Cpu(spent, spent - compiler_seconds(pid))


def _spent(before: Cpu, now: Cpu) -> Cpu:
    return Cpu(now.all - before.all, now.work - before.work)


@dataclass(frozen=True)
class Slowed:
    """A source of records that takes its time."""

    source: RecordSource
    seconds: float

    def __call__(
        self, ranges: Mapping[Place, tuple[int, int]], enough: Event
    ) -> Iterator[Mapping[Place, pa.Table]]:
        """As the source has it."""
        for records in self.source(ranges, enough):
            time.sleep(self.seconds * sum(one.num_rows for one in records.values()) / 1000)
            yield records


def run_slowly(seconds: float) -> None:
    """`ingest`, with its tasks' source made slow. It is of the main module, so it goes to the tasks as it is."""
    fast = KafkaLog.source

    def slow(self: KafkaLog, *args: Any, **kwargs: Any) -> RecordSource:
        return Slowed(fast(self, *args, **kwargs), seconds)

    KafkaLog.source = slow  # type: ignore[method-assign]


def begin_small(many: int) -> None:
    """`ingest`, whose first batches are small: by the time that it takes larger ones Java has compiled most of what they need."""
    usual, parts = Parts._limit, iter(range(many))

    def limit(self: Parts) -> int:
        return SMALL if next(parts, None) is not None else usual(self)

    Parts._limit = limit  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        from ingest.cli.app import main as ingest

        begin_small(int(os.environ.get(SMALL_FIRST, "0")))
        if seconds := float(os.environ.get(SLOW, "0")):
            run_slowly(seconds)
        ingest()
    else:
        main()
