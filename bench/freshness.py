"""How long a commit in MySQL takes to be readable in Delta, under steady traffic.

    .venv/bin/python -m bench.freshness [--tables 10] [--rows 10000] [--rate 500 2000] [--each 1 10]
                                        [--rounds 5] [--seconds 30] [--warm 90] [--lane auto]

Single-row changes (20 inserts, 60 updates, 20 deletes in a hundred) of all tables together at ``--rate`` a
second, ``--each`` in a transaction, while `ingest run` runs as its users start it; several rates take turns,
``--seconds`` each. Inserts have ascending keys, and Delta's own statistics of a version say up to which key it
holds them: a reader's clock that first sees a version with a key gives its freshness. MySQL, Kafka, Connect, the
job and this reader share the machine. At the end every table is compared with MySQL.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from bench import result_file
from bench.drains import drain, fill, pipeline, refuse_different, source_rows
from bench.stacks import fresh_stack
from ingest.demo.job import Job
from ingest.lake.delta.delta_log import is_there
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from ingest.model.manifest import Entry

SETTLING = 5.0
"""Seconds after a change of rate that do not count: what is seen then may have been written before it."""


@dataclass
class Written:
    """The inserts of one table that no reader has seen yet, oldest first: key, and when its commit returned."""

    unseen: deque[tuple[int, float]] = field(default_factory=deque)
    born: int = 0
    table: DeltaTable | None = None


@dataclass(frozen=True)
class Pace:
    """``rate``: changes a second, of which ``each`` in a transaction."""

    rate: float
    each: int


@dataclass
class Window:
    """What was seen while MySQL was written at one pace. ``ages``: of inserts, in seconds, ascending; ``took``:
    seconds in which ``changes`` were written.
    """

    pace: Pace
    changes: int
    took: float
    ages: list[float]
    batches: list[Entry]

    def age(self, part: float) -> float:
        """Seconds after which so many of the inserts were seen."""
        return self.ages[min(len(self.ages) - 1, int(len(self.ages) * part))]


@dataclass
class Traffic:
    """What is written, one window after the other, and the reader who waits for it."""

    stack: Stack
    lake: Path
    tables: dict[str, Written]
    statements: Iterator[tuple[Written, str, int]]

    def window(self, pace: Pace, seconds: float) -> Window:
        """One pace for so long. Exits where nothing was seen."""
        stop, begun, ages, changes = threading.Event(), time.monotonic(), [], [0]
        ledger = Ledger(str(self.lake))
        before = ledger.last()
        writer = threading.Thread(target=self.write, args=(pace, stop, changes))
        writer.start()
        try:
            while (passed := time.monotonic() - begun) < seconds + SETTLING:
                found = look(self.lake / "d", self.tables)
                if passed > SETTLING:
                    ages += found
                time.sleep(0.05)
        finally:
            stop.set()
            writer.join()
        if not ages:
            sys.exit("no insert was seen in Delta")
        first = before.batch_id if before else 0
        batches = [one for one in ledger.entries(10_000) if one.changes and one.batch_id > first]
        return Window(pace, changes[0], time.monotonic() - begun, sorted(ages), batches)

    def write(self, pace: Pace, stop: threading.Event, changes: list[int]) -> None:
        """One connection, a transaction after the other, at the rate asked for."""
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            started = time.monotonic()
            while not stop.is_set():
                together = list(itertools.islice(self.statements, pace.each))
                if pace.each > 1:
                    connection.begin()
                for _, statement, _ in together:
                    cursor.execute(statement)
                if pace.each > 1:
                    connection.commit()
                now = time.monotonic()
                for written, _, born in together:
                    if born:
                        written.unseen.append((born, now))
                changes[0] += pace.each
                ahead = started + changes[0] / pace.rate - now
                if ahead > 0:
                    stop.wait(ahead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rate", type=float, nargs="+", default=[500, 2000])
    parser.add_argument(
        "--each", type=int, nargs="+", default=[1, 10], help="changes in a transaction, by rate"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30, help="of one rate in one round")
    parser.add_argument(
        "--warm", type=float, default=90, help="seconds of each rate that are not counted, first"
    )
    parser.add_argument("--lane", default="auto", help="what the pipeline file says of it")
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    paces = [Pace(rate, each) for rate, each in zip(given.rate, given.each, strict=True)]
    with fresh_stack("freshness") as (stack, folder):
        windows = measure(stack, folder / "lake", paces, given)
    for pace in paces:
        report(pace, [one for one in windows if one.pace == pace])
    result_file.write(given, "freshness", windows=[as_json(one) for one in windows])


def measure(stack: Stack, lake: Path, paces: list[Pace], given: argparse.Namespace) -> list[Window]:
    """Each pace in each round. Exits when a lake does not become what MySQL holds."""
    tables = {f"t{index:03d}": Written(born=given.rows) for index in range(given.tables)}
    fill(stack, list(tables), given.rows)
    drain(stack, lake, "ingest", list(tables), 0)
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None, lane=given.lane)
    job = Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
    traffic = Traffic(stack, lake, tables, statements(tables, given.rows))
    windows = []
    try:
        for pace in paces:
            traffic.window(pace, given.warm)
        for number in range(given.rounds):
            for pace in paces:
                windows.append(traffic.window(pace, given.seconds))
                print(f"round {number}: {said(windows[-1])}", flush=True)
    finally:
        job.process.terminate()
        job.process.wait(60)
    drain(stack, lake, "ingest", list(tables), 0)
    refuse_different(lake, {table: source_rows(stack, table) for table in tables})
    return windows


def as_json(one: Window) -> dict[str, Any]:
    """A window's own figures, and of its batches the seconds and the changes."""
    batches = [{"seconds": entry.seconds, "changes": entry.changes} for entry in one.batches]
    return {**vars(one), "pace": vars(one.pace), "batches": batches}


def said(one: Window) -> str:
    """A window in words."""
    return (
        f"{one.changes / one.took:5,.0f} changes a second, {len(one.ages):,} inserts seen: median "
        f"{one.age(0.5):.2f} s, 90 % {one.age(0.9):.2f} s, 99 % {one.age(0.99):.2f} s, worst {one.age(1):.2f} s"
    )


def report(pace: Pace, windows: list[Window]) -> None:
    """The medians of a pace's rounds."""
    at = {part: median(one.age(part) for one in windows) for part in (0.5, 0.9, 0.99, 1)}
    print(
        f"{pace.rate:,.0f} changes a second, {pace.each} in a transaction: median {at[0.5]:.2f} s, "
        f"90 % {at[0.9]:.2f} s, 99 % {at[0.99]:.2f} s, worst {at[1]:.2f} s (medians of {len(windows)})"
    )
    entries = [entry for one in windows for entry in one.batches]
    batch, each = median(one.seconds for one in entries), median(one.changes for one in entries)
    stages = {
        name: median(one.stages.get(name, 0.0) for one in entries) for name in entries[0].stages
    }
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())
    print(f"  {len(entries)} batches: median {batch:.2f} s for {each:.0f} changes; {parts}")


def statements(tables: dict[str, Written], rows: int) -> Iterator[tuple[Written, str, int]]:
    """Whose it is, the statement, and the key it gives birth to, which is larger than all before; else 0."""
    rng, names = random.Random("freshness"), list(tables)
    for count in itertools.count():
        name, kind, key = rng.choice(names), rng.random(), rng.randrange(rows)
        written = tables[name]
        if kind < 0.2:
            written.born += 1
            row = f"{written.born}, 1, {rng.random()!r}, 'new', 'note {rng.random()}', {count}"
            yield written, f"INSERT INTO d.{name} VALUES ({row})", written.born
        elif kind < 0.8:
            value = f"amount = {rng.random()!r}, changed = {count + 1}"
            yield written, f"UPDATE d.{name} SET {value} WHERE id = {key}", 0
        else:
            yield written, f"DELETE FROM d.{name} WHERE id = {key}", 0
            back = f"{key}, 0, 0.5, 'back', NULL, {count}"
            yield written, f"INSERT INTO d.{name} VALUES ({back})", 0


def look(folder: Path, tables: dict[str, Written]) -> list[float]:
    """Seconds that the inserts took which the tables in a folder now hold and did not at the last look."""
    ages = []
    for name, written in tables.items():
        if written.table is None:
            written.table = DeltaTable(folder / name)
        elif is_there(folder / name, written.table.version() + 1):
            written.table.update_incremental()
        else:  # what all know already takes the reader no time, which is the job's, too
            continue
        now = time.monotonic()
        actions = pa.table(written.table.get_add_actions(flatten=True))
        newest = pc.max(actions["max.id"]).as_py()
        seen = bisect_right(written.unseen, newest, key=lambda one: one[0])
        ages += [now - written.unseen.popleft()[1] for _ in range(seen)]
    return ages


if __name__ == "__main__":
    main()
