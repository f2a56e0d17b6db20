"""Many small batches into one large table: what they write, how its files lie afterwards, what a scan then takes.

    PYTHONPATH=. .venv/bin/python -m bench.layout --keys recent
    PYTHONPATH=. .venv/bin/python -m bench.layout --keys zipf
    PYTHONPATH=. .venv/bin/python -m bench.layout --only ingest --batches 2000 --young

Prints, for each contestant: bytes written over all batches (data, logs and checkpoints, the manifest, too), the
median time of the batches from the 20th to the 30th and of the last ten, live files, and a full scan's time beside
that of a copy which was compacted afresh, by Spark and by delta-rs. With ``--young`` the last eleven batches take
turns with the batches 20 to 30 of a second lake: what age costs, whatever else the machine did an hour ago. Ends with
an error when a table is not what the changes make of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from bench import result_file
from bench.contestants import STOCK, Contestant, HandWritten, Ingest
from bench.merges import verify
from bench.stacks import fresh_spark
from bench.workload import Workload

YOUNG = range(19, 30)
"""The batches of a young lake that the last ones of an old lake are held against: the 20th to the 30th."""

SUM = "sum(id) a, sum(customer) b, sum(amount) c, count(status) d, count(note) e, sum(changed) f"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", choices=["uniform", "zipf", "recent"], default="recent")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--scans", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=["stock", "ingest"])
    parser.add_argument(
        "--young", action="store_true", help="the last batches take turns with a young lake's"
    )
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_spark() as (spark, folder):
        work = Workload(1, given.rows, given.changes, keys=given.keys)
        contestants: dict[str, Contestant] = {}
        for who in given.only:
            work.fill(spark, folder / who, ours=who == "ingest")
            at = folder / who
            contestants[who] = (
                Ingest(spark, at, work) if who == "ingest" else HandWritten(spark, at, STOCK, 1)
            )
        before = {who: _bytes(at) for who, one in contestants.items()}
        took: dict[str, list[float]] = {who: [] for who in contestants}
        changed = 0
        for number in range(given.batches - (len(YOUNG) if given.young else 0)):
            messages = work.batch(folder / "batch.parquet")
            changed += messages.stat().st_size
            for who, contestant in contestants.items():
                started = time.perf_counter()
                contestant.take(messages, work.names)
                took[who].append(time.perf_counter() - started)
            if number % 20 == 0:
                print(
                    f"batch {number}: " + ", ".join(f"{w} {t[-1]:.2f} s" for w, t in took.items()),
                    flush=True,
                )
        turns = dict[str, list[float]]()
        if given.young:
            old = contestants["ingest"]
            assert isinstance(old, Ingest)
            turns = beside_young(spark, folder, work, old, given.batches)
        verify(work, contestants)
        print(f"\n{given.batches} batches of {given.changes} changes, keys {given.keys}")
        found = {}
        for who in contestants:
            at = folder / who
            found[who] = {
                "bytes": sum(_bytes(at).values()) - sum(before[who].values()),
                **{k: v - before[who].get(k, 0) for k, v in _bytes(at).items()},
                "early": statistics.median(took[who][20:30]),
                "late": statistics.median(took[who][-10:]),
                **_files(at / "d" / work.names[0]),
                **_scans(spark, at / "d" / work.names[0], folder / "copy", given.scans),
            }
            print(who, json.dumps(found[who]))
        if "stock" in found and "ingest" in found:
            ratio = found["ingest"]["bytes"] / found["stock"]["bytes"]
            print(f"bytes written: {ratio:.3f} of stock's; the messages have {changed:,} bytes")
        result_file.write(given, "layout", took=took, found=found, beside_young=turns)


def beside_young(
    spark: SparkSession, folder: Path, work: Workload, old: Ingest, batches: int
) -> dict[str, list[float]]:
    """The old lake's last batches and a young one's, in turns: their seconds. Prints medians, of each stage too, and
    their ratio.
    """
    fresh = Workload(work.tables, work.rows, work.changes, keys=work.keys)
    fresh.fill(spark, folder / "young", ours=True)
    young = Ingest(spark, folder / "young", fresh)
    for _ in range(YOUNG.start):
        young.take(fresh.batch(folder / "young.parquet"), fresh.names)
    took: dict[str, list[float]] = {"old": [], "young": []}
    stages: dict[str, list[dict[str, float]]] = {"old": [], "young": []}
    for number in YOUNG:
        turns = {
            "old": (old, work.batch(folder / "batch.parquet")),
            "young": (young, fresh.batch(folder / "young.parquet")),
        }
        for who in sorted(turns, reverse=number % 2 == 0):
            contestant, messages = turns[who]
            started = time.perf_counter()
            contestant.take(messages, work.names)
            took[who].append(time.perf_counter() - started)
            assert contestant.batches.newest is not None
            stages[who].append(dict(contestant.batches.newest.stages))
    verify(fresh, {"young": young})
    late, early = statistics.median(took["old"]), statistics.median(took["young"])
    print(
        f"batches {batches - len(YOUNG) + 1}–{batches}: {late:.3f} s, batches {YOUNG.start + 1}–{YOUNG.stop} "
        f"of a young lake between them: {early:.3f} s, {late / early:.3f} x  {json.dumps(took)}"
    )
    for who, found in stages.items():
        typical = {stage: statistics.median(one[stage] for one in found) for stage in found[0]}
        print(who, ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in typical.items()))
    return took


def _bytes(folder: Path) -> dict[str, int]:
    """Of data, of logs, of what is ours."""
    found = {"data": 0, "logs": 0, "own": 0}
    for file in folder.rglob("*"):
        if file.is_file():
            ours = "_ingest" in file.parts
            kind = "own" if ours else "logs" if "_delta_log" in file.parts else "data"
            found[kind] += file.stat().st_size
    return found


def _files(table: Path) -> dict[str, float]:
    newest = DeltaTable(table)
    sizes = pa.table(newest.get_add_actions())["size_bytes"].to_pylist()
    return {"files": len(sizes), "live_bytes": sum(sizes), "version": newest.version()}


def _scans(spark: SparkSession, table: Path, copy: Path, rounds: int) -> dict[str, float]:
    """Medians of a full scan, beside that of a copy that Spark's OPTIMIZE compacted."""
    shutil.copytree(table, copy)
    spark.sql(f"OPTIMIZE delta.`{copy}`")
    ways: dict[str, Callable[[Path], object]] = {
        "spark": lambda at: (
            spark.read.format("delta").load(str(at)).selectExpr(*SUM.split(", ")).collect()
        ),
        "delta_rs": lambda at: pa.table(
            QueryBuilder().register("t", DeltaTable(at)).execute(f"SELECT {SUM} FROM t").read_all()
        ),
    }
    found = dict[str, float]()
    for way, scan in ways.items():
        took: dict[Path, list[float]] = {table: [], copy: []}
        for at in (table, copy):
            scan(at)
        for _ in range(rounds):
            for at, times in took.items():
                started = time.perf_counter()
                scan(at)
                times.append(time.perf_counter() - started)
        as_is, compacted = (statistics.median(times) for times in took.values())
        found |= {f"scan_{way}": as_is, f"scan_{way}_compacted": compacted}
    shutil.rmtree(copy)
    return found


if __name__ == "__main__":
    main()
