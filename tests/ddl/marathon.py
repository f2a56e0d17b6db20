"""Random DDL and DML histories against the real stack, many tables at a time; the end is MySQL's word.

    python -m tests.ddl.marathon --ledger ddl.jsonl [--histories 500] [--seed 20261121] [--tables 10]

Each round writes the histories of some tables side by side, while the job runs and is killed once;
then every table has to be what MySQL says, value by value, its columns and their types what the information
schema says, and its log true. The ledger keeps what came out; run it again and it goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from ingest.local.stack import Stack
from ingest.model.names import RESERVED_COLUMN
from ingest.model.topics import TableId
from ingest.schema.delta_types import type_json
from ingest.schema.mysql_types import column_type
from ingest.source import mysql
from tests.ddl.histories import in_a_session, statements
from tests.kills.lab import Lab, LabError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", type=Path, default=Path("ddl.jsonl"))
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=600)
    given = parser.parse_args()
    lines = given.ledger.read_text().splitlines() if given.ledger.exists() else []
    done = {entry["history"]: entry["outcome"] for entry in map(json.loads, lines)}
    missing = [n for n in range(given.histories) if done.get(given.seed + n) != "equal"]
    print(f"seed {given.seed}: {given.histories} histories, {len(missing)} to run")
    deadline = time.monotonic() + given.minutes * 60
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ingest-ddl-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            for start in range(0, len(missing), given.tables):
                if time.monotonic() > deadline:
                    break
                seeds = [given.seed + n for n in missing[start : start + given.tables]]
                results = round_of(stack, Path(folder), seeds)
                failed += sum(outcome != "equal" for outcome in results.values())
                with given.ledger.open("a") as file:
                    for seed, outcome in results.items():
                        file.write(json.dumps({"history": seed, "outcome": outcome}) + "\n")
                print(f"{start + len(seeds):>4}/{len(missing)}  {failed} failed", flush=True)
        finally:
            stack.down()
    sys.exit(bool(failed))


def round_of(stack: Stack, folder: Path, seeds: list[int]) -> dict[int, str]:
    """The histories of these seeds, interleaved at random; what became of each."""
    name = f"ddl{seeds[0]}"
    tables = {seed: f"t{seed}" for seed in seeds}
    lab = Lab(stack, folder / name, name=name, tables=tuple(tables.values()))
    # No zero dates are written, so a date of 1970 is one, in NOT NULL columns, too.
    lab.settings["source"] = {"epoch_dates": "keep"}
    lab.sql(f"CREATE DATABASE {name}")
    # The first half of each table's life comes with the snapshot, or while it is taken.
    todo = {seed: list(statements(f"{name}.{table}", seed)) for seed, table in tables.items()}
    rng = random.Random(seeds[0])
    write(lab, rng, todo, sum(map(len, todo.values())) // 5)
    lab.begin()
    patience = 400 + 30 * len(seeds)  # seconds; DDLs are all that this job does
    try:
        write(lab, rng, todo, sum(map(len, todo.values())) // 2)
        lab.until(lambda: lab.entry() is not None, "the first batch", patience)
        lab.arm(rng.choice(("step_committed", "table_committed", "tables_committed")))
        write(lab, rng, todo, sum(map(len, todo.values())))
        lab.until_reached(patience)
        lab.kill("driver")
        lab.disarm()
        lab.start()
        try:
            lab.until_equal(patience)
        except LabError as failure:
            print(failure)
        try:  # of a table without rows, whose last DDL no change follows, content says nothing
            lab.until(lambda: not shapes(lab), "columns becoming MySQL's", patience)
        except LabError as failure:
            print(failure)
        wrong = {**lab.untrue(), **shapes(lab), **lab.differences()}
        for seed, table in tables.items():
            if table in wrong:
                print(f"{seed}: {wrong[table]}")
                print("\n".join(statements(table, seed)))
        if wrong:
            said = (lab.folder / "job.log").read_text()
            print(
                "\n".join(line for line in said.splitlines() if not line.startswith("\tat"))[-4000:]
            )
        return {seed: "different" if t in wrong else "equal" for seed, t in tables.items()}
    finally:
        lab.close()


def shapes(lab: Lab) -> dict[str, Any]:
    """Tables whose columns in the lake are not those of the information schema, each in its type's place."""
    ids = {table: TableId(lab.name, table) for table in lab.tables}
    with mysql.connected(lab.pipeline().source) as cursor:
        told = mysql.told(cursor, list(ids.values()))
    found: dict[str, Any] = {}
    for table, its_id in ids.items():
        if its_id not in told or not (lab.lake / lab.name / table).exists():
            continue
        wanted = {c.name: type_json(column_type(c).delta) for c in told[its_id].columns}
        schema = json.loads(DeltaTable(str(lab.lake / lab.name / table)).schema().to_json())
        held = {field["name"]: field["type"] for field in schema["fields"]}
        del held[RESERVED_COLUMN]
        if {name: str(kind) for name, kind in held.items()} != {
            n: str(k) for n, k in wanted.items()
        }:
            found[table] = f"columns {held}, and MySQL's would be {wanted}"
    return found


def write(lab: Lab, rng: random.Random, todo: dict[int, list[str]], count: int) -> None:
    """The next statements, each from some table."""
    for _ in range(count):
        waiting = [seed for seed, statements_ in todo.items() if statements_]
        if not waiting:
            return
        lab.sql(*in_a_session(todo[rng.choice(waiting)].pop(0)))


if __name__ == "__main__":
    main()
