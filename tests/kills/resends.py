"""The Connect worker killed again and again without exactly-once source: it re-sends each time.

    python -m tests.kills.resends [--kills 50] [--transactions 200000] [--seed 3]

Ends with three facts: lake = source, no version of the table ever showed a row older than an
earlier version did, and nothing that was sent again was taken for another change at its place.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from deltalake import DeltaTable

from ingest.lake.delta.delta_sql import queried
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from ingest.model.position import Position
from tests.kills.lab import Lab

KEYS = 1500


def write(lab: Lab, transactions: int, seed: int, done: list[int], stop: threading.Event) -> None:
    """Single-row and multi-row transactions on one table with a key, and on the others now and then."""
    rng = random.Random(seed)
    with closing(lab.stack.mysql().admin()) as connection, connection.cursor() as cursor:
        table = f"{lab.name}.keyed"
        for n in range(transactions):
            if stop.is_set():
                return
            key, part = rng.randrange(KEYS), rng.randrange(3)
            kind = rng.random()
            if kind < 0.55:
                cursor.execute(f"REPLACE INTO {table} VALUES ({key}, {part}, 'v{n}')")
            elif kind < 0.8:
                cursor.execute(f"DELETE FROM {table} WHERE id = {key} AND part = {part}")
            elif kind < 0.9:
                cursor.execute(
                    f"UPDATE {table} SET v = 'm{n}' WHERE part = {part} AND id >= {key} LIMIT 5"
                )
            elif kind < 0.97:
                values = ", ".join(f"({(key + i) % KEYS}, {part}, 'r{n}')" for i in range(4))
                cursor.execute(f"REPLACE INTO {table} VALUES {values}")
            else:
                cursor.execute(f"INSERT INTO {lab.name}.bag VALUES ({key % 7}, 'z')")
            done[0] += 1
            while done[0] > done[1] and not stop.is_set():
                time.sleep(0.01)


def regressions(path: Path) -> tuple[int, list[str]]:
    """How many versions were looked at, and every row that one of them shows older than before."""
    table = DeltaTable(str(path))
    newest: dict[tuple[int, int], Position] = {}
    found = []
    for version in range(table.version() + 1):
        table.load_as_version(version)
        for row in queried(table, "SELECT id, part, _ingest FROM rows"):
            key = (row["id"], row["part"])
            position = Position.from_mapping(row["_ingest"]["position"])
            if key in newest and position < newest[key]:
                found.append(f"version {version}: {key} at {position} after {newest[key]}")
            newest[key] = max(position, newest.get(key, position))
    return table.version() + 1, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--transactions", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="ingest-resends-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.exactly_once = False
        stack.up({}, print)
        try:
            sys.exit(resends(stack, Path(folder), given))
        finally:
            stack.down()


def resends(stack: Stack, folder: Path, given: argparse.Namespace) -> int:
    lab = Lab(stack, folder / "lab", name="resent")
    # Durability of the source is not what is tested; without these it would be the slowest part.
    lab.sql("SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    lab.prepare()
    lab.start()
    lab.until_equal()
    per_kill = given.transactions // given.kills
    done, stop = [0, per_kill], threading.Event()
    writer = threading.Thread(
        target=write, args=(lab, given.transactions, given.seed, done, stop), daemon=True
    )
    writer.start()
    started = time.monotonic()
    rng = random.Random(given.seed)
    try:
        for kill in range(given.kills):
            lab.until(lambda: done[0] >= done[1] - per_kill // 3, "writing", 600)
            time.sleep(rng.uniform(0.3, 3))
            status = lab.kill("connect")
            assert status == -9, status
            done[1] += per_kill
            lab.restart("connect")
            lab.until(lambda: _streams(lab), "streaming again", 180)
            print(f"kill {kill + 1:>3}: {done[0]:,} transactions written", flush=True)
        done[1] = given.transactions + 1
        writer.join(600)
        lab.until_equal(900)
    finally:
        stop.set()
        lab.close()
    entries = Ledger(str(lab.lake)).entries(1_000_000)
    versions, found = regressions(lab.lake / lab.name / "keyed")
    resent = sum(entry.resent for entry in entries)
    changes = sum(entry.changes for entry in entries)
    print(
        f"{done[0]:,} transactions, {given.kills} kills, {changes:,} changes applied, {resent:,} "
        f"re-sent ones recognised, {versions} versions looked at, {len(found)} regressions, "
        f"lake = source, {time.monotonic() - started:.0f} s"
    )
    print("\n".join(found[:10]))
    newest = Ledger(str(lab.lake)).last()
    gaps = [f"{gap.table}: {gap.reason}" for gap in (newest.gaps if newest else ())]
    print(
        f"{len(gaps)} gaps: what is sent again is never taken for something else", *gaps, sep="\n"
    )
    return 1 if found or gaps or not resent else 0


def _streams(lab: Lab) -> bool:
    return bool(
        lab.sql("SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
    )


if __name__ == "__main__":
    main()
