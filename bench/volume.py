"""A backlog of small and huge rows, drained into an empty lake: how much memory the job takes, its Python and its JVM.

    .venv/bin/python -m bench.volume [--gigabytes 5] [--small 1000] [--huge 8000000] [--rounds 1] [--code CHECKOUT] [--lane driver spark] [--heap 1g 2g]

Half of the bytes are rows of ``--small`` bytes, half of ``--huge``, written by real MySQL and brought by real Debezium; a table
without a key has some of both, which Spark reads. Every lake is compared with MySQL by `ingest audit`. ``--code``: another
checkout, whose code drains the same topics, in turns.
"""

from __future__ import annotations

import argparse
import random
import shutil
import string
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import result_file
from bench.drains import pipeline
from bench.spent import Spent, by_command
from bench.stacks import fresh_stack
from ingest.local.stack import Stack

TOGETHER = 500
"""Small rows in a statement."""

LIMIT = 1.5 * 2**30
"""Bytes that the job's Python, and its JVM, are to stay below."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--huge", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--code", type=Path, help="another checkout, drained by in turns")
    parser.add_argument("--lane", nargs="*", default=["auto"], help="of this checkout, in turns")
    parser.add_argument("--heap", nargs="*", help="of each lane, in turns; else what is usual")
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_stack("volume") as (stack, folder):
        measure(stack, folder, given)


def measure(stack: Stack, folder: Path, given: argparse.Namespace) -> None:
    """Fill, drain, compare, print."""
    create(stack)
    drained(stack, folder / "first", None, {})
    print("filling Kafka …", flush=True)
    change(stack, given.gigabytes * 1e9 / 2, given.small, given.huge)
    drained(stack, folder / "first", None, {})
    shutil.rmtree(folder / "first")
    sides: dict[str, tuple[Path | None, dict[str, Any]]] = {
        f"{lane}-{heap}" if heap else lane: (
            None,
            {"lane": lane, **({"driver_memory": heap} if heap else {})},
        )
        for lane in given.lane
        for heap in given.heap or [None]
    }
    sides |= {"other": (given.code, {})} if given.code else {}
    found: dict[str, list[Spent]] = {side: [] for side in sides}
    for number in range(given.rounds):
        for side, (code, spark) in sides.items():
            spent = drained(stack, folder / side, code, spark)
            shutil.rmtree(folder / side)
            found[side].append(spent)
            over = [name for name in ("java", "python") if getattr(spent, name) > LIMIT]
            print(
                f"round {number}, {side}: {spent.wall:.1f} s, cpu {spent.cpu:.1f} s, "
                f"Python {spent.python / 2**20:,.0f} MiB, the driver's {spent.driver / 2**20:,.0f}, "
                f"JVM {spent.java / 2**20:,.0f} MiB, equal"
                + "".join(f", {name} OVER its limit" for name in over),
                flush=True,
            )
    took = {side: [vars(one) for one in spent] for side, spent in found.items()}
    result_file.write(given, "volume", took=took)


def create(stack: Stack) -> None:
    """Two tables with a key and one without."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog = 0")
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
        cursor.execute("CREATE DATABASE d")
        for name, key in (("small", " PRIMARY KEY"), ("huge", " PRIMARY KEY"), ("loose", "")):
            cursor.execute(f"CREATE TABLE d.{name} (id BIGINT{key}, v LONGTEXT)")
            cursor.execute(f"INSERT INTO d.{name} VALUES (0, 'first')")
        connection.commit()


def change(stack: Stack, each: float, small: int, huge: int) -> None:
    """So many bytes of each kind, written side by side so that they come mixed."""

    def write(table: str, size: int, together: int, most: float) -> None:
        rng = random.Random(f"volume {table}")
        letters = "".join(rng.choices(string.ascii_letters, k=size + 4096))
        number = 0
        with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
            while number * size < most:
                keys = range(number + 1, number + together + 1)
                rows = [(key, letters[key % 4096 :][:size]) for key in keys]
                cursor.executemany(f"INSERT INTO d.{table} VALUES (%s, %s)", rows)
                connection.commit()
                number += together
                if table == "small" and number % 50_000 == 0:
                    cursor.execute(
                        "INSERT INTO d.loose VALUES (%s, %s)", (number, letters[: size * 100])
                    )
                    connection.commit()

    writers = [
        threading.Thread(target=write, args=("small", small, TOGETHER, each)),
        threading.Thread(target=write, args=("huge", huge, 1, each)),
    ]
    for one in writers:
        one.start()
    for one in writers:
        one.join()


def drained(stack: Stack, at: Path, code: Path | None, spark: Mapping[str, Any]) -> Spent:
    """A job from its start to its end; ends this process where its lake is not equal. ``spark``: settings of the pipeline file's."""
    at.mkdir(parents=True, exist_ok=True)
    file = at / "b.yaml"
    pipeline(stack, file, at, None, **spark)
    environment = {"INGEST_HOME": str(stack.home)}
    run = [sys.executable, "-m", "ingest", "run", str(file), "--once", "--log", f"{at}/spark.log"]
    spent = by_command(run, at, environment, code)
    by_command([sys.executable, "-m", "ingest", "audit", str(file)], at, environment, code)
    return spent


if __name__ == "__main__":
    main()
