"""A hundred columns renamed, retyped and dropped one after the other under traffic, on one table.

    python -m tests.ddl.columns [--columns 100] [--seed 20261121]

At the end the table has to be what MySQL says, and every version that was looked at on the way has to
read back, by VERSION AS OF, as what MySQL said then.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from ingest.local.stack import Stack
from tests.ddl.histories import RETYPED, TYPES
from tests.kills.lab import Lab, LabError, as_row
from tests.support.lake import read

DATABASE = "marathon"
LOOKS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20261121)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-ddl-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            started = time.monotonic()
            said = march(stack, Path(folder), given.columns, given.seed)
            print(f"seed {given.seed}: {said}, {time.monotonic() - started:.0f} s")
        finally:
            stack.down()


def march(stack: Stack, folder: Path, count: int, seed: int) -> str:
    """Returns what was shown, in words. Raises ``LabError`` when something differs."""
    rng = random.Random(seed)
    lab = Lab(stack, folder / "columns", name=DATABASE, tables=("m",))
    columns = {f"c{n}": rng.choice(list(TYPES)) for n in range(count)}
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    lab.sql(
        f"DROP DATABASE IF EXISTS {lab.name}",
        f"CREATE DATABASE {lab.name}",
        f"CREATE TABLE {lab.name}.m (id INT PRIMARY KEY, {declared})",
    )
    made = iter(range(10**6))
    for _ in range(50):
        lab.sql(_insert(rng, next(made), columns))
    lab.begin()
    seen: list[tuple[int, Counter[Any]]] = []
    kinds: Counter[str] = Counter()
    try:
        _look(lab, seen)
        for step, name in enumerate(rng.sample(list(columns), count), 1):
            statement, kind = _ddl(rng, columns, name)
            kinds[kind] += 1
            gone = f"DELETE FROM {DATABASE}.m WHERE id = {rng.randrange(200)}"
            lab.sql(gone, statement, _insert(rng, next(made), columns))
            if step % (count // LOOKS) == 0:
                _look(lab, seen)
    finally:
        lab.close()
    for version, rows in seen:
        if _rows(lab, version) != rows:
            raise LabError(f"version {version} does not read back as what MySQL said then")
    drawn = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return f"{count} columns ({drawn}) equal at the end; {len(seen)} versions read back"


def _look(lab: Lab, seen: list[tuple[int, Counter[Any]]]) -> None:
    lab.until_equal(600)
    version = DeltaTable(str(lab.lake / lab.name / "m")).version()
    seen.append((version, lab.source_rows("m")))
    print(f"version {version}: {sum(seen[-1][1].values())} rows equal", flush=True)


def _rows(lab: Lab, version: int) -> Counter[Any]:
    found = read(lab.lake / lab.name / "m", version)
    return Counter(as_row(row) for row in found.drop_columns(["_ingest"]).to_pylist())


def _insert(rng: random.Random, id_: int, columns: dict[str, str]) -> str:
    values = {
        name: "NULL" if rng.random() < 0.1 else str(TYPES[kind](rng))
        for name, kind in columns.items()
        if kind in TYPES
    }
    return (
        f"INSERT INTO {DATABASE}.m ({', '.join(['id', *values])}) "
        f"VALUES ({', '.join([str(id_), *values.values()])})"
    )


def _ddl(rng: random.Random, columns: dict[str, str], name: str) -> tuple[str, str]:
    kind = columns[name]
    act = rng.choice(("rename", "retype", "drop"))
    if act == "rename":
        columns[f"{name}_renamed"] = columns.pop(name)
        return f"ALTER TABLE {DATABASE}.m RENAME COLUMN {name} TO {name}_renamed", act
    if act == "retype":
        columns[name] = rng.choice(RETYPED[kind])
        return f"ALTER TABLE {DATABASE}.m MODIFY {name} {columns[name]}", act
    del columns[name]
    return f"ALTER TABLE {DATABASE}.m DROP COLUMN {name}", act


if __name__ == "__main__":
    main()
