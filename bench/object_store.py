"""What a lake in an object store costs the small lane: 1,000 changes into a million rows, beside the same table in a local folder.

    python -m bench.object_store [--rounds 5] [--changes 1000] [--json F]

The server is versitygw where the PATH has one, else s3proxy, on this machine: what a network adds is not in it. Both tables have eight
files; each round makes the same changes to both, in turns, as a batch of the job does: looked at, merged, committed. ``marked``: keys from
anywhere, by deletion vectors; ``recent``: the newest thousand keys, whose file is written anew.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import result_file
from tests.support import s3
from tests.support.direct_lake import DirectLake
from tests.support.remote_lake import RemoteLake

COLUMNS = {"id": pa.int64(), "v": pa.string()}
ROWS, FILES = 1_000_000, 8


def filled(lake: DirectLake) -> DirectLake:
    """With its rows, in order of their ids."""
    for start in range(0, ROWS, ROWS // FILES):
        ids = list(range(start, start + ROWS // FILES))
        lake.append({"id": ids, "v": [f"row {number}" for number in ids]})
    return lake


def taken(lake: DirectLake, how: str, ids: list[int], text: str) -> float:
    """Seconds of one batch."""
    values: dict[str, list[Any]] = {"id": ids, "v": [text] * len(ids)}
    started = time.monotonic()
    lake.mark(values) if how == "marked" else lake.merge(values)
    return time.monotonic() - started


def measured(folder: Path, rounds: int, changes: int) -> dict[str, dict[str, list[float]]]:
    """By way and side, each round's seconds; a round before them all is not among them."""
    store, dice = s3.start(folder / "s3"), random.Random(1)
    try:
        with s3.environment(store.environment()):
            sides = {
                "local": filled(DirectLake(folder, COLUMNS)),
                "object store": filled(RemoteLake(f"s3a://{s3.BUCKET}/bench/t", folder, COLUMNS)),
            }
            found = {how: {side: list[float]() for side in sides} for how in ("marked", "recent")}
            for number in range(rounds + 1):
                for how in found:
                    ids = dice.sample(range(ROWS), changes)
                    if how == "recent":
                        ids = list(range(ROWS - changes, ROWS))
                    for side in sorted(sides, reverse=number % 2 == 1):
                        seconds = taken(sides[side], how, ids, f"{how} {number}")
                        if number:
                            found[how][side].append(seconds)
            return found
    finally:
        store.stop()


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--changes", type=int, default=1_000)
    result_file.asks_for_json(options)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), given.rounds, given.changes)
    for how, sides in found.items():
        local, remote = (statistics.median(sides[side]) for side in ("local", "object store"))
        print(
            f"{how:7} local {local * 1000:6.0f} ms   object store {remote * 1000:6.0f} ms   {remote / local:.2f} x"
        )
    result_file.write(given, "object_store", took=found)


if __name__ == "__main__":
    main()
