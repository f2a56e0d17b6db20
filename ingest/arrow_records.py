"""Records of one topic partition, read in the driver by Arrow: envelope, position and row images at once.

What ``envelope`` and ``decode`` say in Spark's columns, for records that are just as Debezium writes them.
Everything else is refused (``UnfitError``), and Spark reads it and finds the reason. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, starmap
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as paj

from ingest import arrow_values, position
from ingest.arrow_values import UnfitError
from ingest.catalog import SchemaVersion
from ingest.decode import EpochDates, RowSchema
from ingest.envelope import OPERATIONS
from ingest.mysql_types import Kind
from ingest.names import RESERVED_COLUMN
from ingest.position import file_number

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

_SOURCE = pa.struct(
    [
        ("db", pa.string()),
        ("table", pa.string()),
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("row", pa.int32()),
        ("snapshot", pa.string()),
        ("ts_us", pa.int64()),
        ("gtid", pa.string()),
    ]
)
_TEXT, _NUMBER = pa.string(), pa.int64()
_REST_OF_SOURCE = [
    *((name, _TEXT) for name in ("version", "connector", "name", "sequence", "query")),
    *((name, _NUMBER) for name in ("ts_ms", "ts_ns", "server_id", "thread")),
]
_TRANSACTION = pa.struct(
    [("id", _TEXT), ("total_order", _NUMBER), ("data_collection_order", _NUMBER)]
)
_REST = [("transaction", _TRANSACTION), *((name, _NUMBER) for name in ("ts_ms", "ts_us", "ts_ns"))]
"""What else Debezium (3.6) writes into an envelope."""

# Made once, and with their types: to make one of a Python value, Arrow asks each time whether it may be one of
# dateutil's, which costs more than to compare a small table's column where that module is not installed.
DELETE, READ, TRUNCATE = (pa.scalar(op, pa.string()) for op in "drt")
_INCREMENTAL = pa.scalar("incremental", pa.string())
_WITH_AFTER, _WITH_BEFORE = (pa.array(list(ops), pa.string()) for ops in ("cru", "ud"))
_OF_WRITE, OF_REREAD, _OF_DELETE = (
    pa.scalar(part, pa.int32())
    for part in (position.PART_WRITE, position.PART_REREAD, position.PART_DELETE)
)
_FALSE, _NO_ROW = pa.scalar(False, pa.bool_()), pa.scalar(0, pa.int32())
_NEW_LINE = pa.scalar("\n", pa.string())

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$]+")
_APPROXIMATE = (Kind.FLOAT, Kind.DOUBLE)


@dataclass(frozen=True)
class Layout:
    """How the records of one table's topic look under one schema version."""

    version: SchemaVersion
    schema: RowSchema

    @cached_property
    def parsed(self) -> pa.Schema:
        """What Arrow parses a record's value with: all that is needed of it."""
        image = pa.struct([(name, arrow_values.json_type(k)) for name, k in self.schema.columns])
        return pa.schema(
            [("before", image), ("after", image), ("op", pa.string()), ("source", _SOURCE)]
        )

    @cached_property
    def whole(self) -> pa.Schema:
        """The same with all that a record is known to have: Arrow has no types to guess then."""
        source = pa.struct([*_SOURCE, *starmap(pa.field, _REST_OF_SOURCE)])
        needed = [self.parsed.field(name) for name in ("before", "after", "op")]
        return pa.schema([*needed, ("source", source), *_REST])

    def unreadable(self) -> str | None:
        """Why only Spark can read such records: no key, a column that is not read here, or a name that JSON
        might write in two ways; None where they can be read here.
        """
        if not self.version.key:
            return "it has no key"
        for name, kind in self.schema.columns:
            if not _PLAIN_NAME.fullmatch(name):
                return f"the name of its column {name}"
            if kind.kind not in arrow_values.READABLE:
                return f"the type of its column {name}"
            # Arrow tells the zero below zero from the zero above it.
            if name in self.version.key and kind.kind in _APPROXIMATE:
                return "a key column is a floating-point number"
        return None


@dataclass(frozen=True)
class Changes:
    """Those of one topic partition. ``notes``: ``offset, run, bytes, op, epoch, file, pos, row, part,
    snapshot, ts_us, gtid``, one row each. ``rows``: a MERGE's source rows, those of TRUNCATEs left out.
    """

    notes: pa.Table
    rows: pa.Table

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """All in one."""
        notes = pa.concat_tables(part.notes for part in parts).combine_chunks()
        return cls(notes, pa.concat_tables(part.rows for part in parts).combine_chunks())


def read(records: pa.Table, layout: Layout, epoch: int) -> Changes:
    """``records``: ``offset bigint, value binary, run string`` of one partition, in one epoch of the log.
    Raises :class:`UnfitError`.
    """
    try:
        if records["value"].null_count:
            records = records.filter(pc.is_valid(records["value"]))
        return _read(records, layout, epoch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, RecursionError) as odd:
        raise UnfitError(str(odd)[:200]) from None


def _read(records: pa.Table, layout: Layout, epoch: int) -> Changes:
    values = records["value"].combine_chunks().cast(pa.string())  # refuses what is not UTF-8
    text, parsed = _parsed(values, layout)
    after, before, op = parsed["after"], parsed["before"], parsed["op"]
    source = parsed["source"]
    _refuse_others(after, before, op, source, layout)
    _refuse_other_columns(text, parsed, layout)
    notes = _notes(records, values, op, source, epoch)
    is_row = pc.not_equal(op, TRUNCATE)
    image = pc.if_else(pc.equal(op, DELETE), before, after)
    image, where = image.filter(is_row), notes.filter(is_row)
    return Changes(notes, _rows(image, where, layout))


def _parsed(values: pa.Array, layout: Layout) -> tuple[pa.Buffer, dict[str, Any]]:
    """The text of all values, and them parsed: one record to one row."""
    if not len(values):
        raise UnfitError("no record")
    if not pc.all(pc.starts_with(values, "{")).as_py():
        raise UnfitError("a value is no object")
    lines = pa.ListArray.from_arrays([0, len(values)], values)
    text = pc.binary_join(lines, _NEW_LINE)[0].as_buffer()
    try:
        table = _json(text, layout.whole, "error")
    except pa.ArrowInvalid:  # a field more, of the envelope or of a row
        table = _json(text, layout.parsed, "infer")
    if table.num_rows != len(values):
        raise UnfitError("a value is not one object")
    return text, {name: table[name].combine_chunks() for name in table.column_names}


def _json(text: pa.Buffer, schema: pa.Schema, unexpected: Literal["error", "infer"]) -> pa.Table:
    whole = paj.ReadOptions(use_threads=False, block_size=text.size + 1)
    how = paj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    return paj.read_json(pa.BufferReader(text), read_options=whole, parse_options=how)


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


def _refuse_other_columns(text: pa.Buffer, parsed: dict[str, Any], layout: Layout) -> None:
    """A row image has each column of the schema, and no other.

    Arrow adds fields that the schema does not name, and makes null of one that is not there. The second shows in the
    text: as often as a field called ``c`` is null, ``"c":null`` must stand there. It cannot stand inside a string,
    where a quote has a backslash before it, and every null that Arrow made of nothing makes the sums differ.
    """
    names = [name for name, _ in layout.schema.columns]
    for image in (parsed["after"], parsed["before"]):
        if [field.name for field in image.type] != names:
            raise UnfitError("other columns")
    every: Counter[str] = Counter()
    for name, nulls in chain.from_iterable(map(_nulls, parsed, parsed.values())):
        every[name] += nulls
    whole = text.to_pybytes() if any(every.get(name) for name in names) else b""
    for name in names:
        if every.get(name) and whole.count(f'"{name}":null'.encode()) != every[name]:
            raise UnfitError("a column is missing")


def _nulls(name: str, values: pa.Array) -> Iterator[tuple[str, int]]:
    """How often this field, and those in it, are null where what holds them is not."""
    yield name, values.null_count
    if pa.types.is_struct(values.type):
        held = values.drop_null() if values.null_count else values
        for place, field in enumerate(values.type):
            yield from _nulls(field.name, held.field(place))


def _notes(records: pa.Table, values: pa.Array, op: pa.Array, source: Any, epoch: int) -> pa.Table:
    names = source.field("file").dictionary_encode()
    files = pa.array([file_number(name) for name in names.dictionary.to_pylist()], pa.int64())
    again = pc.fill_null(pc.equal(source.field("snapshot"), _INCREMENTAL), _FALSE)
    part = pc.if_else(pc.and_(pc.equal(op, READ), again), OF_REREAD, _OF_WRITE)
    part = pc.if_else(pc.equal(op, DELETE), _OF_DELETE, part)
    return pa.table(
        {
            "offset": records["offset"],
            "run": records["run"],
            "bytes": pc.cast(pc.binary_length(values), pa.int64()),
            "op": op,
            "epoch": pa.repeat(pa.scalar(epoch, pa.int32()), len(op)),
            "file": files.take(names.indices),
            "pos": source.field("pos"),
            "row": pc.fill_null(source.field("row"), _NO_ROW),
            "part": part,
            "snapshot": source.field("snapshot"),
            "ts_us": source.field("ts_us"),
            "gtid": source.field("gtid"),
        }
    )


def _rows(image: pa.StructArray, notes: pa.Table, layout: Layout) -> pa.Table:
    streamed = pc.not_equal(notes["op"].combine_chunks(), READ)
    columns = {}
    for name, kind in layout.schema.columns:
        raw = pc.struct_field(image, name)
        found = arrow_values.value(raw, kind, streamed)
        found = _without_zero_dates(found, name, layout.schema)
        if name in layout.schema.key and found.null_count:
            raise UnfitError("a key without a value")
        columns[name] = found
    place = pa.StructArray.from_arrays(
        [notes[field.name].combine_chunks() for field in POSITION], fields=list(POSITION)
    )
    committed = pc.cast(notes["ts_us"].combine_chunks(), pa.timestamp("us", "UTC"))
    meta = [place, notes["op"].combine_chunks(), committed]
    names = ["position", "op", "committed_at"]
    columns[RESERVED_COLUMN] = pa.StructArray.from_arrays(meta, names=names)
    return pa.table(columns)


def _without_zero_dates(found: pa.Array, name: str, schema: RowSchema) -> pa.Array:
    """1970-01-01 00:00:00 in a NOT NULL column, which Debezium writes for a zero date, as ``decode`` takes it."""
    kind = dict(schema.columns)[name].kind
    if name not in schema.required or kind not in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return found
    dates: EpochDates = "null" if kind is Kind.TIMESTAMP else schema.epoch_dates
    width = pa.int32() if kind is Kind.DATE else pa.int64()
    zero = pc.equal(pc.cast(found, width), 0)
    if dates == "quarantine" and pc.any(zero).as_py():
        raise UnfitError("a date that may be a zero date")
    return pc.if_else(zero, pa.scalar(None, found.type), found) if dates == "null" else found
