"""The rows of a table's change log, from changes that were read by Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow.change_facts import before
from ingest.arrow.column_values import delta_type
from ingest.arrow.record_decoder import DELETE, LOGGED, READ, UPDATE
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import Position
from ingest.schema import change_log
from ingest.schema.change_log import Control, LogColumns
from ingest.schema.delta_types import sql_type

_STREAM, _FIRST, _AGAIN = (pa.scalar(one) for one in ("stream", "snapshot", "resync"))


@dataclass(frozen=True)
class LogBatch:
    """What all rows of a log that one batch adds have in common. ``columns``: of the log; ``batch``: its number; ``first``: where the
    table's first snapshot was taken; ``versions``: where the definitions stand that may be in force, in order; ``has``: by partition, where
    what the log has ends: nothing below is added.
    """

    columns: LogColumns
    batch: int
    first: Position | None = None
    versions: tuple[Position, ...] = ()
    has: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the log."""
        return pa.schema([_field(one) for one in self.columns.schema["fields"]])


def _field(said: Mapping[str, Any]) -> pa.Field:
    kind = said["type"]
    if isinstance(kind, dict):
        return pa.field(said["name"], pa.struct([_field(one) for one in kind["fields"]]))
    return pa.field(said["name"], delta_type(sql_type(kind)))


def of_changes(rows: pa.Table, fields: Mapping[str, str], log: LogBatch) -> pa.Table:
    """Changes that one layout has read, with ``record_decoder.LOGGED``. ``fields``: each of the table's columns with its field in the log."""
    if log.has:
        rows = rows.filter(_is_new(rows[LOGGED], log.has))
    rows, size = rows.combine_chunks(), rows.num_rows
    meta, logged = (_struct(rows[name]) for name in (RESERVED_COLUMN, LOGGED))
    op, position = meta.field("op"), meta.field("position")
    old, columns = logged.field("old"), {field: name for name, field in fields.items()}
    deletes, writes = pc.equal(op, DELETE), pc.not_equal(op, DELETE)
    image = {field: _array(rows[name]) for field, name in columns.items()}
    was = {
        field: pc.if_else(deletes, image[field], pc.struct_field(old, name))
        for field, name in columns.items()
    }
    has_before = pc.or_(deletes, pc.equal(op, UPDATE))
    found = {
        "operation": _words(op),
        "position": position,
        "committed_at": meta.field("committed_at"),
        "batch_id": pa.repeat(pa.scalar(log.batch, pa.int64()), size),
        "transaction": logged.field("transaction"),
        "origin": _origin(op, position, log.first),
        "schema_version": _in_force(position, log.versions),
        "statement": pa.nulls(size, pa.string()),
        "before": _image(was, log.schema.field("before").type, has_before),
        "after": _image(image, log.schema.field("after").type, writes),
    }
    return pa.table(found, schema=log.schema)


def of_controls(said: Sequence[Control], log: LogBatch) -> pa.Table:
    """Rows that are no changes of rows."""
    rows = [
        {
            "operation": one.operation,
            "position": one.position.as_dict(),
            "committed_at": one.committed_at,
            "batch_id": log.batch,
            "origin": "resync" if one.operation in ("void", "restart") else "stream",
            "schema_version": str(one.version) if one.version else None,
            "statement": one.statement or None,
        }
        for one in said
    ]
    return pa.Table.from_pylist(rows, schema=log.schema)


def _is_new(logged: pa.ChunkedArray, has: Mapping[int, int]) -> pa.ChunkedArray:
    """Whether a log lacks these."""
    partition, offset = (pc.struct_field(logged, name) for name in ("partition", "offset"))
    lacks = pa.repeat(pa.scalar(True), len(logged))
    for number, end in has.items():
        held = pc.and_(pc.equal(partition, number), pc.less(offset, end))
        lacks = pc.and_not(lacks, held)
    return lacks


def _in_force(position: pa.StructArray, versions: Sequence[Position]) -> pa.Array:
    """Of each the newest definition that is not behind it; the oldest where all are."""
    held = pa.table({one.name: position.field(one.name) for one in position.type})
    found = pa.repeat(pa.scalar(str(versions[0]) if versions else None, pa.string()), len(position))
    for one in versions[1:]:
        found = pc.if_else(before(held, one), found, pa.scalar(str(one)))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _words(op: pa.Array) -> pa.Array:
    letters = op.dictionary_encode()
    words = pa.array(
        [change_log.OPERATIONS[one] for one in letters.dictionary.to_pylist()], pa.string()
    )
    return words.take(letters.indices)


def _origin(op: pa.Array, position: pa.StructArray, first: Position | None) -> pa.Array:
    """Of what a snapshot read, whether it was the table's first."""
    read = pc.equal(op, READ)
    if not read.true_count:
        return pa.repeat(_STREAM, len(op))
    is_first = pa.repeat(pa.scalar(first is not None), len(op))
    for name, value in change_log.of_snapshot(first).items():
        is_first = pc.and_(is_first, pc.equal(position.field(name), value))
    return pc.if_else(read, pc.if_else(is_first, _FIRST, _AGAIN), _STREAM)


def _image(values: Mapping[str, pa.Array], kind: pa.StructType, there: pa.Array) -> pa.StructArray:
    """A struct of all fields of a log, NULL where there is no image."""
    arrays = []
    for one in kind:
        held = values.get(one.name)
        if held is None:
            held = pa.nulls(len(there), one.type)
        arrays.append(held if held.type == one.type else held.cast(one.type))
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pc.invert(there))


def _array(column: pa.ChunkedArray) -> pa.Array:
    """Of a table whose chunks are combined."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _struct(column: pa.ChunkedArray) -> pa.StructArray:
    found = _array(column)
    assert isinstance(found, pa.StructArray)
    return found
