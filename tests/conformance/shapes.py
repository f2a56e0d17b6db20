"""Drawn tables: which columns, of which types and names, and what stands in them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ingest.model.specification import Row
from ingest.sample.declared import declared
from ingest.sample.values import Value, drawn, null
from ingest.testing.debezium import described

KEYS = (
    "INT NOT NULL",
    "BIGINT NOT NULL",
    "BIGINT UNSIGNED NOT NULL",
    "VARCHAR(40) NOT NULL",
    "DECIMAL(20,4) NOT NULL",
    "DECIMAL(38,10) NOT NULL",
    "DATETIME(6) NOT NULL",
    "TIMESTAMP(6) NOT NULL",
    "DATE NOT NULL",
    "VARBINARY(40) NOT NULL",
)
"""Text is told apart by its bytes, as under a binary collation."""

OTHERS = (
    "TINYINT",
    "INT UNSIGNED",
    "BIGINT",
    "BIGINT UNSIGNED",
    "DECIMAL(10,2)",
    "DECIMAL(38,30)",
    "DECIMAL(65,30)",
    "FLOAT",
    "DOUBLE",
    "BIT(1)",
    "BIT(64)",
    "VARCHAR(40)",
    "VARCHAR(40)",
    "TEXT",
    "VARBINARY(300)",
    "DATE",
    "DATETIME(3)",
    "DATETIME(6)",
    "DATETIME(6)",
    "TIMESTAMP(6)",
    "TIME(6)",
    "YEAR",
    "ENUM('a','x,y','p\\\\q','it''s')",
    "SET('p','q','b\\\\c','é')",
    "ENUM('3D','a','=','-') CHARACTER SET binary",
    "SET('p','3') CHARACTER SET binary",
    "JSON",
    "VARCHAR(40) NOT NULL",
    "DATETIME(6) NOT NULL",
)

NAMES = [
    "after",
    "before",
    "c",
    "gtid",
    "id",
    "name",
    "op",
    "pos",
    "position",
    "row",
    "snapshot",
    "source",
    "t",
    "table",
    "ts_ms",
    "v",
]
"""In alphabetical order, as a row has them. Most are names of Debezium's envelope, or of our own rows."""


@dataclass(frozen=True)
class Shape:
    """``columns``: name to type, in order of name."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """The columns outside of the key."""
        return tuple(name for name, _ in self.columns if name not in self.key)

    @cached_property
    def types(self) -> dict[str, str]:
        return dict(self.columns)

    def described(self) -> list[dict[str, Any]]:
        """The columns as Debezium's schema-change topic has them."""
        return [described(name, kind) for name, kind in self.columns]


def shape(rng: random.Random, *, keyed: bool, geometry: bool = True) -> Shape:
    """A key of one or two columns, and one to four more. ``geometry``: one of them may be one."""
    keys = rng.choices(KEYS, k=rng.choice((1, 1, 2))) if keyed else []
    more = (*OTHERS, "POINT", "GEOMETRY") if geometry else OTHERS
    kinds = [*keys, *rng.choices(more, k=rng.randint(1, 4))]
    names = rng.sample(NAMES, len(kinds))
    columns = tuple(sorted(zip(names, kinds, strict=True)))
    return Shape(columns, tuple(names[: len(keys)]))


class Contents:
    """What may stand in one table: keys that differ, and some values of each column, NULL among them."""

    def __init__(self, rng: random.Random, of: Shape, *, keys: int, values: int) -> None:
        self.shape = of
        self.keys = self._keys(rng, keys) if of.key else []
        self.values = {name: self._some(rng, of.types[name], values) for name in of.others}

    def _keys(self, rng: random.Random, wanted: int) -> list[tuple[Value, ...]]:
        found: dict[tuple[Value, ...], None] = {}
        for _ in range(wanted * 20):
            found[tuple(drawn(rng, self.shape.types[name]) for name in self.shape.key)] = None
            if len(found) == wanted:
                break
        return list(found)

    @staticmethod
    def _some(rng: random.Random, kind: str, wanted: int) -> list[Value]:
        found = [drawn(rng, kind) for _ in range(wanted)]
        return found if declared(kind).not_null else [null(kind), *found]

    def row(self, key: int | None, values: dict[str, Value]) -> Row:
        """An image. ``key``: which of the keys."""
        named = {} if key is None else dict(zip(self.shape.key, self.keys[key], strict=True))
        return tuple(
            (name, named[name] if name in named else values[name]) for name, _ in self.shape.columns
        )

    def key(self, key: int) -> Row:
        """The key alone."""
        return tuple(sorted(zip(self.shape.key, self.keys[key], strict=True)))


def written(row: Row | None, *, read: bool) -> dict[str, Any] | None:
    """An image in Debezium's JSON. ``read``: by a snapshot."""
    if row is None:
        return None
    return {
        name: (one.snapshot_json if read else one.json) if isinstance(one, Value) else one
        for name, one in row
    }


def found(row: dict[str, Any]) -> Row:
    """What a reader found (``tests.support.exact.rows``), to compare with what was drawn."""
    return tuple((name, Value("", None, one, None)) for name, one in sorted(row.items()))
