"""From MySQL to the lake with all parts on one machine, beside Debezium to Kafka alone: the ceiling of what can arrive.

    .venv/bin/python -m bench.end_to_end [--tables 4] [--rows 100000] [--changes 100000] [--each 10] [--rounds 5]

Each round and contestant has a MySQL, Kafka and Connect of its own. Timed are the snapshot, from the start of
the connector or of the job (Spark's start included) until all rows are in Kafka or in the lake, and then so many
changes that lie in the binlog already, from the moment at which the paused connector may go on until all are
there: MySQL's own speed at writing them is not in it. The lake is compared with MySQL, value by value.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench import result_file
from bench.drains import change, fill, pipeline, refuse_different, source_rows
from bench.spent import medians
from bench.stacks import fresh_stack
from ingest.config import pipeline_file
from ingest.demo.job import Job
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from ingest.model.errors import IngestError
from ingest.observe.pipeline_status import not_delivered, pending
from ingest.source.connector import Connector

CONTESTANTS = ("kafka", "ingest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=100_000, help="of each table")
    parser.add_argument("--changes", type=int, default=100_000, help="of all tables")
    parser.add_argument("--each", type=int, default=10, help="changes in a transaction")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(CONTESTANTS), choices=CONTESTANTS)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    took: dict[str, list[tuple[float, float]]] = {who: [] for who in given.only}
    for number in range(given.rounds):
        for who in given.only if number % 2 == 0 else given.only[::-1]:
            with fresh_stack("whole") as (stack, folder):
                os.environ["INGEST_HOME"] = str(stack.home)
                took[who].append(measure(stack, folder / "lake", who, given))
            snapshot, stream = took[who][-1]
            print(
                f"round {number}: {who:<7} snapshot {snapshot:6.1f} s, changes {stream:6.1f} s",
                flush=True,
            )
    rows = given.tables * given.rows
    for who, times in took.items():
        snapshot, stream = medians(times)
        print(
            f"{who:<7} {rows / snapshot:8,.0f} rows/s by the snapshot, {given.changes / stream:8,.0f} changes/s"
        )
    result_file.write(given, "end_to_end", took=took)


def measure(stack: Stack, lake: Path, who: str, given: argparse.Namespace) -> tuple[float, float]:
    """Seconds of the snapshot, and of the changes."""
    tables = [f"t{index:03d}" for index in range(given.tables)]
    fill(stack, tables, given.rows)
    lake.mkdir(parents=True)
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    known = pipeline_file.load(file)
    started = time.monotonic()
    job = None
    if who == "kafka":
        Connector(known).apply()
    else:
        job = Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
    try:

        def is_there() -> bool:
            try:
                if not_delivered(known) != 0:
                    return False
            except IngestError:
                return False  # the connector is not there yet
            newest = Ledger(str(lake)).last()
            waits = sum(one.pending for one in pending(known, newest))
            return who == "kafka" or (newest is not None and waits == 0)

        _until(is_there)
        snapshot = time.monotonic() - started
        Connector(known).pause()
        change(stack, tables, given.rows, given.changes, given.each)
        started = time.monotonic()
        Connector(known).resume()
        _until(is_there)
        stream = time.monotonic() - started
    finally:
        if job is not None:
            job.process.terminate()
            job.process.wait(60)
    if who == "ingest":
        refuse_different(lake, {table: source_rows(stack, table) for table in tables})
    return snapshot, stream


def _until(fact: Callable[[], bool]) -> None:
    while not fact():
        time.sleep(0.25)


if __name__ == "__main__":
    main()
