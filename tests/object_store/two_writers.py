"""Two writers commit to one table in an object store: each version is made by one of them, and the other is told.

    python -m tests.object_store.two_writers --rounds 200

Who meets: delta-rs and Spark, our own committer and Spark, and two of our own (``writers``). Scenes: ``race``: both commit as fast as they go.
``held``: the other one commits while a commit is on its way, after its look and before its write; both ways round. ``faults``: the store loses
answers, is busy, slow, refuses, or does so beside another put that is under way (409 of Amazon's). ``by_deltas_own``: ``held`` with Delta's own log store, and ``by_plain_puts``: with our committer's condition left out:
both lose commits, which the same oracle has to see (``commits_seen``). A server of its own is started; the Spark is one with this project's settings, its
log store among them. Prints what came out as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession

from ingest.config.lake_settings import Lake
from ingest.job import spark_session
from ingest.lake.files import object_files, object_store
from ingest.lake.files.object_files import ObjectFiles
from ingest.model.names import RESERVED_COLUMN
from tests.object_store.commits_seen import COMMIT, Wire, came_out, log
from tests.object_store.writers import COLUMNS, ByDeltaRs, BySpark, Ours, Told, Writer
from tests.support import faulty_http, s3
from tests.support.cold import CONF
from tests.support.direct_lake import META
from tests.support.faulty_http import Fault, Faulty
from tests.support.remote_lake import held as rows_of
from tests.support.s3 import S3

PAIRS = ("delta-rs-and-spark", "ours-and-spark", "ours-and-ours")
SCENES = ("race", "held", "faults", "by_deltas_own", "by_plain_puts")
ANSWERS: tuple[Fault, ...] = ("lost", "busy", "slow", "conflict", "denied")
PATIENT = "300s"
"""A put is held until another writer has made its commit, however busy the machine: who gave up and put again meanwhile would be first."""
DELTAS_OWN = {"spark.delta.logStore.s3.impl": "io.delta.storage.S3SingleDriverLogStore"}
"""For paths of another scheme, by which the same store is reached."""


@dataclass
class Place:
    """A server behind one that spoils its answers, and a Spark."""

    store: S3
    faulty: Faulty
    spark: SparkSession
    room: Path
    wire: Wire = field(default_factory=Wire)

    def table(self, name: str, scheme: str = "s3a") -> str:
        """An empty one."""
        path = f"{scheme}://{s3.BUCKET}/two-writers/{name}"
        schema = Schema.from_arrow(pa.schema({**COLUMNS, RESERVED_COLUMN: META}))
        DeltaTable.create(path, schema, storage_options=self.store.environment())
        return path

    def pair(self, of: str, path: str, told: Told) -> tuple[Writer, Writer]:
        """Both writers of a pair."""
        if of == "delta-rs-and-spark":
            options = {**self.store.environment(self.faulty.endpoint), "timeout": PATIENT}
            return ByDeltaRs(path, options, told), BySpark(self.spark, path, told)
        ours = Ours("ours", path, self.room, told)
        # Deletion vectors from the start: what adds them changes the protocol, behind which nobody else's commit goes on.
        ours.begin("mark")
        if of == "ours-and-spark":
            return ours, BySpark(self.spark, path, told)
        return ours, Ours("ours-too", path, self.room, told)

    def came_out(self, path: str, told: Told, begun: int) -> dict[str, Any]:
        """See ``commits_seen``."""
        key = path.partition("://")[2]
        bucket, _, name = key.partition("/")
        entries = log(self.store.home / "data" / bucket / name)
        rows = rows_of(path, self.store.environment())
        return came_out(entries, self.wire.puts[key], told, rows, begun)


def race(one: Writer, other: Writer, rounds: int, dice: random.Random) -> None:
    """Half of the rounds by each, or as many as the slower one leaves time for."""

    def slow() -> None:
        for _ in range(rounds // 2):
            other.commit()

    def fast() -> None:
        # About as often as the slow one: who always finds its version taken gives up in the end.
        pause = 1.0 if isinstance(other, BySpark) else 0.05
        while not ended.wait(dice.uniform(0, pause)):
            one.commit()

    ended = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        beside = pool.submit(fast)
        try:
            slow()
        finally:
            ended.set()
        beside.result()


def held(one: Writer, other: Writer, rounds: int, faulty: Faulty) -> int:
    """Each in turn. Returns how often a commit was held until the other one had made its own."""
    met = 0
    for number in range(rounds):
        first, second = (other, one) if number % 2 else (one, other)
        left = [second.commit]

        def fault(method: str, path: str, left: list[Callable[[], None]] = left) -> Fault:
            if method == "PUT" and COMMIT.match(path) and left:
                left.pop()()
            return "none"

        faulty.fault = fault
        first.commit()
        met += not left
    faulty.fault = lambda method, path: "none"
    return met


def spoilt(one: Writer, other: Writer, rounds: int, faulty: Faulty, kind: Fault) -> None:
    """The first put of each commit is answered so, and where clients put again by themselves also the second. One that was denied is followed by one
    that is not.
    """
    for writer in (one, other) * rounds:
        left = [kind] if kind in ("denied", "slow") else [kind, kind]

        def fault(method: str, path: str, left: list[Fault] = left) -> Fault:
            commits = method == "PUT" and COMMIT.match(path)
            return left.pop() if commits and left else "none"

        faulty.fault = fault
        writer.commit()
        if kind == "denied":
            writer.commit()
    faulty.fault = lambda method, path: "none"


@contextmanager
def plain_puts() -> Iterator[None]:
    """Our committer looks first, and writes then."""

    def create(self: ObjectFiles, name: str, text: str) -> bool:
        if self.seen(name) is not None:
            return False
        self.write(name, text)
        return True

    conditional = ObjectFiles.create
    ObjectFiles.create = create  # type: ignore[method-assign]
    try:
        yield
    finally:
        ObjectFiles.create = conditional  # type: ignore[method-assign]


def scene(place: Place, name: str, of: str, rounds: int, dice: random.Random) -> dict[str, Any]:
    """What came out of one. ``of``: the pair, or the kind of answers."""
    pair = "ours-and-spark" if of in ANSWERS else of
    scheme = "s3" if name == "by_deltas_own" else "s3a"
    # Of ours both as first and as second, in each way.
    least = 6 if "ours" in pair else 2
    path, told, started = place.table(f"{name}-{of}", scheme), Told(), time.monotonic()
    one, other = place.pair(pair, path, told)
    begun, met = DeltaTable(path, storage_options=place.store.environment()).version() + 1, 0
    if name == "race":
        race(one, other, rounds, dice)
    elif name == "faults":
        spoilt(one, other, max(1, rounds // 20), place.faulty, of)  # type: ignore[arg-type]
    elif name == "by_plain_puts":
        with plain_puts():
            met = held(one, other, max(least, rounds // 4), place.faulty)
    else:
        met = held(one, other, max(least, rounds // 4), place.faulty)
    out = place.came_out(path, told, begun)
    return {**out, "met": met, "seconds": round(time.monotonic() - started)}


def variants(name: str) -> Sequence[str]:
    """Of a scene."""
    return {
        "faults": ANSWERS,
        "by_deltas_own": ("delta-rs-and-spark",),
        "by_plain_puts": ("ours-and-ours",),
    }.get(name, PAIRS)


def scenes(folder: Path, rounds: int, seed: int, chosen: Sequence[str]) -> dict[str, Any]:
    """By scene and variant, what came out."""
    store = s3.start(folder / "s3")
    try:
        with faulty_http.before(store.port) as faulty:
            storage = store.storage(faulty.endpoint)
            lake = Lake.model_validate({"path": f"s3a://{s3.BUCKET}/lake", "storage": storage})
            object_store.lend(lake)
            spark = spark_session.create(
                "two-writers",
                master="local[2]",
                driver_memory="1g",
                conf={**CONF, **object_store.spark_settings(lake), **DELTAS_OWN},
                log=folder / "spark.log",
                more=["s3"],
            )
            place, dice = Place(store, faulty, spark, folder / "room"), random.Random(seed)
            faulty.heard = place.wire.heard
            try:
                return {
                    name: {of: scene(place, name, of, rounds, dice) for of in variants(name)}
                    for name in chosen
                }
            finally:
                spark.stop()
    finally:
        store.stop()


def main() -> None:
    object_files._SMALL["timeout"] = PATIENT
    object_files._SMALL_RETRY["retry_timeout"] = timedelta(minutes=10)
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
