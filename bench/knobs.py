"""What settings do to a backlog: how long it takes, what it costs and how much memory it takes, with each of them alone changed.

    .venv/bin/python -m bench.knobs [--tables 10] [--rows 50000] [--changes 300000] [--each 10] [--rounds 3]

The backlog of `bench.drains`, drained into an empty lake by a process of its own for each setting, in turns. All else is as a pipeline file has it that says
nothing of it. Every lake is compared with MySQL, value by value.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from bench import result_file
from bench.drains import change, drain, fill, pipeline, refuse_different, source_rows
from bench.spent import Spent, by_command, medians
from bench.stacks import fresh_stack
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack

KNOBS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "lane: driver": {"lane": "driver"},
    "max_changes_per_batch: 20000": {"max_changes_per_batch": 20_000},
    "max_changes_per_batch: 2000000": {"max_changes_per_batch": 2_000_000},
    "max_megabytes_per_batch: 16": {"max_megabytes_per_batch": 16},
    "max_megabytes_per_batch: 256": {"max_megabytes_per_batch": 256},
    "parallel_tables: 1": {"parallel_tables": 1},
    "parallel_tables: 4": {"parallel_tables": 4},
    "master: local[1]": {"master": "local[1]"},
    "master: local[4]": {"master": "local[4]"},
    "sync: false": {"sync": False},
}
"""What :func:`bench.drains.pipeline` writes into the file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(KNOBS), choices=KNOBS)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("knobs") as (stack, folder):
        tables = [f"t{index:03d}" for index in range(given.tables)]
        fill(stack, tables, given.rows)
        drain(stack, folder / "first", "ingest", tables, 0)
        change(stack, tables, given.rows, given.changes, given.each)
        drain(stack, folder / "first", "ingest", tables, 0)
        wanted = {table: source_rows(stack, table) for table in tables}
        took: dict[str, list[tuple[Any, ...]]] = {name: [] for name in given.only}
        for number in range(given.rounds):
            for name in given.only:
                spent, batches = drained(stack, folder / "lake", KNOBS[name])
                refuse_different(folder / "lake", wanted)
                shutil.rmtree(folder / "lake")
                took[name].append((spent.wall, spent.cpu, spent.python, spent.java, batches))
                print(f"round {number}: {_line(name, took[name][-1])}", flush=True)
    print()
    for name, several in took.items():
        print(_line(name, tuple(medians(several))))
    result_file.write(given, "knobs", took=took)


def drained(stack: Stack, at: Path, knob: dict[str, Any]) -> tuple[Spent, int]:
    """A job from its start to its end, and how many batches it took."""
    at.mkdir(parents=True)
    file = at / "b.yaml"
    pipeline(stack, file, at, None, **knob)
    run = [sys.executable, "-m", "ingest", "run", str(file), "--once", "--log", f"{at}/spark.log"]
    spent = by_command(run, at, {"INGEST_HOME": str(stack.home)})
    newest = Ledger(str(at)).last()
    return spent, newest.batch_id if newest else 0


def _line(name: str, took: tuple[Any, ...]) -> str:
    wall, cpu, python, java, batches = took
    return (
        f"{name:<32} {wall:6.1f} s  cpu {cpu:6.1f} s  Python {python / 2**20:6,.0f} MiB  "
        f"Java {java / 2**20:6,.0f} MiB  {batches:4.0f} batches"
    )


if __name__ == "__main__":
    main()
