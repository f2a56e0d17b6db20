"""The laboratory's traffic of hostile values: a table of many types whose key is a text and a number, a table without a
key whose rows differ in a microsecond, and texts for the others. The same lab and round draw the same values.

FLOAT, TIME, BIT and SET are left out: MySQL's client and a reader of the lake have no common value of them
(tests/integration/test_types.py has them).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ingest.sample.values import literal

KEY = {"k": "VARCHAR(40) COLLATE utf8mb4_0900_bin NOT NULL", "n": "BIGINT UNSIGNED NOT NULL"}
OTHERS = {
    "t": "TEXT",
    "d": "DECIMAL(38,10)",
    "w": "DECIMAL(65,30)",
    "f": "DOUBLE",
    "at": "DATETIME(6)",
    "ts": "TIMESTAMP(6) NULL",
    "day": "DATE",
    "raw": "VARBINARY(300)",
    "e": "ENUM('a','x,y','p\\\\q','it''s')",
    "j": "JSON",
}
COPIES = {"at": "DATETIME(6)", "v": "VARCHAR(40)", "f": "DOUBLE"}


def created(database: str) -> Iterator[str]:
    """The two tables, empty."""
    columns = [f"{name} {kind}" for name, kind in {**KEY, **OTHERS}.items()]
    yield f"CREATE TABLE {database}.hostile ({', '.join(columns)}, PRIMARY KEY (k, n))"
    copies = [f"{name} {kind}" for name, kind in COPIES.items()]
    yield f"CREATE TABLE {database}.copies ({', '.join(copies)})"


def filled(database: str, rows: int) -> Iterator[str]:
    """Rows for a snapshot, at most a hundred of each."""
    rng = random.Random(database)
    for _ in range(min(rows, 100)):
        yield _replaced(rng, database)
        yield _copied(rng, database)


def changed(database: str, turn: int) -> Iterator[str]:
    """A round of changes in one transaction: rows that come, change in one column, move to another key and go."""
    rng = random.Random(f"{database} {turn}")
    table = f"{database}.hostile"
    yield "START TRANSACTION"
    for _ in range(6):
        yield _replaced(rng, database)
    for name in rng.sample(list(OTHERS), 3):
        yield f"UPDATE {table} SET {name} = {_drawn(rng, OTHERS[name])} ORDER BY k, n LIMIT {rng.randint(1, 5)}"
    yield f"UPDATE {table} SET at = at + INTERVAL 1 MICROSECOND WHERE YEAR(at) BETWEEN 1600 AND 9998 LIMIT 3"
    yield f"UPDATE IGNORE {table} SET k = {literal(rng, KEY['k'])} ORDER BY n DESC LIMIT 1"
    yield f"UPDATE IGNORE {table} SET n = {literal(rng, KEY['n'])} ORDER BY k DESC LIMIT 1"
    yield f"DELETE FROM {table} ORDER BY n, k LIMIT 3"
    yield "COMMIT"
    for _ in range(3):
        yield _copied(rng, database)
    copies = f"{database}.copies"
    yield f"UPDATE {copies} SET at = at + INTERVAL 1 MICROSECOND WHERE YEAR(at) BETWEEN 1600 AND 9998 LIMIT 2"
    yield f"UPDATE {copies} SET f = -0e0 WHERE f = 0 LIMIT 1"
    yield f"DELETE FROM {copies} LIMIT 1"


def text(database: str, turn: int, which: str, length: int) -> str:
    """A literal for a column of ``length`` characters."""
    return literal(random.Random(f"{database} {turn} {which}"), f"VARCHAR({length})")


def _replaced(rng: random.Random, database: str) -> str:
    values = [literal(rng, kind) for kind in KEY.values()]
    values += [_drawn(rng, kind) for kind in OTHERS.values()]
    return f"REPLACE INTO {database}.hostile VALUES ({', '.join(values)})"


def _copied(rng: random.Random, database: str) -> str:
    row = f"({', '.join(_drawn(rng, kind) for kind in COPIES.values())})"
    return f"INSERT INTO {database}.copies VALUES {', '.join([row] * rng.randint(1, 3))}"


def _drawn(rng: random.Random, kind: str) -> str:
    return "NULL" if rng.random() < 0.15 else literal(rng, kind)
