"""How old quiet tables become while a large backlog of another one is applied.

    .venv/bin/python -m bench.flood [--rows 1000000] [--rate 80] [--rounds 3] [--seconds 40] [--code CHECKOUT]

Eight quiet tables get ``--rate`` single-row changes a second together. First the job runs with them alone. Then it is stopped, a ninth
table gets ``--rows`` rows, which Debezium brings to Kafka, and the job starts again: while it applies them, how old is what a reader of
the quiet ones finds? Kafka holds the flood already, so it is the job alone that is measured. Its own start counts for nothing: ages
are taken from the first batch on. Every lake is compared with MySQL at the end.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from bench import result_file
from bench.drains import drain, fill, pipeline, refuse_different, source_rows
from bench.freshness import Pace, Traffic, Written, look, statements
from bench.stacks import fresh_stack
from ingest.config import pipeline_file
from ingest.demo.job import Job
from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack

QUIET = [f"t{index:03d}" for index in range(8)]
FLOOD = "flood"
TOGETHER = 1_000
"""Rows of the flood in a transaction."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=80)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--code", type=Path, help="another checkout, in turns")
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("flood") as (stack, folder):
        measure(stack, folder, given)


def measure(stack: Stack, folder: Path, given: argparse.Namespace) -> None:
    """Each side in each round."""
    fill(stack, [*QUIET, FLOOD], 2_000)
    tables = {name: Written(born=2_000) for name in QUIET}
    lines, flooded = statements(tables, 2_000), 1_000_000
    sides: dict[str, Path | None] = {"this": None, **({"other": given.code} if given.code else {})}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for side, code in sides.items():
        drain(stack, folder / side, "ingest", [], 0, code)
    for number in range(given.rounds):
        for side, code in sides.items():
            lake = folder / side
            for one in tables.values():
                one.unseen.clear()
                one.table = None
            traffic = Traffic(stack, lake, tables, lines)
            job = _started(stack, lake, code)
            alone = traffic.window(Pace(given.rate, 1), given.seconds)
            _stopped(job)
            pour(stack, flooded, given.rows)
            flooded += given.rows
            arrived(lake)
            during, took = beside(stack, lake, code, traffic, given)
            for other, its in sides.items():
                if other != side:  # whose turn begins with quiet tables alone
                    drain(stack, folder / other, "ingest", [], 0, its)
            at = {"alone": alone.age(0.5), "alone 99": alone.age(0.99)}
            at |= {"beside": _age(during, 0.5), "beside 99": _age(during, 0.99), "took": took}
            found[side].append(at)
            print(
                f"round {number}, {side}: alone {at['alone']:.2f} s (99 % {at['alone 99']:.2f}), beside the flood "
                f"{at['beside']:.2f} s (99 % {at['beside 99']:.2f}), {at['beside'] / at['alone']:.2f} x; "
                f"{given.rows:,} rows in {took:.0f} s",
                flush=True,
            )
    for side, rounds in found.items():
        ratio = median(one["beside"] / one["alone"] for one in rounds)
        took = median(one["took"] for one in rounds)
        print(f"{side}: {ratio:.2f} x as old, the flood in {took:.0f} s (medians of {len(rounds)})")
    wanted = {table: source_rows(stack, table) for table in [*QUIET, FLOOD]}
    for side, code in sides.items():
        drain(stack, folder / side, "ingest", [], 0, code)
        refuse_different(folder / side, wanted)
    result_file.write(given, "flood", found=found)


def beside(
    stack: Stack, lake: Path, code: Path | None, traffic: Traffic, given: argparse.Namespace
) -> tuple[list[float], float]:
    """Ages of inserts into the quiet tables until the flood is applied, and how many seconds that took."""
    ledger = Ledger(str(lake))
    before = ledger.last()
    assert before is not None
    target = arrived(lake)
    stop, changes, ages = threading.Event(), [0], list[float]()
    job = _started(stack, lake, code)
    begun, writer = (
        0.0,
        threading.Thread(target=traffic.write, args=(Pace(given.rate, 1), stop, changes)),
    )
    try:
        while (
            not begun
            or (newest := ledger.last()) is None
            or newest.ends.get(target[0], 0) < target[1]
        ):
            job.refuse_dead()
            newest = ledger.last()
            if not begun and newest and newest.batch_id > before.batch_id:
                begun = time.monotonic()
                for one in traffic.tables.values():
                    one.unseen.clear()
                writer.start()
            seen = look(lake / "d", traffic.tables)
            ages += seen if begun else []  # what was written before waited for the job to start
            time.sleep(0.05)
        took = time.monotonic() - begun
        stop.set()
        writer.join()
        while any(one.unseen for one in traffic.tables.values()):  # what waited longest counts, too
            job.refuse_dead()
            ages += look(lake / "d", traffic.tables)
            time.sleep(0.05)
    finally:
        stop.set()
        if writer.is_alive():
            writer.join()
        _stopped(job)
    return sorted(ages), took


def pour(stack: Stack, start: int, rows: int) -> None:
    """The flood."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for first in range(start, start + rows, TOGETHER):
            values = ", ".join(
                f"({key}, 1, 0.5, 'new', 'a note of {key}', 0)"
                for key in range(first, first + TOGETHER)
            )
            cursor.execute(f"INSERT INTO d.{FLOOD} VALUES {values}")
            connection.commit()


def arrived(lake: Path) -> tuple[tuple[str, int], int]:
    """Wait until the flood's topic has stood still for some seconds; its place and where it ends."""
    there = pipeline_file.load(lake / "b.yaml")
    topic, end, since = f"{there.name}.d.{FLOOD}", -1, time.monotonic()
    while time.monotonic() - since < 5:
        now = broker.end_offsets(there, [topic])[topic, 0]
        if now != end:
            end, since = now, time.monotonic()
        time.sleep(0.5)
    return (topic, 0), end


def _started(stack: Stack, lake: Path, code: Path | None) -> Job:
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    environment: dict[str, Any] = {"INGEST_HOME": str(stack.home)}
    if code:
        environment["PYTHONPATH"] = str(code)
    return Job.start(file, lake / "job.log", env=environment)


def _stopped(job: Job) -> None:
    job.process.terminate()
    if job.process.wait(120) not in (0, 130, 143, -15):
        sys.exit(f"the job ended with {job.process.returncode}: {job.log}")


def _age(ages: list[float], part: float) -> float:
    return ages[min(len(ages) - 1, int(len(ages) * part))] if ages else float("nan")


if __name__ == "__main__":
    main()
