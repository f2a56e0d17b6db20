"""What each way of recognising re-sent changes costs: `dedup.by` position, watermark and both.

One backlog in Kafka, a tenth of it sent a second time, drained anew into an empty lake by a process
of its own for each way, several rounds, interleaved. Prints medians of CPU seconds (the whole process
tree), the state that Spark kept, and what was recognised; every lake has to end with the same rows.

    .venv/bin/python -m bench.dedup [--changes 60000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.spent import by_command
from bench.stacks import fresh_stack
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from tests.kills.faults.kafka_side import send_again
from tests.kills.lab import Lab

WAYS = ("position", "watermark", "both")


@dataclass
class Spent:
    """One way's rounds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    state_rows: int = 0
    state_bytes: int = 0
    recognised: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with fresh_stack("dedup") as (stack, folder):
        measure(stack, folder, given)


def measure(stack: Stack, folder: Path, given: argparse.Namespace) -> None:
    first = Lab(stack, folder / "first", name="dedup")
    first.prepare()
    drain(first)
    changes(first, given.changes)
    drain(first)
    sent = send_again(first, "dedup.dedup.keyed", given.changes // 10)
    print(f"{given.changes:,} changes, {sent:,} of them sent again")
    rows: Counter[Any] = first.source_rows("keyed")
    found = {way: Spent() for way in WAYS}
    for round_ in range(given.rounds):
        for way in WAYS:
            lab = Lab(
                stack, folder / f"{way}{round_}", name="dedup", settings={"dedup": {"by": way}}
            )
            lab.write_pipeline()
            lab.disarm()
            started = time.monotonic()
            found[way].cpu.append(drain(lab))
            found[way].wall.append(time.monotonic() - started)
            if lab.lake_rows("keyed") != rows:
                sys.exit(f"{way}: the lake is not what MySQL says")
            entries = Ledger(str(lab.lake)).entries(1_000_000)
            found[way].state_rows = max(entry.state_rows for entry in entries)
            found[way].state_bytes = max(entry.state_bytes for entry in entries)
            found[way].recognised = sum(entry.resent for entry in entries)
    for way, spent in found.items():
        cpu = statistics.median(spent.cpu)
        print(
            f"{way:<10} CPU {cpu:6.1f} s ({cpu / given.changes * 1e6:5.0f} µs per change), "
            f"wall {statistics.median(spent.wall):5.1f} s, state {spent.state_rows:,} rows "
            f"{spent.state_bytes / 1e6:.1f} MB, {spent.recognised:,} recognised behind it"
        )


def changes(lab: Lab, count: int) -> None:
    """Updates of 2,000 rows in transactions of 100."""
    lab.sql(
        "SET SESSION cte_max_recursion_depth = 10000",
        f"REPLACE INTO {lab.name}.keyed WITH RECURSIVE n(i) AS "
        "(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) SELECT i, 0, 'first' FROM n",
    )
    for n in range(count // 100):
        low = n * 100 % 2000
        lab.sql(
            f"UPDATE {lab.name}.keyed SET v = 'v{n}' WHERE part = 0 AND id >= {low} AND id < {low + 100}"
        )


def drain(lab: Lab) -> float:
    """`ingest run --once`; CPU seconds of the process and everything it started."""
    command = [sys.executable, "-m", "ingest", "run", str(lab.file), "--once"]
    return by_command(command, lab.folder, lab.env).cpu


if __name__ == "__main__":
    main()
