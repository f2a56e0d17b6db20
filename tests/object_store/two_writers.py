"""Spark and delta-rs commit to one table in an object store: each commit that was confirmed is there, once.

    python -m tests.object_store.two_writers --rounds 200

Five scenes. ``race``: both append as fast as they go. ``held``: the other one commits while a commit is on its way, after its look
and before its write; both ways round. ``by_deltas_own``: the same with Delta's own log store, which loses. ``lost``: the answers to Spark's commits are lost. ``conflict``: the store refuses
Spark's commits beside others that are under way, as Amazon's does by 409, and takes them when they are asked again; the last one never. A server of its own is started; the
Spark is one with this project's settings, its log store among them. Prints what came out as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from ingest.config.lake_settings import Lake
from ingest.job import spark_session
from ingest.lake.delta.commit import sibling
from ingest.lake.files import object_store
from tests.support import faulty_http, s3
from tests.support.cold import CONF
from tests.support.faulty_http import Faulty

ROOT = f"s3a://{s3.BUCKET}/two-writers"
OF_DELTA = f"s3://{s3.BUCKET}/two-writers"
"""The same store by another scheme, for which Spark is given Delta's own log store."""
SCENES = ("race", "held", "lost", "conflict", "by_deltas_own")
DELTAS_OWN = {"spark.delta.logStore.s3.impl": "io.delta.storage.S3SingleDriverLogStore"}
COMMIT = re.compile(r"_delta_log/\d{20}\.json")


class Table:
    """One table, its two writers, and what was confirmed to them."""

    def __init__(self, spark: SparkSession, path: str, options: dict[str, str]) -> None:
        self.spark, self.path, self.options = sibling(spark), path, options
        self.confirmed, self.refused = list[int](), Counter[str]()
        self._numbers = itertools.count()
        spark.createDataFrame([], "n long").write.format("delta").save(self.path)

    def by_spark(self) -> None:
        n = next(self._numbers)
        rows = self.spark.range(n, n + 1, 1, 1).toDF("n")
        self._tried("spark", n, lambda: rows.write.format("delta").mode("append").save(self.path))

    def by_delta_rs(self, options: dict[str, str] | None = None) -> None:
        n = next(self._numbers)
        row = pa.table({"n": pa.array([n], pa.int64())})

        def append() -> None:
            write_deltalake(
                self.path,
                row,
                mode="append",
                storage_options=options or self.options,
                commit_properties=CommitProperties(max_commit_retries=50),
            )

        self._tried("delta-rs", n, append)

    def _tried(self, who: str, n: int, append: Any) -> None:
        try:
            append()
        except Exception as failure:  # noqa: BLE001 - whichever: what is not confirmed may be there or not, but once
            self.refused[f"{who}: {type(failure).__name__}"] += 1
        else:
            self.confirmed.append(n)

    def came_out(self) -> dict[str, Any]:
        table = DeltaTable(self.path, storage_options=self.options)
        there = Counter(table.to_pyarrow_table()["n"].to_pylist())
        return {
            "confirmed": len(self.confirmed),
            "lost": sorted(set(self.confirmed) - set(there)),
            "twice": sorted(n for n, times in there.items() if times > 1),
            "refused": dict(self.refused),
            "versions": table.version(),
        }


def race(table: Table, rounds: int, dice: random.Random) -> None:
    def spark() -> None:
        for _ in range(rounds // 2):
            table.by_spark()

    def delta_rs() -> None:
        # As often as Spark: it is many times faster, and one that always finds its version taken gives up in the end.
        while not ended.wait(dice.uniform(0, 1)):
            table.by_delta_rs()

    ended = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(delta_rs)
        try:
            spark()
        finally:
            ended.set()
        other.result()


def held(table: Table, rounds: int, faulty: Faulty, through: dict[str, str]) -> int:
    """Each in turn. Returns how often a commit found its version taken."""
    met = 0
    for number in range(rounds):
        first, other = table.by_spark, table.by_delta_rs
        if number % 2:
            first, other = partial(table.by_delta_rs, through), table.by_spark
        left = [other]

        def fault(method: str, path: str, left: list[Any] = left) -> faulty_http.Fault:
            if method == "PUT" and COMMIT.search(path) and left:
                left.pop()()
            return "none"

        faulty.fault = fault
        first()
        met += not left
    faulty.fault = lambda method, path: "none"
    return met


def lost(table: Table, rounds: int, faulty: Faulty, dice: random.Random) -> None:
    def fault(method: str, path: str) -> faulty_http.Fault:
        commits = method == "PUT" and COMMIT.search(path)
        return "lost" if commits and dice.random() < 0.7 else "none"

    faulty.fault = fault
    for _ in range(rounds):
        table.by_spark()
        if dice.random() < 0.5:
            table.by_delta_rs()
    faulty.fault = lambda method, path: "none"


def conflict(table: Table, rounds: int, faulty: Faulty) -> int:
    """Returns how often a commit found its version taken when it was asked again."""
    met = 0
    for number in range(rounds):
        left = [table.by_delta_rs, lambda: None] if number % 2 else [lambda: None] * 2

        def fault(method: str, path: str, left: list[Any] = left) -> faulty_http.Fault:
            if not (method == "PUT" and COMMIT.search(path) and left):
                return "none"
            left.pop()()
            return "conflict"

        faulty.fault = fault
        table.by_spark()
        met += number % 2 and not left
    faulty.fault = lambda method, path: (
        "conflict" if method == "PUT" and COMMIT.search(path) else "none"
    )
    table.by_spark()
    faulty.fault = lambda method, path: "none"
    return met


def scenes(folder: Path, rounds: int, seed: int, chosen: Sequence[str]) -> dict[str, Any]:
    """By scene, what came out."""
    store = s3.start(folder / "s3")
    try:
        with faulty_http.before(store.port) as faulty:
            lake = Lake.model_validate({"path": ROOT, "storage": store.storage(faulty.endpoint)})
            object_store.lend(lake)
            spark = spark_session.create(
                "two-writers",
                master="local[2]",
                driver_memory="1g",
                conf={**CONF, **object_store.spark_settings(lake), **DELTAS_OWN},
                log=folder / "spark.log",
                more=["s3"],
            )
            direct, through = store.environment(), store.environment(faulty.endpoint)
            found, dice = dict[str, Any](), random.Random(seed)
            try:
                for name in chosen:
                    root = OF_DELTA if name == "by_deltas_own" else ROOT
                    table, met = Table(spark, f"{root}/{name}", direct), 0
                    if name == "race":
                        race(table, rounds, dice)
                    elif name == "lost":
                        lost(table, max(2, rounds // 10), faulty, dice)
                    elif name == "conflict":
                        met = conflict(table, max(2, rounds // 10), faulty)
                    else:
                        met = held(table, max(2, rounds // 4), faulty, through)
                    found[name] = {**table.came_out(), "met": met}
            finally:
                spark.stop()
            return found
    finally:
        store.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--scenes", nargs="+", default=SCENES, choices=SCENES)
    said = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        print(json.dumps(scenes(Path(folder), said.rounds, said.seed, said.scenes)))


if __name__ == "__main__":
    main()
