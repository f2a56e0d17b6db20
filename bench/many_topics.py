"""Many tables over real Kafka topics: how long a job takes to its first batch, what it holds in memory, and what later batches take.

    .venv/bin/python -m bench.many_topics [--tables 300] [--rows 20] [--batches 5]

Real MySQL and Debezium: a first job brings the snapshot into Kafka. A second one, with a lake of its own, finds it there: seconds from the start of its process to
the manifest's first row, and to the last table of the snapshot. Then every table gets a change, a batch each time, and then one table alone. Memory is the
highest of the job's processes together (Python and Java). In the end the lake is compared with MySQL table by table, and `ingest status` is
asked: its seconds, and how many lines it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from deltalake import DeltaTable

from bench import result_file
from bench.drains import drain, pipeline
from bench.spent import tree_memory
from bench.stacks import fresh_stack
from ingest.demo.job import Job
from ingest.lake.delta.delta_sql import queried
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--batches", type=int, default=5)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("topics") as (stack, folder):
        found = measure(stack, folder, given)
    for name, value in found.items():
        print(f"{name:<44} {value:>12,.2f}")
    result_file.write(given, "many_topics", **found)


def measure(stack: Stack, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Figures by what they are."""
    tables = [f"t{number:04d}" for number in range(given.tables)]
    _fill(stack, tables, given.rows)
    started = time.monotonic()
    drain(stack, folder / "first", "ingest", tables, 0)
    found = {"the snapshot into Kafka and a first lake, s": time.monotonic() - started}
    lake = folder / "lake"
    lake.mkdir()
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    ledger, began = Ledger(str(lake)), time.monotonic()
    job = Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
    memory = Peak(job.process.pid)
    try:
        _until(job, lambda: ledger.last() is not None)
        found["to the first batch, s"] = time.monotonic() - began
        _until(job, lambda: _holds(ledger, len(tables)))
        found["to all tables of the snapshot, s"] = time.monotonic() - began
        turns = range(given.batches)
        every = [_changed(stack, ledger, job, tables, f"every {turn}") for turn in turns]
        one = [_changed(stack, ledger, job, tables[:1], f"one {turn}") for turn in turns]
        found["a change of every table, s"] = median(every)
        found["a change of one table, s"] = median(one)
    finally:
        found["memory of the job, MiB"] = memory.stop() / 2**20
        job.stop()
    began = time.monotonic()
    said = subprocess.run(
        [sys.executable, "-m", "ingest", "status", str(file)],
        env={**os.environ, "INGEST_HOME": str(stack.home), "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    found["status, s"] = time.monotonic() - began
    found["status, lines"] = len(said.stdout.splitlines())
    _refuse_different(stack, lake, tables)
    return found


class Peak:
    """The highest resident memory of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self._pid, self._over, self.bytes = pid, threading.Event(), 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            self.bytes = max(self.bytes, tree_memory(self._pid))

    def stop(self) -> int:
        """No more looks; returns it."""
        self._over.set()
        self._thread.join()
        return self.bytes


def _fill(stack: Stack, tables: list[str], rows: int) -> None:
    values = ", ".join(f"({number}, 'row {number}', {number}.5)" for number in range(rows))
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        for table in tables:
            cursor.execute(
                f"CREATE TABLE d.{table} (id INT PRIMARY KEY, note VARCHAR(40), a DOUBLE)"
            )
            cursor.execute(f"INSERT INTO d.{table} VALUES {values}")


def _holds(ledger: Ledger, many: int) -> bool:
    newest = ledger.last()
    return newest is not None and len([1 for one in newest.tables.values() if one.position]) == many


def _changed(stack: Stack, ledger: Ledger, job: Job, tables: list[str], note: str) -> float:
    """Seconds from the last commit of one change of each table to the batch that has them all."""
    newest = ledger.last()
    assert newest is not None
    before = {name: state.position for name, state in newest.tables.items()}
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        connection.begin()
        for table in tables:
            cursor.execute(f"UPDATE d.{table} SET note = '{note}' WHERE id = 1")
        connection.commit()
    began = time.monotonic()

    def all_there() -> bool:
        now = ledger.last()
        return now is not None and all(
            now.tables[f"d.{table}"].position != before[f"d.{table}"] for table in tables
        )

    _until(job, all_there)
    return time.monotonic() - began


def _until(job: Job, fact: Any, seconds: float = 1800) -> None:
    until = time.monotonic() + seconds
    while not fact():
        job.refuse_dead()
        if time.monotonic() > until:
            sys.exit(f"not within {seconds:.0f} s")
        time.sleep(0.05)


def _refuse_different(stack: Stack, lake: Path, tables: list[str]) -> None:
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT id, note, a FROM d.{table} ORDER BY id")
            rows = queried(
                DeltaTable(lake / "d" / table), "SELECT id, note, a FROM rows ORDER BY id"
            )
            if [(row["id"], row["note"], row["a"]) for row in rows] != list(cursor.fetchall()):
                sys.exit(f"{table} is not what MySQL says")


if __name__ == "__main__":
    main()
