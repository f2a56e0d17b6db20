"""Records of one topic partition, decoded by Arrow: envelope, position and row images at once.

What ``envelope`` and ``row_images`` say in Spark's columns, for records that are just as Debezium writes them.
Everything else is refused (``UnfitError``), and Spark reads it and finds the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow import column_values
from ingest.arrow.column_values import UnfitError
from ingest.arrow.json_columns import Layout, parsed, source_places
from ingest.changes.envelope import OPERATIONS
from ingest.changes.row_images import EpochDates, RowSchema
from ingest.model import position
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import file_number
from ingest.schema.mysql_types import Kind

POSITION = pa.struct(
    [
        ("epoch", pa.int32()),
        ("file", pa.int64()),
        ("pos", pa.int64()),
        ("row", pa.int32()),
        ("part", pa.int32()),
    ]
)
"""``position.SQL_TYPE`` in Arrow."""

# Made once, and with their types: to make one of a Python value, Arrow asks each time whether it may be one of
# dateutil's, which costs more than to compare a small table's column where that module is not installed.
DELETE, READ, TRUNCATE, UPDATE = (pa.scalar(op, pa.string()) for op in "drtu")
_INCREMENTAL = pa.scalar("incremental", pa.string())
_WITH_AFTER, _WITH_BEFORE = (pa.array(list(ops), pa.string()) for ops in ("cru", "ud"))
_OF_WRITE, OF_REREAD, _OF_DELETE = (
    pa.scalar(part, pa.int32())
    for part in (position.PART_WRITE, position.PART_REREAD, position.PART_DELETE)
)
_FALSE, _NO_ROW = pa.scalar(False, pa.bool_()), pa.scalar(0, pa.int32())


LOGGED = "\x00logged"
"""The column that rows for a change log have beside those of a MERGE: ``struct<partition int, offset bigint, transaction string, old
struct<the table's columns>>``: where the change stands in Kafka, and the row before an update, NULL of all others. No MySQL column name
may contain U+0000.
"""


@dataclass(frozen=True)
class Changes:
    """Those of one topic partition. ``notes``: ``offset, run, bytes, op, epoch, file, pos, row, part,
    snapshot, ts_us, gtid``, one row each. ``rows``: a MERGE's source rows, those of TRUNCATEs left out.
    """

    notes: pa.Table
    rows: pa.Table


def decode(records: pa.Table, layout: Layout, epoch: int, *, logged: int | None = None) -> Changes:
    """``records``: ``offset bigint, value binary, run string`` of one partition, in one epoch of the log. ``logged``: that partition, where
    rows are to have :data:`LOGGED`, too. Raises :class:`UnfitError`.
    """
    with _fit():
        return _decoded(with_values(records), layout, epoch, logged=logged)


def with_values(records: pa.Table) -> pa.Table:
    """Those that have one."""
    value = records["value"]
    return records.filter(pc.is_valid(value)) if value.null_count else records


def places(records: pa.Table, epoch: int) -> pa.Table:
    """Of each record :data:`POSITION`, whatever its columns; ``part`` is that of a DDL, before which none of its place lies.
    ``records``: as :func:`decode` has them, each with a value. Raises :class:`UnfitError`.
    """
    with _fit():
        source = source_places(_texts(records))
        if source.null_count or source.field("pos").null_count or source.field("file").null_count:
            raise UnfitError("no position")
        first = pa.repeat(pa.scalar(position.PART_DELETE, pa.int32()), len(source))
        return pa.table({**_place(source, epoch), "part": first})


@contextmanager
def _fit() -> Iterator[None]:
    """What Arrow and Python raise at what they do not know is that it does not fit."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, RecursionError) as odd:
        raise UnfitError(str(odd)[:200]) from None


def _texts(records: pa.Table) -> pa.StringArray:
    return records["value"].combine_chunks().cast(pa.string())  # refuses what is not UTF-8


def _place(source: pa.StructArray, epoch: int) -> dict[str, pa.Array]:
    names = source.field("file").dictionary_encode()
    files = pa.array([file_number(name) for name in names.dictionary.to_pylist()], pa.int64())
    return {
        "epoch": pa.repeat(pa.scalar(epoch, pa.int32()), len(source)),
        "file": files.take(names.indices),
        "pos": source.field("pos"),
        "row": pc.fill_null(source.field("row"), _NO_ROW),
    }


def _decoded(records: pa.Table, layout: Layout, epoch: int, *, logged: int | None) -> Changes:
    values = _texts(records)
    columns = parsed(values, layout)
    after, before, op, source = (columns[name] for name in ("after", "before", "op", "source"))
    _refuse_others(after, before, op, source, layout)
    notes = _notes(records, values, op, source, epoch)
    image, where = pc.if_else(pc.equal(op, DELETE), before, after), notes
    is_row = pc.not_equal(op, TRUNCATE)
    if not pc.all(is_row).as_py():
        image, where, before = image.filter(is_row), notes.filter(is_row), before.filter(is_row)
    rows = _rows(image, where, layout)
    if logged is not None:
        rows = rows.append_column(LOGGED, _logged(before, where, layout, logged))
    return Changes(notes, rows)


def _refuse_others(
    after: pa.StructArray, before: pa.StructArray, op: pa.Array, source: Any, layout: Layout
) -> None:
    """What ``envelope`` has a reason for, and what is not of this table."""
    table = layout.version.table
    named = {"db": table.database, "table": table.name}
    for field, wanted in named.items():
        if source.field(field).unique().to_pylist() != [wanted]:
            raise UnfitError("another table")
    if not set(op.unique().to_pylist()) <= set(OPERATIONS):
        raise UnfitError("an operation that is not known")
    if source.null_count or source.field("pos").null_count or source.field("file").null_count:
        raise UnfitError("no position")
    needs_after = pc.is_in(op, _WITH_AFTER)
    needs_before = pc.is_in(op, _WITH_BEFORE)
    for needs, image in ((needs_after, after), (needs_before, before)):
        if pc.any(pc.and_(needs, image.is_null())).as_py():
            raise UnfitError("no row image")


def _notes(records: pa.Table, values: pa.Array, op: pa.Array, source: Any, epoch: int) -> pa.Table:
    again = pc.fill_null(pc.equal(source.field("snapshot"), _INCREMENTAL), _FALSE)
    part = pc.if_else(pc.and_(pc.equal(op, READ), again), OF_REREAD, _OF_WRITE)
    part = pc.if_else(pc.equal(op, DELETE), _OF_DELETE, part)
    return pa.table(
        {
            "offset": records["offset"],
            "run": records["run"],
            "bytes": pc.cast(pc.binary_length(values), pa.int64()),
            "op": op,
            **_place(source, epoch),
            "part": part,
            "snapshot": source.field("snapshot"),
            "ts_us": source.field("ts_us"),
            "gtid": source.field("gtid"),
        }
    )


def _rows(image: pa.StructArray, notes: pa.Table, layout: Layout) -> pa.Table:
    columns = _values(image, notes, layout)
    if any(columns[name].null_count for name in layout.schema.key):
        raise UnfitError("a key without a value")
    place = pa.StructArray.from_arrays(
        [notes[field.name].combine_chunks() for field in POSITION], fields=list(POSITION)
    )
    committed = pc.cast(notes["ts_us"].combine_chunks(), pa.timestamp("us", "UTC"))
    meta = [place, notes["op"].combine_chunks(), committed]
    names = ["position", "op", "committed_at"]
    columns[RESERVED_COLUMN] = pa.StructArray.from_arrays(meta, names=names)
    return pa.table(columns)


def _values(image: pa.StructArray, notes: pa.Table, layout: Layout) -> dict[str, pa.Array]:
    """The lake's values of row images, NULL where there is no image."""
    streamed = pc.not_equal(notes["op"].combine_chunks(), READ)
    return {
        name: _without_zero_dates(
            column_values.value(pc.struct_field(image, name), kind, streamed), name, layout.schema
        )
        for name, kind in layout.schema.columns
    }


def _logged(
    before: pa.StructArray, notes: pa.Table, layout: Layout, partition: int
) -> pa.StructArray:
    """:data:`LOGGED` of some rows."""
    is_update = pc.equal(notes["op"].combine_chunks(), UPDATE)
    held = before.filter(is_update)
    values = _values(held, notes.filter(is_update), layout)
    old = pa.StructArray.from_arrays([*values.values()], names=[*values])
    # Where there is an update, its number among them; else none, which takes NULL.
    numbers = pc.cumulative_sum(pc.cast(is_update, pa.int64()))
    old = old.take(pc.if_else(is_update, pc.subtract(numbers, 1), pa.scalar(None, pa.int64())))
    said = {
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(old)),
        "offset": pc.cast(notes["offset"].combine_chunks(), pa.int64()),
        "transaction": notes["gtid"].combine_chunks(),
        "old": old,
    }
    return pa.StructArray.from_arrays([*said.values()], names=[*said])


def _without_zero_dates(found: pa.Array, name: str, schema: RowSchema) -> pa.Array:
    """1970-01-01 00:00:00 in a NOT NULL column, which Debezium writes for a zero date, as ``row_images`` takes it."""
    kind = dict(schema.columns)[name].kind
    if name not in schema.required or kind not in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return found
    dates: EpochDates = "null" if kind is Kind.TIMESTAMP else schema.epoch_dates
    width = pa.int32() if kind is Kind.DATE else pa.int64()
    zero = pc.equal(pc.cast(found, width), 0)
    if dates == "quarantine" and pc.any(zero).as_py():
        raise UnfitError("a date that may be a zero date")
    return pc.if_else(zero, pa.scalar(None, found.type), found) if dates == "null" else found
