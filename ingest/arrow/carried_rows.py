"""Rows of changes that are carried over a DDL (``schema/carried``), and of which pieces a step's rows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from ingest.arrow.column_values import delta_type
from ingest.arrow.winning_rows import within
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import Position
from ingest.schema.carried import CarriedColumn, Carry


def carried(rows: pa.Table, carry: Carry) -> pa.Table:
    """A MERGE's source rows of before a DDL as they stand behind it."""
    columns = {one.name: _column(rows, one) for one in carry}
    return pa.table({**columns, RESERVED_COLUMN: rows[RESERVED_COLUMN]})


def joined(steps: Sequence[pa.Table], carries: Sequence[Carry | None]) -> list[pa.Table]:
    """The rows of a table's steps, those that are carried with the step that they come to. ``carries``: see ``carried.between``."""
    found, waiting = list[pa.Table](), pa.table({})
    for rows, carry in zip(steps, [*carries, None], strict=True):
        mine = _behind(waiting, rows)
        waiting = pa.table({})
        if carry is not None and mine.num_rows:
            mine, waiting = mine.slice(0, 0), carried(mine, carry)
        found.append(mine)
    return found


def _behind(carried_here: pa.Table, rows: pa.Table) -> pa.Table:
    if not carried_here.num_rows or not rows.num_rows:
        return carried_here if carried_here.num_rows else rows
    return pa.concat_tables([carried_here, rows.select(carried_here.column_names)])


@dataclass(frozen=True)
class StepPart:
    """Rows that some layouts have read, from a position on and before another (None: no bound), and the DDLs that they are carried over to
    where they are applied.
    """

    layouts: frozenset[int]
    start: Position | None
    end: Position | None
    carries: tuple[Carry, ...] = ()

    def of(self, rows: pa.Table) -> pa.Table:
        """Those among the rows of one piece of these layouts, carried."""
        if self.start is not None or self.end is not None:
            rows = rows.filter(within(rows, self.start, self.end))
        return reduce(carried, self.carries, rows)


def of_parts(parts: Sequence[StepPart], layout: int, rows: pa.Table) -> Iterator[pa.Table]:
    """What a piece has for a step that is made of these parts."""
    mine = (part.of(rows) for part in parts if layout in part.layouts)
    yield from (some for some in mine if some.num_rows)


def _column(rows: pa.Table, one: CarriedColumn) -> Any:
    if one.origin is not None and one.delta.startswith("struct"):
        return rows[one.origin]  # a geometry, which nothing becomes that is none
    kind = delta_type(one.delta)
    if one.origin is not None:
        held = rows[one.origin]
        return held if held.type == kind else held.cast(kind)
    value = None if one.text is None else _value(one.text, kind)
    return pa.repeat(pa.scalar(value, kind), rows.num_rows)


def _value(text: str, kind: pa.DataType) -> Any:
    """What Spark's CAST makes of the text of a default (``evolution.default_of``)."""
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_integer(kind):
        return int(text)
    return float(text) if pa.types.is_floating(kind) else text
