"""A batch of many DDLs that a crash tore in the middle: how long until it is finished, by the lane that reads it.

    .venv/bin/python -m bench.torn [--changes 76000] [--ddls 30] [--rounds 3] [--only ingest_driver ingest_tasks ingest_spark]

Two tables; between their changes columns come, go, become wider and get other names. A job that takes all of it
in one batch is killed once the first table is committed and the second is not. Timed is the next one, from its start to its end, beside one
that begins with an empty lake. Every lake is compared with MySQL by `ingest audit`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench import result_file
from bench.drains import WAYS, WHOLE, drain, fill, pipeline
from bench.spent import by_command, medians
from bench.stacks import fresh_stack
from ingest.demo.job import Job
from ingest.local.stack import Stack

TABLES = ["t000", "t001"]
ROWS = 1_000
LANES = ("ingest_driver", "ingest_tasks", "ingest_spark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=76_000)
    parser.add_argument("--ddls", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=LANES, choices=LANES)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("torn") as (stack, folder):
        fill(stack, TABLES, ROWS)
        drain(stack, folder / "first", "ingest", TABLES, 0)
        print("filling Kafka …", flush=True)
        write(stack, given.changes, given.ddls)
        drain(stack, folder / "first", "ingest", TABLES, 0)
        took: dict[str, list[tuple[float, float]]] = {who: [] for who in given.only}
        for number in range(given.rounds):
            for who in given.only:
                whole = folder / f"whole-{who}"
                fresh = drain(stack, whole, who, TABLES, 0)
                refuse_different(stack, whole)
                lake = folder / who
                torn(stack, lake, who)
                again = drain(stack, lake, who, TABLES, 0)
                refuse_different(stack, lake)
                took[who].append((again.wall, fresh.wall))
                print(
                    f"round {number}: {who:<14} {again.wall:6.1f} s after a crash, {fresh.wall:6.1f} s without",
                    flush=True,
                )
                shutil.rmtree(lake)
                shutil.rmtree(whole)
    print(f"\n{given.changes:,} changes with {given.ddls} DDLs of two tables, every lake equal")
    for who, several in took.items():
        again_, fresh_ = medians(several)
        print(f"{who:<14} {again_:6.1f} s after a crash, {fresh_:6.1f} s without")
    result_file.write(given, "torn", took=took)


def refuse_different(stack: Stack, lake: Path) -> None:
    """Ends this process where a lake is not equal. Types become wider, which delta-rs does not read, so `ingest audit` says it."""
    words = [sys.executable, "-m", "ingest", "audit", str(lake / "b.yaml")]
    by_command(words, lake, {"INGEST_HOME": str(stack.home)})


def write(stack: Stack, count: int, ddls: int) -> None:
    """Changes of both tables, and DDLs evenly among them."""
    rng, statements, acts = random.Random("torn"), 0, _ddls(ddls)
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for number in range(1, count + 1):
            table, key = TABLES[number % 2], rng.randrange(ROWS)
            cursor.execute(
                f"UPDATE d.{table} SET note = 'n{rng.random()}', changed = {number} WHERE id = {key}"
            )
            if number % 100 == 0:
                connection.commit()
            if number * (ddls + 1) // count > statements and statements < ddls:
                cursor.execute(next(acts).format(table=f"d.{TABLES[statements % 2]}"))
                statements += 1
        connection.commit()


def _ddls(count: int) -> Iterator[str]:
    """Two of each, for one table and then for the other."""
    kept = list[str]()
    for number in range(count // 2):
        kind, words = number % 4, ""
        if kind == 0:
            words, kept = f"ADD COLUMN c{number} INT", [*kept, f"c{number}"]
        elif kind == 1:
            words = f"MODIFY COLUMN {kept[-1]} BIGINT"
        elif kind == 2:
            words = f"RENAME COLUMN {kept[-1]} TO r{number}"
            kept = [*kept[:-1], f"r{number}"]
        elif kept:
            words, kept = f"DROP COLUMN {kept[0]}", kept[1:]
        for _ in TABLES:
            yield f"ALTER TABLE {{table}} {words}"


def torn(stack: Stack, lake: Path, who: str) -> None:
    """A lake whose first batch is committed to one of its tables alone."""
    lake.mkdir(parents=True)
    file = lake / "b.yaml"
    pipeline(stack, file, lake, WHOLE, **WAYS[who])
    point = f"table_committed~d.{TABLES[0]}:hold"
    job = Job.start(file, lake / "job.log", point, ["--once"], {"INGEST_HOME": str(stack.home)})
    while job.reached() is None:
        job.refuse_dead()
        time.sleep(0.05)
    job.kill()


if __name__ == "__main__":
    main()
