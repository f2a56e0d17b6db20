"""How long a commit in MySQL takes to be readable in Delta, under steady traffic.

    .venv/bin/python -m bench.freshness [--tables 10] [--rows 10000] [--rate 500] [--seconds 120] [--warm 180]
                                        [--each 1]

Single-row changes (20 inserts, 60 updates, 20 deletes in a hundred) of all tables together at ``--rate`` a
second, ``--each`` in a transaction, while `ingest run` runs as its users start it. Inserts have ascending keys,
and Delta's own statistics of a version say up to which key it holds them: a reader's clock that first sees a
version with a key gives its freshness. MySQL, Kafka, Connect, the job and this reader share the machine. At the
end every table is compared with MySQL.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.drains import drain, fill, pipeline, refuse_different, source_rows
from bench.stacks import fresh_stack
from ingest.demo.job import Job
from ingest.ledger import Ledger
from ingest.local.stack import Stack
from ingest.table_log import is_there


@dataclass
class Written:
    """The inserts of one table that no reader has seen yet, oldest first: key, and when its commit returned."""

    unseen: deque[tuple[int, float]] = field(default_factory=deque)
    born: int = 0
    changes: int = 0
    table: DeltaTable | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--each", type=int, default=1, help="changes in a transaction")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument(
        "--warm", type=float, default=180, help="seconds before that are not counted"
    )
    parser.add_argument("--json", type=Path, help="where to write the results")
    given = parser.parse_args()
    with fresh_stack("freshness") as (stack, folder):
        measure(stack, folder / "lake", given)


def measure(stack: Stack, lake: Path, given: argparse.Namespace) -> None:
    """Traffic, a reader, and what came out."""
    tables = {f"t{index:03d}": Written(born=given.rows) for index in range(given.tables)}
    fill(stack, list(tables), given.rows)
    drain(stack, lake, "ingest", list(tables), 0)
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    job = Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
    ages: list[float] = []
    try:
        stop, begun = threading.Event(), time.monotonic()
        writer = threading.Thread(target=write, args=(stack, tables, given, stop))
        writer.start()
        while time.monotonic() < begun + given.warm + given.seconds:
            found = look(lake, tables)
            if time.monotonic() > begun + given.warm:
                ages += found
            time.sleep(0.05)
        stop.set()
        writer.join()
        time.sleep(15)
        look(lake, tables)
    finally:
        job.process.terminate()
        job.process.wait(60)
    drain(stack, lake, "ingest", list(tables), 0)
    refuse_different(lake, {table: source_rows(stack, table) for table in tables})
    entries = [one for one in Ledger(str(lake)).entries(1_000_000) if one.changes][:50]
    if not ages:
        sys.exit("no insert was seen in Delta")
    ages.sort()
    at = {part: ages[min(len(ages) - 1, int(len(ages) * part))] for part in (0.5, 0.9, 0.99, 1.0)}
    done = sum(one.changes for one in tables.values())
    took = given.warm + given.seconds
    print(
        f"{given.tables} tables, {done / took:.0f} changes a second, {len(ages):,} inserts seen: "
        f"median {at[0.5]:.2f} s, 90 % {at[0.9]:.2f} s, 99 % {at[0.99]:.2f} s, worst {at[1.0]:.2f} s"
    )
    batch = statistics.median(one.seconds for one in entries)
    each = statistics.median(one.changes for one in entries)
    stages = {
        name: statistics.median(one.stages.get(name, 0.0) for one in entries)
        for name in entries[0].stages
    }
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())
    print(f"the last 50 batches: median {batch:.2f} s for {each:.0f} changes; {parts}")
    if given.json:
        given.json.write_text(json.dumps({**vars(given), "json": "", "ages": at}, indent=1))


def write(
    stack: Stack, tables: dict[str, Written], given: argparse.Namespace, stop: threading.Event
) -> None:
    """One connection, a transaction after the other, at the rate asked for."""
    statements, count = _statements(tables, given.rows), 0
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        started = time.monotonic()
        while not stop.is_set():
            together = list(itertools.islice(statements, given.each))
            if given.each > 1:
                connection.begin()
            for written, statement, _ in together:
                cursor.execute(statement)
                written.changes += 1
            if given.each > 1:
                connection.commit()
            now = time.monotonic()
            for written, _, born in together:
                if born:
                    written.unseen.append((born, now))
            count += given.each
            ahead = started + count / given.rate - now
            if ahead > 0:
                stop.wait(ahead)


def _statements(tables: dict[str, Written], rows: int) -> Iterator[tuple[Written, str, int]]:
    """Whose it is, the statement, and the key it gives birth to, which is larger than all before; else 0."""
    rng, names = random.Random("freshness"), list(tables)
    for count in itertools.count():
        name, kind, key = rng.choice(names), rng.random(), rng.randrange(rows)
        written = tables[name]
        if kind < 0.2:
            written.born += 1
            row = f"{written.born}, 1, {rng.random()!r}, 'new', 'note {rng.random()}', {count}"
            yield written, f"INSERT INTO d.{name} VALUES ({row})", written.born
        elif kind < 0.8:
            value = f"amount = {rng.random()!r}, changed = {count + 1}"
            yield written, f"UPDATE d.{name} SET {value} WHERE id = {key}", 0
        else:
            yield written, f"DELETE FROM d.{name} WHERE id = {key}", 0
            back = f"{key}, 0, 0.5, 'back', NULL, {count}"
            yield written, f"INSERT INTO d.{name} VALUES ({back})", 0


def look(lake: Path, tables: dict[str, Written]) -> list[float]:
    """Seconds that the inserts took which the tables now hold and did not at the last look."""
    ages = []
    for name, written in tables.items():
        if written.table is None:
            written.table = DeltaTable(lake / "d" / name)
        elif is_there(lake / "d" / name, written.table.version() + 1):
            written.table.update_incremental()
        else:  # what all know already takes the reader no time, which is the job's, too
            continue
        now = time.monotonic()
        actions = pa.table(written.table.get_add_actions(flatten=True))
        newest = pc.max(actions["max.id"]).as_py()
        seen = bisect_right(written.unseen, newest, key=lambda one: one[0])
        ages += [now - written.unseen.popleft()[1] for _ in range(seen)]
    return ages


if __name__ == "__main__":
    main()
