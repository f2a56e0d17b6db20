"""Filters on one column, and what MySQL and Python say of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.outside.values import order

OPERATORS = ("=", "<", ">=", "in", "null")


@dataclass(frozen=True)
class Column:
    """``mysql``, ``kind``: its type there and in Delta; ``values``: row by row, None for NULL."""

    name: str
    mysql: str
    kind: str
    values: Sequence[str | None]


@dataclass(frozen=True)
class Predicate:
    """``values``: none for ``null``, several for ``in``, else one."""

    column: Column
    op: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.column.mysql} {self.column.kind} {self.op} {self.values!a}"

    def ask(self, name: str | None = None) -> tuple[str, str, str, list[str]]:
        """As ``readers`` takes it. ``name``: of the column, where it has another one now."""
        return name or self.column.name, self.column.kind, self.op, list(self.values)

    def right(self) -> list[int]:
        """Rows for which it is true, as Python compares them: numbers by value, texts by code points."""
        kind = self.column.kind
        asked = [order(kind, one) for one in self.values]
        held = [
            (at, None if one is None else order(kind, one))
            for at, one in enumerate(self.column.values)
        ]
        if self.op == "null":
            return [at for at, one in held if one is None]
        true = {
            "=": lambda one: one == asked[0],
            "<": lambda one: one < asked[0],
            ">=": lambda one: one >= asked[0],
            "in": lambda one: one in asked,
        }[self.op]
        return [at for at, one in held if one is not None and true(one)]


def drawn(columns: Sequence[Column], chance: random.Random, values: int) -> list[Predicate]:
    """For each column all operators, the comparing ones with so many of its values."""
    found = list[Predicate]()
    for column in columns:
        held = sorted({one for one in column.values if one is not None})
        found.append(Predicate(column, "null", ()))
        for value in chance.sample(held, min(values, len(held))):
            found += [Predicate(column, op, (value,)) for op in ("=", "<", ">=")]
            found.append(Predicate(column, "in", tuple({value: 0, chance.choice(held): 0})))
    return found


def parted(columns: Mapping[str, Column], files: int) -> list[range]:
    """Rows of each of so many files, of one range after another in each column; the last one's are all NULL."""
    rows = len(next(iter(columns.values())).values)
    size = -(-rows // files)
    return [range(at, min(at + size, rows)) for at in range(0, rows, size)]
