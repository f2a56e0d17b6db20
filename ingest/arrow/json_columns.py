"""The JSON of many records to Arrow's columns, with a table's layout: each name that a record has is one that is known.

Raises ``UnfitError`` for what is not as Debezium writes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import starmap
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as paj

from ingest.arrow import column_values
from ingest.arrow.column_values import UnfitError
from ingest.changes.row_images import RowSchema
from ingest.model import reasons
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Kind

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

_NEW_LINE, _FALSE = pa.scalar("\n", pa.string()), pa.scalar(False, pa.bool_())
_QUOTE = pa.scalar(ord('"'), pa.uint8())
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$]+")
_APPROXIMATE = (Kind.FLOAT, Kind.DOUBLE, Kind.ROUGH)


@dataclass(frozen=True)
class Layout:
    """How the records of one table's topic look under one schema version."""

    version: SchemaVersion
    schema: RowSchema

    @cached_property
    def parsed(self) -> pa.Schema:
        """What Arrow parses a record's value with: all that is needed of it."""
        image = pa.struct([(name, column_values.json_type(k)) for name, k in self.schema.columns])
        return pa.schema(
            [("before", image), ("after", image), ("op", pa.string()), ("source", _SOURCE)]
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the table's columns."""
        return frozenset(name for name, _ in self.schema.columns)

    @cached_property
    def needed(self) -> pa.Schema:
        """The same with the version of Debezium that wrote it, and with what of Debezium's is called as a column is, so
        that each one's nulls can be counted (``_refuse_other_columns``).
        """
        alike = [(name, kind) for name, kind in _REST_OF_SOURCE if name in {*self.names, "version"}]
        source = pa.struct([*_SOURCE, *starmap(pa.field, alike)])
        images = [self.parsed.field(name) for name in ("before", "after", "op")]
        rest = [one for one in _REST if one[0] in self.names]
        return pa.schema([*images, ("source", source), *rest])

    @cached_property
    def whole(self) -> pa.Schema:
        """The same with all that a record is known to have: Arrow has no types to guess then."""
        source = pa.struct([*_SOURCE, *starmap(pa.field, _REST_OF_SOURCE)])
        needed = [self.parsed.field(name) for name in ("before", "after", "op")]
        return pa.schema([*needed, ("source", source), *_REST])

    @cached_property
    def unasked(self) -> frozenset[str]:
        """Strings that each record has, and ``needed`` has not."""
        return frozenset({"connector", "name"} - self.names)

    @cached_property
    def names_of_envelope(self) -> int:
        """How many names a record has, but for its images' columns."""
        return len(self.whole) + int(self.whole.field("source").type.num_fields)

    def unreadable(self) -> str | None:
        """Why only Spark can read such records: no key, a column that is not read here, or a name that JSON
        might write in two ways; None where they can be read here.
        """
        if not self.version.key:
            return reasons.NO_KEY.of()
        for name, kind in self.schema.columns:
            if not _PLAIN_NAME.fullmatch(name):
                return reasons.COLUMN_NAME.of(column=name)
            if kind.kind not in column_values.READABLE:
                return reasons.COLUMN_TYPE.of(column=name)
            # Arrow tells the zero below zero from the zero above it.
            if name in self.version.key and kind.kind in _APPROXIMATE:
                return reasons.FLOAT_KEY.of()
        return None


def parsed(values: pa.StringArray, layout: Layout) -> dict[str, Any]:
    """Columns ``before, after, op, source`` and some more, one row for each value. A row image has each column of the
    layout, and no other. Raises :class:`UnfitError`, ``ValueError``.
    """
    if not len(values):
        raise UnfitError("no record")
    if not pc.all(pc.starts_with(values, "{")).as_py():
        raise UnfitError("a value is no object")
    text = _joined(values)
    columns = _plain(text, values[0].as_py(), layout) or _strict(text, layout)
    if len(columns["op"]) != len(values):
        raise UnfitError("a value is not one object")
    _refuse_other_columns(values, columns, layout)
    return columns


def source_places(values: pa.StringArray) -> pa.StructArray:
    """``file, pos, row`` of each value, whatever else is in it. Raises :class:`UnfitError`, ``ValueError``."""
    if not pc.all(pc.starts_with(values, "{")).as_py():
        raise UnfitError("a value is no object")
    wanted = pa.struct([_SOURCE.field(name) for name in ("file", "pos", "row")])
    found = _json(_joined(values), pa.schema([("source", wanted)]), "ignore")["source"]
    if len(found) != len(values):
        raise UnfitError("a value is not one object")
    return found


def _joined(values: pa.StringArray) -> pa.Buffer:
    lines = pa.ListArray.from_arrays([0, len(values)], values)
    return pc.binary_join(lines, _NEW_LINE)[0].as_buffer()


def _strict(text: pa.Buffer, layout: Layout) -> dict[str, Any]:
    """With every field that a record has."""
    try:
        return _json(text, layout.whole, "error")
    except pa.ArrowInvalid:  # a field more, of the envelope or of a row
        return _json(text, layout.parsed, "infer")


def _plain(text: pa.Buffer, first: str, layout: Layout) -> dict[str, Any] | None:
    """The same without what nobody asks for, in three quarters of the time; None where a record may have a field that
    is not known.

    Arrow says nothing of fields that it passes over, but each has a name, and each name two quotes; all other quotes
    are those around strings and in them. One version of Debezium writes one envelope whatever the change, with null
    where there is nothing to say, and the first record shows which. So records of one version have at least its names,
    those of their images' columns (``_refuse_other_columns``), and the strings that are asked for or always there.
    Where there are no more quotes than these have, there is no other name.
    """
    raw = text.to_pybytes()
    # Most texts have no backslash, which one byte alone tells in a tenth of the time of two.
    if (b"\\" in raw and b'\\"' in raw) or not _is_whole(first, layout.whole):
        return None
    try:
        columns = _json(text, layout.needed, "ignore")
    except pa.ArrowInvalid:
        return None
    records = len(columns["op"])
    images = sum(records - columns[name].null_count for name in ("before", "after"))
    strings = sum(one.values for one in _fields(columns.items()) if pa.types.is_string(one.type))
    names = records * layout.names_of_envelope + images * len(layout.names)
    quotes = pc.equal(pa.Array.from_buffers(pa.uint8(), text.size, [None, text]), _QUOTE).true_count
    known = quotes == 2 * (names + strings + records * len(layout.unasked))
    return columns if known and len(columns["source"].field("version").unique()) == 1 else None


def _is_whole(text: str, schema: pa.Schema) -> bool:
    """True for a record with just the names that the schema has, and no transaction, which has more."""
    record = json.loads(text)
    source = record.get("source")
    return (
        record.keys() == set(schema.names)
        and isinstance(source, dict)
        and source.keys() == {field.name for field in schema.field("source").type}
        and record["transaction"] is None
    )


def _json(
    text: pa.Buffer, schema: pa.Schema, unexpected: Literal["error", "ignore", "infer"]
) -> dict[str, Any]:
    whole = paj.ReadOptions(use_threads=False, block_size=text.size + 1)
    how = paj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    table = paj.read_json(pa.BufferReader(text), read_options=whole, parse_options=how)
    return {name: table[name].combine_chunks() for name in table.column_names}


def _refuse_other_columns(
    values: pa.StringArray, columns: Mapping[str, Any], layout: Layout
) -> None:
    """A row image has each column of the schema, and no other.

    Arrow adds fields that the schema does not name, and makes null of one that is not there. The second shows in the
    text: as often as a field called ``c`` is null, ``"c":null`` must stand there. It cannot stand inside a string,
    where a quote has a backslash before it, and every null that Arrow made of nothing makes the sums differ. Records
    of which no column is null need not be looked at.
    """
    names = [name for name, _ in layout.schema.columns]
    images = [columns["after"], columns["before"]]
    if any([field.name for field in image.type] != names for image in images):
        raise UnfitError("other columns")
    where = pc.or_(*map(_has_null, images))
    if not where.true_count:
        return
    nulls: Counter[str] = Counter()
    for one in _fields((name, each.filter(where)) for name, each in columns.items()):
        nulls[one.name] += one.nulls
    text = _joined(values.filter(where)).to_pybytes()
    for name in names:
        if nulls[name] and text.count(f'"{name}":null'.encode()) != nulls[name]:
            raise UnfitError("a column is missing")


def _has_null(image: pa.StructArray) -> pa.BooleanArray:
    """True where the image is there and one of its columns is null."""
    some = [one.is_null() for one in image.flatten() if one.null_count > image.null_count]
    return pc.and_(image.is_valid(), reduce(pc.or_, some, pa.repeat(_FALSE, len(image))))


class _Field(NamedTuple):
    """A field of a record, or of what is in it. ``values``, ``nulls``: how often it is which, where what holds it is
    not null.
    """

    name: str
    type: pa.DataType
    values: int
    nulls: int


def _fields(columns: Iterable[tuple[str, pa.Array]], absent: int = 0) -> Iterator[_Field]:
    """All of them. ``absent``: how often what holds these columns is null, as they are there, too."""
    for name, each in columns:
        yield _Field(name, each.type, len(each) - each.null_count, each.null_count - absent)
        if pa.types.is_struct(each.type):
            held = zip([field.name for field in each.type], each.flatten(), strict=True)
            yield from _fields(held, each.null_count)
