"""A flow under keys that stay the same: how many files and bytes its checkpoint has after 200 batches, and after 2,000.

    python -m bench.flow_state --batches 2000 --keys 1000

A state store writes a change log per batch and partition, a snapshot now and then, and removes what nobody needs. What is left of that is to
stay level. Files and bytes go up and down between two rounds of maintenance, so each figure is the highest of the 60 batches from there on.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from ingest.job import spark_session
from ingest.recipes.stage import Stage

EARLY = 200
SPAN = 60


def held(checkpoint: Path) -> tuple[int, int]:
    """Files and bytes of its state, its offsets and its commits. What its source notes of each file grows with the files."""
    files, size = 0, 0
    for part in ("state", "offsets", "commits"):
        for one in (checkpoint / part).rglob("*"):
            try:
                size += one.stat().st_size
            except FileNotFoundError:  # it is removed meanwhile
                continue
            files += 1
    return files, size


def flow(stage: Stage) -> dict[str, Any]:
    """Counts by key, within a watermark of ten minutes."""
    sql = stage.folder / "counted.sql"
    window = "window(at, '1 hour')"
    sql.write_text(f"SELECT {window} window, key, count(*) n FROM rows GROUP BY {window}, key")
    columns = {"columns": "at timestamp, key int", "at_once": 1}
    timed = {"event_time": "at", "watermark": "10 minutes"}
    given = {"files": str(stage.folder / "rows"), **columns, **timed}
    sinks = [{"files": str(stage.folder / "counted"), "format": "json"}]
    return {"sql": str(sql), "inputs": {"rows": given}, "mode": "update", "sinks": sinks}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--batches", type=int, default=2000)
    options.add_argument("--keys", type=int, default=1000)
    given = options.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), Console())
        stage._made = spark_session.create(
            "state",
            master="local[2]",
            driver_memory="2g",
            conf=spark_session.FLOWS,
            log=stage.folder / "spark.log",
        )
        for batch in range(given.batches + SPAN):
            moment = f"2026-01-01T12:{batch // 60 % 60:02}:{batch % 60:02}Z"
            keys = rng.sample(range(given.keys), min(100, given.keys))
            stage.put("rows", [{"at": moment, "key": key} for key in keys])
        query = stage.query(stage.flows(f=flow(stage)), "f")
        started = time.monotonic()
        running = query.start(once=True)
        checkpoint = stage.folder / "lake" / "_ingest" / "flows" / "f" / "checkpoint-1"
        most = {EARLY: (0, 0), given.batches: (0, 0)}
        while not running.awaitTermination(1):
            number = running.lastProgress["batchId"] if running.lastProgress else -1
            for first, (files, size) in most.items():
                if first <= number < first + SPAN:
                    now = held(checkpoint)
                    most[first] = max(files, now[0]), max(size, now[1])
            threading.Event().wait(0.2)
        early, late = most[EARLY], most[given.batches]
        print(f"{given.batches + SPAN} batches in {time.monotonic() - started:.0f} s")
        for what, at in (("files", 0), ("bytes", 1)):
            ratio = late[at] / max(1, early[at])
            print(
                f"{what}: {early[at]:,} at batch {EARLY}, {late[at]:,} at {given.batches}: {ratio:.2f} x"
            )
        stage.end()


if __name__ == "__main__":
    main()
