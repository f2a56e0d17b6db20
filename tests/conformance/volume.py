"""The conformance suite by volume: hostile values in drawn histories, as many operations as one likes.

    python -m tests.conformance.volume --lane reader --operations 1000000 --length 20 --seed 1

``model``: the specification against a dictionary that executed the statements. ``reader``: the reader in the driver,
fed with the bytes of messages. ``delta-rs``, ``deletion-vectors``, ``spark``: the job's batches on real Delta tables,
with that engine. Each history has a seed of its own, its number; ``--first`` goes on from a number. What differs ends the
run, and says with which words to see it again.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.job import spark_session
from tests.conformance.histories import History, history
from tests.conformance.reader import ReaderTarget
from tests.conformance.suite import (
    change_log_conforms,
    history_conforms,
    logs_conform,
    mirror_conforms,
    mirrors_conform,
)
from tests.conformance.targets import ModelTarget, SparkTarget

ENGINES = ("delta-rs", "deletion-vectors", "spark")
LANES = ("model", "reader", *ENGINES)
LONG = 200
"""Operations from which a history has more batches, and what costs the square of them is left out."""
TOGETHER, EVERY = 24, 8
"""Tables of short histories that share a lake; of so many, one is read by Spark, too."""


@dataclass
class Counts:
    """Of one run."""

    operations: int = 0
    histories: int = 0
    changes: int = 0
    batches: int = 0

    def take(self, drawn: History, batches: int) -> None:
        self.operations += drawn.operations
        self.histories += 1
        self.changes += sum(map(len, drawn.records))
        self.batches += batches


def drawn(lane: str, length: int, seed: int, number: int, *, logs: bool = False) -> History:
    """The history with this number. ``logs``: in several batches, with crashes."""
    rng = random.Random(f"{seed} {length} {number}")
    batches = 8 if length > LONG else 3
    if lane in ENGINES:  # where a batch costs seconds, whatever is in it
        batches = batches if logs else batches // 2
    if lane == "reader":
        several = rng.random() < 0.2
        return history(
            rng,
            keyed=True,
            crashes=False,
            length=length,
            plain=True,
            partitions=3 if several else 1,
            batches=1 if several else batches,
        )
    return history(rng, crashes=logs, length=length, batches=batches)


def by_model(histories: list[History]) -> None:
    (one,) = histories
    mirror_conforms(one, ModelTarget(one))
    change_log_conforms(one)
    if one.keyed and one.operations <= LONG:
        history_conforms(one)


def by_reader(histories: list[History]) -> None:
    (one,) = histories
    mirror_conforms(one, ReaderTarget(one))


def together(
    spark: Any, folder: Path, engine: str, histories: list[History], *, logs: bool
) -> None:
    """As tables of one lake. What delta-rs has written, Spark reads, too: it costs a second a table."""
    written = ["mirror", "change_log"] if logs else ["mirror"]
    more = {"spark": {"merge_engine": engine}, "defaults": {"targets": written}}
    target = SparkTarget(spark, folder, *histories, **more)
    try:
        mirrors_conform(histories, target)
        if logs:
            logs_conform(histories, target)
        for index in range(0, len(histories) if engine != "spark" else 0, EVERY):
            assert target.content_by_spark(index) == histories[index].final, f"table {index}, Spark"
    finally:
        target.remove()


def groups(given: argparse.Namespace, counts: Counts) -> Iterator[list[int]]:
    """Numbers of histories until there are enough operations."""
    size = 1 if given.lane not in ENGINES else 4 if given.length > LONG else TOGETHER
    first = given.first
    while counts.operations < given.operations:
        yield list(range(first, first + size))
        first += size


def run(given: argparse.Namespace, conform: Callable[[list[History]], None]) -> None:
    """Until there are enough operations, or one history does not conform."""
    counts, started, said = Counts(), time.monotonic(), 0.0
    for numbers in groups(given, counts):
        histories = [
            drawn(given.lane, given.length, given.seed, n, logs=given.logs) for n in numbers
        ]
        try:
            conform(histories)
        except BaseException:
            again = f"--lane {given.lane}{' --logs' * given.logs} --length {given.length} --seed {given.seed}"
            print(f"a difference: {again} --first {numbers[0]} --operations 1", flush=True)
            raise
        for one in histories:
            counts.take(one, len(one.cuts))
        now = time.monotonic() - started
        if now - said > 15:
            said = now
            print(f"{counts} in {now:.0f} s; next: --first {numbers[-1] + 1}", flush=True)
    print(
        f"all equal: lane {given.lane}, length {given.length}, seed {given.seed}, histories from "
        f"{given.first}: {counts} in {time.monotonic() - started:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lane", choices=LANES, required=True)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=20, help="operations of one history")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--logs", action="store_true", help="of the engines: with change logs")
    given = parser.parse_args()
    if given.lane not in ENGINES:
        run(given, by_model if given.lane == "model" else by_reader)
        return
    with tempfile.TemporaryDirectory(prefix="ingest-volume-") as name:
        folder = Path(name)
        spark = spark_session.create(
            "volume", master="local[2]", driver_memory="3g", conf={}, log=folder / "spark.log"
        )
        try:
            run(given, lambda some: together(spark, folder, given.lane, some, logs=given.logs))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
