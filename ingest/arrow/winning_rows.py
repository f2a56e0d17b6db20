"""One source row per key: the newest."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow.change_facts import before
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import Position


def winners(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row per key: the one with the highest position. In and out: a MERGE's source rows."""
    place = pc.struct_field(rows[RESERVED_COLUMN], "position")
    fields = [pc.struct_field(place, field.name) for field in place.type]
    names = [str(index) for index in range(len(fields))]
    order = pc.sort_indices(
        pa.table(fields, names=names), sort_keys=[(name, "ascending") for name in names]
    )
    keys = [str(index) for index in range(len(key))]
    numbers = pa.array(range(rows.num_rows), pa.int64())
    table = pa.table([*(rows[name].take(order) for name in key), numbers], names=[*keys, "n"])
    last = table.group_by(keys).aggregate([("n", "max")])["n_max"]
    if len(last) == rows.num_rows:
        return rows  # each is the only one of its key: no copy of what may be all of a batch
    return rows.take(order.take(last))


def within(rows: pa.Table, start: Position | None, end: Position | None) -> pa.ChunkedArray:
    """True for those at positions from ``start`` on and before ``end``; None: no bound."""
    held = places(rows)
    mine = pa.repeat(pa.scalar(True), rows.num_rows)
    if start is not None:
        mine = pc.and_(mine, pc.invert(before(held, start)))
    if end is not None:
        mine = pc.and_(mine, before(held, end))
    return mine


def key_range(rows: pa.Table, key: Sequence[str]) -> tuple[int, int] | None:
    """The least and the greatest of the key's first column; None where it is no whole number, or there is no row."""
    column = rows[key[0]] if key and rows.num_rows else None
    if column is None or not pa.types.is_integer(column.type):
        return None
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def between(rows: pa.Table, barriers: Sequence[Position]) -> list[pa.Table]:
    """The same rows, apart by what stands between two barriers; parts without any are left out. ``barriers``: in order."""
    parts, left = [], rows
    for barrier in barriers:
        early = before(places(left), barrier)
        parts.append(left.filter(early))
        left = left.filter(pc.invert(early))
    return [part for part in (*parts, left) if part.num_rows]


def span(rows: pa.Table) -> tuple[Position, Position]:
    """The first and the last position of some rows."""
    held = places(rows)
    order = pc.sort_indices(held, sort_keys=[(name, "ascending") for name in held.column_names])
    first, last = held.take(pa.array([order[0].as_py(), order[-1].as_py()])).to_pylist()
    return Position.from_mapping(first), Position.from_mapping(last)


def places(rows: pa.Table) -> pa.Table:
    """The positions of source rows, a column for each of their fields."""
    place = pc.struct_field(rows[RESERVED_COLUMN], "position")
    return pa.table({field.name: pc.struct_field(place, field.name) for field in place.type})
