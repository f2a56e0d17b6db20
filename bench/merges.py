"""One batch into many tables, or into a large one: this project beside others, interleaved in one run.

    PYTHONPATH=. .venv/bin/python -m bench.merges --tables 1 --rows 1000000 --changes 1000
    PYTHONPATH=. .venv/bin/python -m bench.merges --tables 100 --rows 50000 --changes 100 --once stock tuned
    PYTHONPATH=. .venv/bin/python -m bench.merges --in-store --only stock ingest ingest-spark

Prints medians of wall time, of CPU seconds (of this process and its JVM), and of the apply: from the decoded
winners to the last commit. Ends with an error when a contestant's tables are not what the changes make of them. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from bench import result_file
from bench.contestants import STOCK, TUNED, Contestant, HandWritten, Ingest, Lean
from bench.spent import cpu_seconds, medians
from bench.stacks import ROOT_IN_STORE, fresh_spark, lake_in, lent_store
from bench.workload import Workload, rows_in_order
from ingest.lake.files import durability, object_store


def main() -> None:
    parser = parser_of(__doc__, tables=1, rows=1_000_000, changes=1000)
    parser.add_argument("--only", nargs="*", default=["stock", "tuned", "ingest", "lean"])
    parser.add_argument(
        "--once", nargs="*", default=[], help="these until the first round that counts, no further"
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="the hand-written job computes its winners before the MERGE, so that this alone is timed",
    )
    parser.add_argument(
        "--no-sync", dest="sync", action="store_false", help="ours does not outlast a power cut"
    )
    parser.add_argument(
        "--in-store", action="store_true", help="the one table is on an S3 server of this machine"
    )
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    if given.in_store and (given.tables > 1 or "lean" in given.only):
        parser.error("--in-store has one table, and nobody of those without guards")
    durability.switch(on=given.sync)
    with _lake(in_store=given.in_store) as (spark, folder, lake):
        work = Workload(given.tables, given.rows, given.changes)
        makers: dict[str, Callable[[str], Contestant]] = {
            "stock": lambda at: HandWritten(spark, at, STOCK, 1, apart=given.apart),
            "tuned": lambda at: HandWritten(spark, at, TUNED, 2, apart=given.apart),
            "ingest": lambda at: Ingest(spark, at, work),
            "ingest-spark": lambda at: Ingest(spark, at, work, engine="spark"),
            "lean": Lean,
        }
        contestants: dict[str, Contestant] = {}
        for who in given.only:
            at = f"{lake}/{who}"
            work.fill(spark, at, ours=who.startswith("ingest"))
            contestants[who] = makers[who](at)
        took: dict[str, list[tuple[float, float, float]]] = {who: [] for who in contestants}
        firsts: list[float] = []
        for number in range(given.warm + given.rounds):
            messages = work.batch(folder / f"batch{number}.parquet")
            for who, contestant in _turned(list(contestants.items()), number):
                wall, cpu = time.perf_counter(), cpu_seconds()
                contestant.take(messages, work.names)
                spent = time.perf_counter() - wall, cpu_seconds() - cpu, contestant.applied
                print(
                    f"round {number}: {who:<13} {spent[0]:8.2f} s  cpu {spent[1]:8.2f} s  "
                    f"apply {spent[2]:8.2f} s  {_stages(contestant)}",
                    flush=True,
                )
                if number >= given.warm:
                    took[who].append(spent)
                    firsts += [contestant.first] if isinstance(contestant, Ingest) else []
            if number == given.warm:
                gone = {who: contestants.pop(who) for who in given.once if who in contestants}
                verify(work, gone)
        again = _again(contestants.get("ingest"), given.rounds)
        verify(work, contestants)
        found = {who: medians(spent) for who, spent in took.items()}
        _print(given, found)
        if again is not None:
            first = statistics.median(firsts)
            print(
                f"a batch that is applied already: {again:.4f} s, {again / first:.4f} of the first time"
            )
        result_file.write(given, "merges", took=took, again=again, firsts=firsts)


@contextmanager
def _lake(*, in_store: bool) -> Iterator[tuple[SparkSession, Path, str]]:
    """Spark, a folder, and where lakes are. In a store all have the log store by which a commit takes no other's place."""
    if not in_store:
        with fresh_spark() as (spark, folder):
            yield spark, folder, str(folder)
        return
    with lent_store() as store:
        conf = object_store.spark_settings(lake_in(store))
        with fresh_spark(conf=conf, more=["s3"]) as (spark, folder):
            yield spark, folder, ROOT_IN_STORE


def _print(given: argparse.Namespace, found: Mapping[str, list[float]]) -> None:
    """Each contestant's medians, and how often it takes those of the first."""
    base = found.get("stock", next(iter(found.values())))
    print(
        f"\n{given.tables} tables of {given.rows:,} rows, {given.changes} changes each, medians"
        + "".join(f", {who} once" for who in given.once)
    )
    for who, (wall, cpu, applied) in found.items():
        ratio = f"{wall / base[0]:.3f} x in time, {cpu / base[1]:.3f} x in CPU"
        ratio += f", {applied / base[2]:.3f} x in apply" if given.apart else ""
        print(f"{who:<13} {wall:8.2f} s  cpu {cpu:8.2f} s  apply {applied:8.2f} s  {ratio}")


def parser_of(doc: str | None, *, tables: int, rows: int, changes: int) -> argparse.ArgumentParser:
    """What a bench of batches into tables is asked for, with its defaults."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--tables", type=int, default=tables)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--changes", type=int, default=changes, help="to each table, in a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds before that are not counted")
    return parser


def _stages(contestant: Contestant) -> str:
    newest = contestant.batches.newest if isinstance(contestant, Ingest) else None
    return ", ".join(f"{name} {took:.2f}" for name, took in newest.stages.items()) if newest else ""


def _turned(of: list[tuple[str, Contestant]], number: int) -> list[tuple[str, Contestant]]:
    turn = number % len(of)
    return of[turn:] + of[:turn]


def _again(contestant: Contestant | None, rounds: int) -> float | None:
    """Median seconds of the newest batch once more."""
    if not isinstance(contestant, Ingest):
        return None
    return statistics.median(contestant.again() for _ in range(rounds))


def verify(work: Workload, contestants: dict[str, Contestant]) -> None:
    """End with an error when a table is not what the changes make of it."""
    for index, table in enumerate(work.names):
        count, touched = work.expected(index)
        for who, contestant in contestants.items():
            found = rows_in_order(f"{contestant.folder}/d/{table}")
            keys = pc.is_in(found["id"], value_set=_keys(touched))
            rows = {row["id"]: row for row in found.filter(keys).to_pylist()}
            if found.num_rows != count or rows != touched:
                sys.exit(f"{who}: {table} is not what the changes make of it")
    if contestants:
        print(f"every table of {', '.join(contestants)} holds what the changes make of it")


def _keys(touched: Collection[int]) -> pa.Array:
    return pa.array(list(touched), pa.int64())


if __name__ == "__main__":
    main()
