"""Batches of the sample shop, stage by stage: how long each takes, warm.

Starts an embedded stack of its own, fills the shop, runs seeded traffic, and then drains the backlog
in batches of a fixed size, several times over. Prints medians; nothing here is asserted.

    python bench/batches.py [--transactions 6000] [--batch 5000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from ingest.batch import micro_batch, readers, side_by_side, step_cutter
from ingest.batch.batch_report import BatchReport
from ingest.config import pipeline_file
from ingest.job import spark_session
from ingest.job.first_pipeline_file import First, write
from ingest.job.run import Run
from ingest.lake.quarantine import held_back
from ingest.local.mysql import PIPELINE
from ingest.local.stack import Stack
from ingest.sample import world
from ingest.sample.traffic import Traffic
from tests.support.server import Server

STAGES = [
    (readers.Reader, "read"),
    (step_cutter.StepCutter, "prepare"),
    (held_back.HeldBack, "take"),
    (side_by_side.SideBySide, "apply"),
    (micro_batch.Batches, "publish"),
    (micro_batch.Batches, "apply"),
]


def timed(spent: dict[str, list[float]]) -> None:
    """Wrap each stage so that it notes its seconds."""
    for owner, name in STAGES:
        inner = getattr(owner, name)

        def outer(*args: Any, _inner: Any = inner, _name: str = name, **kwargs: Any) -> Any:
            started = time.monotonic()
            try:
                return _inner(*args, **kwargs)
            finally:
                spent[_name].append(time.monotonic() - started)

        setattr(owner, name, outer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spent: dict[str, list[float]] = defaultdict(list)
    timed(spent)
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as folder:
        stack = Stack.at(Path(folder))
        stack.up({}, print)
        try:
            measure(stack, Path(folder), given, spent)
        finally:
            stack.down()


def measure(stack: Stack, folder: Path, given: Any, spent: dict[str, list[float]]) -> None:
    server = Server(stack)
    world.create(server.connect().cursor())
    traffic = Traffic(server.connect, per_second=100_000)
    traffic.run(threading.Event(), limit=given.transactions)
    print(f"{traffic.transactions:,} transactions done")
    mysql = stack.mysql()
    for round_ in range(given.rounds):
        file = folder / f"shop{round_}.yaml"
        url = f"mysql://{PIPELINE}@127.0.0.1:{mysql.port}"
        write(
            First(
                url,
                mysql.secret(PIPELINE),
                ("shop.*",),
                "shop",
                None,
                None,
                str(folder / f"lake{round_}"),
            ),
            file,
            folder,
            force=True,
        )
        with file.open("a") as text:
            text.write(f"\nspark: {{max_changes_per_batch: {given.batch}}}\n")
        batches: list[BatchReport] = []
        started = time.monotonic()
        Run(pipeline_file.load(file), folder / "spark.log", lambda _: None, batches.append).execute(
            once=True
        )
        changes = sum(report.entry.changes for report in batches)
        print(
            f"round {round_}: {changes:,} changes in {len(batches)} batches, "
            f"{time.monotonic() - started:.1f} s with start-up"
        )
    print(f"\n{'stage':<16}{'median s':>10}{'max s':>10}{'n':>6}   (first two batches left out)")
    for _, name in STAGES:
        warm = spent[name][2:] or spent[name]
        print(
            f"{name.strip('_'):<16}{statistics.median(warm):>10.2f}{max(warm):>10.2f}{len(warm):>6}"
        )


if __name__ == "__main__":
    assert spark_session  # imported first, so that its JVM settings hold for every round
    main()
