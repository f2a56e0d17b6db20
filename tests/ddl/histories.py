"""Random histories of one table: DDL and DML in any order, drawn from a seed.

Every statement is one that a strict MySQL takes, so a history needs no repair; what it leads to is
whatever MySQL says at the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Shape:
    """The table as the statements so far have made it. ``columns``: name to type."""

    name: str
    keyed: bool
    columns: dict[str, str] = field(default_factory=dict)
    never_null: set[str] = field(default_factory=set)
    made: int = 0
    rows: int = 0

    def new_name(self) -> str:
        self.made += 1
        return f"c{self.made}"


TYPES = {
    "TINYINT": lambda r: r.randint(-100, 100),
    "SMALLINT UNSIGNED": lambda r: r.randint(0, 100),
    "INT": lambda r: r.randint(-100, 100),
    "BIGINT": lambda r: r.randint(-(2**40), 2**40),
    "DECIMAL(10,2)": lambda r: f"{r.randint(-9999, 9999) / 100:.2f}",
    "DOUBLE": lambda r: r.randint(-1000, 1000) / 8,
    "VARCHAR(20)": lambda r: f"'{r.choice('äbcö')}{r.randint(0, 99)}'",
    "TEXT": lambda r: f"'{r.choice('xyz') * r.randint(0, 9)}'",
    "DATE": lambda r: f"'20{r.randint(10, 30)}-0{r.randint(1, 9)}-1{r.randint(0, 9)}'",
    "DATETIME(3)": lambda r: f"'20{r.randint(10, 30)}-01-02 03:04:05.{r.randint(100, 999)}'",
    "TIMESTAMP NULL": lambda r: f"'20{r.randint(10, 30)}-06-02 03:04:05'",
    "ENUM('a','b','c')": lambda r: f"'{r.choice('abc')}'",
}
"""Types and how a value of each is written in SQL."""

RETYPED = {
    "TINYINT": ("INT", "BIGINT", "DECIMAL(12,2)", "VARCHAR(20)"),
    "SMALLINT UNSIGNED": ("INT", "BIGINT", "VARCHAR(20)"),
    "INT": ("BIGINT", "DECIMAL(14,4)", "VARCHAR(20)", "DOUBLE"),
    "BIGINT": ("VARCHAR(20)", "DECIMAL(30,5)"),
    "DECIMAL(10,2)": ("DECIMAL(14,4)", "DECIMAL(12,1)", "DOUBLE", "VARCHAR(20)"),
    "DOUBLE": ("DECIMAL(20,1)",),
    "VARCHAR(20)": ("VARCHAR(60)", "TEXT", "CHAR(60)"),
    "TEXT": ("VARCHAR(60)", "LONGTEXT"),
    "DATE": ("DATETIME", "VARCHAR(20)"),
    "DATETIME(3)": ("DATETIME(6)", "DATETIME", "DATE"),
    "TIMESTAMP NULL": ("DATETIME", "TIMESTAMP(6) NULL"),
    "ENUM('a','b','c')": ("ENUM('z','a','b','c')", "VARCHAR(20)"),
}
"""What a type may become with any value that :data:`TYPES` draws."""


def statements(name: str, seed: int, length: int = 8) -> Iterator[str]:
    """The whole history of a table; the first statement creates it."""
    rng = random.Random(seed)
    shape = Shape(name, keyed=rng.random() < 0.75)
    for _ in range(rng.randint(1, 4)):
        shape.columns[shape.new_name()] = rng.choice(list(TYPES))
    key = "id INT PRIMARY KEY" if shape.keyed else "id INT"
    yield f"CREATE TABLE {name} ({', '.join([key, *(f'{c} {t}' for c, t in shape.columns.items())])})"
    yield from _rows(rng, shape, rng.randint(0, 12))
    for _ in range(length):
        yield _ddl(rng, shape)
        yield from _rows(rng, shape, rng.randint(0, 4))


def _rows(rng: random.Random, shape: Shape, count: int) -> Iterator[str]:
    known = {c: t for c, t in shape.columns.items() if t in TYPES or c in shape.never_null}
    for _ in range(count):
        values = {
            c: "NULL" if rng.random() < 0.2 and c not in shape.never_null else _value(rng, t)
            for c, t in known.items()
        }
        kind = rng.random()
        if kind < 0.55 or not shape.rows:
            names = ", ".join(["id", *values])
            row = ", ".join([str(shape.rows), *values.values()])
            yield f"INSERT INTO {shape.name} ({names}) VALUES ({row})"
            shape.rows += 1
        elif kind < 0.85 and values:
            column = rng.choice(list(values))
            low = rng.randrange(shape.rows)
            yield f"UPDATE {shape.name} SET {column} = {values[column]} WHERE id BETWEEN {low} AND {low + 2}"
        else:
            yield f"DELETE FROM {shape.name} WHERE id = {rng.randrange(shape.rows)}"


def _value(rng: random.Random, kind: str) -> str:
    return str(TYPES[kind](rng)) if kind in TYPES else "1"


def _ddl(rng: random.Random, shape: Shape) -> str:
    name, columns = shape.name, list(shape.columns)
    act = rng.choice(
        ("add", "add", "drop", "rename", "change", "retype", "retype", "several", "other")
    )
    if not columns or act == "add":
        return f"ALTER TABLE {name} {_add(rng, shape)}"
    column = rng.choice(columns)
    if act == "drop":
        del shape.columns[column]
        return f"ALTER TABLE {name} DROP COLUMN {column}"
    if act == "rename":
        return f"ALTER TABLE {name} RENAME COLUMN {column} TO {_renamed(shape, column)}"
    if act == "change":
        kind = shape.columns[column]
        return f"ALTER TABLE {name} CHANGE {column} {_renamed(shape, column)} {kind} FIRST"
    if act == "retype" and RETYPED.get(shape.columns[column]):
        shape.columns[column] = rng.choice(RETYPED[shape.columns[column]])
        return f"ALTER TABLE {name} MODIFY {column} {shape.columns[column]}"
    if act == "several" and len(columns) > 1:
        return f"ALTER TABLE {name} {_several(rng, shape, column)}"
    kind = rng.random()
    if kind < 0.3:
        return f"TRUNCATE TABLE {name}"
    if kind < 0.6:
        return f"ALTER TABLE {name} MODIFY {column} {shape.columns[column]} FIRST"
    return f"ALTER TABLE {name} COMMENT = 'history {rng.randint(0, 999)}'"


def _renamed(shape: Shape, column: str) -> str:
    """A new name for a column; its place among the columns is kept."""
    new = shape.new_name()
    shape.columns = {new if c == column else c: t for c, t in shape.columns.items()}
    if column in shape.never_null:
        shape.never_null.add(new)
    return new


def _add(rng: random.Random, shape: Shape) -> str:
    name, kind = shape.new_name(), rng.choice(list(TYPES))
    shape.columns[name] = kind
    how = rng.random()
    if "INT" in kind and how < 0.6:
        shape.never_null.add(name)
        return f"ADD COLUMN {name} {kind} NOT NULL DEFAULT {rng.randint(0, 9)}"
    if kind == "VARCHAR(20)" and how < 0.3:
        shape.never_null.add(name)
        return f"ADD COLUMN {name} {kind} NOT NULL"
    if kind == "VARCHAR(20)" and how < 0.6:
        return f"ADD COLUMN {name} {kind} DEFAULT (CONCAT('e', 1 + 1)) FIRST"
    if kind == "DATETIME(3)" and how < 0.5:
        return f"ADD COLUMN {name} {kind} DEFAULT CURRENT_TIMESTAMP(3)"
    return f"ADD COLUMN {name} {kind}"


def _several(rng: random.Random, shape: Shape, a: str) -> str:
    kind = rng.choice(list(TYPES))
    del shape.columns[a]
    shape.never_null.discard(a)
    shape.columns[a] = kind  # dropped, and another column takes its name
    return f"DROP COLUMN {a}, ADD COLUMN {a} {kind}, {_add(rng, shape)}"
