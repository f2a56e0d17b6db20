"""Rows that know nothing of an application but what information_schema says of its tables."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
LABEL = re.compile(r"'(?:[^']|'')*'")
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


@dataclass(frozen=True)
class Column:
    """As information_schema describes it."""

    name: str
    kind: str
    declared: str
    nullable: bool
    length: int | None
    precision: int | None
    scale: int | None
    fraction: int | None
    charset: str | None
    extra: str
    in_key: bool

    @property
    def given(self) -> bool:
        """False for what MySQL fills by itself."""
        return "GENERATED" not in self.extra.replace("DEFAULT_GENERATED", "")

    @property
    def counted(self) -> bool:
        return "auto_increment" in self.extra


@dataclass(frozen=True)
class Table:
    name: str
    engine: str
    columns: tuple[Column, ...]

    @property
    def given(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.given)

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.in_key)


def tables(cursor: Any, database: str) -> list[Table]:
    """All base tables of a database, with their columns in order."""
    cursor.execute(
        "SELECT c.table_name, t.engine, c.column_name, c.data_type, c.column_type, c.is_nullable = 'YES', "
        "c.character_maximum_length, c.numeric_precision, c.numeric_scale, c.datetime_precision, "
        "c.character_set_name, c.extra, c.column_key = 'PRI' FROM information_schema.columns c "
        "JOIN information_schema.tables t USING (table_schema, table_name) "
        "WHERE t.table_schema = %s AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position",
        (database,),
    )
    found: dict[tuple[str, str], list[Column]] = {}
    for name, engine, column, kind, declared, nullable, *rest, key in cursor.fetchall():
        of = Column(column, kind, declared, bool(nullable), *rest, bool(key))
        found.setdefault((name, engine), []).append(of)
    return [Table(name, engine, tuple(columns)) for (name, engine), columns in found.items()]


def literal(rng: random.Random, column: Column) -> str:
    """An SQL literal that the column can hold. A FLOAT has no more than the digits that a snapshot brings exactly."""
    if column.nullable and rng.random() < 0.15:
        return "NULL"
    if column.kind in INTEGERS:
        return str(_integer(rng, column))
    if column.kind == "decimal":
        return _decimal(rng, column)
    if column.kind in ("float", "double"):
        return str(rng.randrange(-4000, 4000) / 4) if column.kind == "float" else repr(_double(rng))
    if column.kind in TEXTS:
        return _quoted(_text(rng, column))
    if column.kind in BYTES:
        size = min(column.length or 0, 24)
        exact = column.kind == "binary" or rng.random() < 0.1
        return f"x'{rng.randbytes(size if exact else rng.randint(0, size)).hex()}'"
    if column.kind in ("enum", "set"):
        return rng.choice(LABEL.findall(column.declared))
    if column.kind == "bit":
        return f"b'{rng.randrange(2 ** (column.precision or 1)):b}'"
    if column.kind == "json":
        return rng.choice(("'{}'", "'[1, null, \"x\"]'", '\'{"a": {"b": 1}}\''))
    return _moment(rng, column)


def _integer(rng: random.Random, column: Column) -> int:
    if column.declared == "tinyint(1)":
        return rng.randint(0, 1)  # what applications mean by it, and read it as
    bits = INTEGERS[column.kind]
    unsigned = "unsigned" in column.declared
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if column.counted:
        return rng.randint(1, min(high, 1_000_000))
    drawn = rng.choice((rng.randint(0, 9), rng.randint(0, 1000), rng.randint(low, high), low, high))
    drawn = min(drawn, high)
    # A row that is named has a number, or an application's own migration fails over it.
    return drawn or 1 if column.name.lower().endswith("_id") else drawn


def _decimal(rng: random.Random, column: Column) -> str:
    scale = column.scale or 0
    whole = (column.precision or 10) - scale
    digits = "".join(rng.choices("0123456789", k=rng.randint(0, whole))) or "0"
    sign = "-" if rng.random() < 0.3 and "unsigned" not in column.declared else ""
    return f"{sign}{digits}." + "".join(rng.choices("0123456789", k=scale)) + ("" if scale else "0")


def _double(rng: random.Random) -> float:
    return rng.choice((0.0, 0.1, -1.5, 1e300, 5e-324, rng.random(), rng.uniform(-1e9, 1e9)))


WORDS = (
    "", "a", "A", " ", "null", "NULL", "naïve", "Ünï", "'", "''", '"', "\\", "\\n", "\n", "\t", "%", "_", "0",
    "1970-01-01", "{}", "[]", "茶具", "𠮷野家", "🙂", "a\u2028b", "a\u0085b", "e\u0301", "\ufeff", "x" * 60, "true",
)  # fmt: skip


def _text(rng: random.Random, column: Column) -> str:
    text = rng.choice(WORDS) if rng.random() < 0.5 else f"{rng.choice(WORDS)}{rng.randrange(10**6)}"
    if column.charset in ("latin1", "ascii"):
        text = text.encode("ascii", "ignore").decode()
    elif column.charset == "utf8mb3":
        text = "".join(char for char in text if char <= "\uffff")
    return text[: column.length]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _moment(rng: random.Random, column: Column) -> str:
    days = f"{rng.randint(1971, 2037)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    micros = f".{rng.randrange(10**6):06d}"[: 1 + column.fraction] if column.fraction else ""
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}{micros}"
    return {
        "date": f"'{days}'",
        "datetime": f"'{days} {clock}'",
        "timestamp": f"'{days} {clock}'",
        "time": f"'{clock}'",
        "year": str(rng.randint(1902, 2100)),
    }[column.kind]
