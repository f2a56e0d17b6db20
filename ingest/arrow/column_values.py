"""One column's values in the driver: from the type its JSON was parsed with to the lake's type, by Arrow.

What ``row_images.value`` says in Spark's columns; the two are held equal by a law (tests/spark/arrow/test_in_driver.py). Where they
might differ, and wherever a value does not fit, this one refuses, and Spark reads the changes. Pure.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow import json_document
from ingest.schema import snapshot_select
from ingest.schema.mysql_types import RANGES, ColumnType, Kind

_JSON = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "decimal(20,0)": pa.uint64(),  # a BIGINT UNSIGNED; Arrow takes decimals from texts alone
}

READABLE = frozenset(Kind) - {Kind.GEOMETRY, Kind.GARBLED, Kind.LOST}
"""Kinds that are read here."""


_CAST = (
    *(Kind.INTEGER, Kind.TRUTH, Kind.UNSIGNED_BIGINT),
    *(Kind.DECIMAL, Kind.TIMESTAMP, Kind.DATE),
)


class UnfitError(Exception):
    """These changes are for Spark to read: some value is odd, or wrong."""


def json_type(kind: ColumnType) -> pa.DataType:
    """What Arrow parses a column's JSON with; it refuses every other form."""
    return _JSON[kind.json]


def value(raw: pa.Array, kind: ColumnType, streamed: pa.Array) -> pa.Array:
    """Parsed values to the lake's type; null stays null. ``streamed``: true where the stream wrote it, false
    where a snapshot did. Raises :class:`UnfitError`, ``ValueError``.
    """
    if kind.marked:
        return _marked(raw, kind, streamed)
    if raw.null_count == len(raw):
        return pa.nulls(len(raw), delta_type(kind.delta))
    if kind.kind in RANGES:
        low, high = RANGES[kind.kind]
        found = pc.min_max(raw)
        if found["min"].as_py() < low or found["max"].as_py() > high:
            raise UnfitError("a date or time beyond MySQL's")
    if kind.kind in (Kind.FLOAT, Kind.DOUBLE, Kind.ROUGH):
        if not pc.all(pc.is_finite(raw)).as_py():
            raise UnfitError("no number")
        return raw
    if kind.kind is Kind.YEAR:
        zero = pc.and_(streamed, pc.equal(raw, 1900))
        return pc.cast(pc.if_else(zero, 0, raw), pa.int32())
    if kind.labels:
        each = _of_each(raw, lambda text: _label(text, kind))
        return pc.if_else(streamed, each, raw)
    if kind.kind in _CAST:
        return pc.cast(raw, delta_type(kind.delta))
    if kind.kind is Kind.BINARY:
        return _of_each(raw, lambda text: _bytes(text, kind), pa.binary())
    if kind.kind is Kind.BITS:
        return _of_each(raw, lambda text: b64decode(text, validate=True)[::-1], pa.binary())
    if kind.kind is Kind.DATETIME:
        return pc.cast(raw, pa.timestamp("us"))
    if kind.kind is Kind.TIME:
        return _time_text(raw, kind.digits)
    if kind.kind is Kind.JSON:
        return _of_each(raw, json_document.text)
    return raw


@lru_cache(maxsize=512)
def delta_type(delta: str) -> pa.DataType:
    """A Delta type's name to what Spark hands over for it."""
    if delta.startswith("decimal("):
        precision, scale = delta.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    others = {
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
    }
    return others.get(delta) or _JSON[delta]


def _of_each(raw: pa.Array, act: Callable[[str], Any], into: pa.DataType | None = None) -> pa.Array:
    """A Python function over texts, each different one once."""
    encoded = raw.dictionary_encode()
    values = [act(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, into or pa.string()).take(encoded.indices)


def _marked(raw: pa.Array, kind: ColumnType, streamed: pa.Array) -> pa.Array:
    """Labels that a snapshot marks. What it has not marked is no value."""
    none = pc.fill_null(pc.equal(raw, snapshot_select.NULL), False)
    marked = pc.fill_null(pc.starts_with(raw, snapshot_select.LABEL), False)
    if not pc.all(pc.or_(streamed, pc.or_(none, marked)), min_count=0).as_py():
        raise UnfitError("a label that a snapshot has not marked")
    read = pc.if_else(none, None, pc.utf8_slice_codeunits(raw, 1))
    return pc.if_else(streamed, _of_each(raw, lambda text: _label(text, kind)), read)


def _bytes(text: str, kind: ColumnType) -> bytes:
    return b64decode(text, validate=True).ljust(kind.padded, b"\0")


def _label(text: str, kind: ColumnType) -> str:
    known = dict(kind.labels)
    if kind.kind is Kind.ENUM:
        return known.get(text, text)
    return ",".join(known.get(one, one) for one in text.split(","))


def _time_text(micros: pa.Array, digits: int) -> pa.Array:
    """MySQL's own text of a TIME, as ``row_images`` writes it."""
    size = pc.abs(micros)
    seconds = pc.divide(size, 1_000_000)
    sign = pc.if_else(pc.less(micros, 0), "-", "")
    hours, minutes = pc.divide(seconds, 3600), pc.divide(seconds, 60)
    parts = [hours, _rest(minutes, 60), _rest(seconds, 60)]
    padded = [pc.utf8_lpad(pc.cast(part, pa.string()), 2, "0") for part in parts]
    text = pc.binary_join_element_wise(sign, pc.binary_join_element_wise(*padded, ":"), "")
    if digits:
        fraction = pc.utf8_lpad(pc.cast(_rest(size, 1_000_000), pa.string()), 6, "0")
        shown = pc.utf8_slice_codeunits(fraction, 0, digits)
        text = pc.binary_join_element_wise(text, shown, ".")
    return text


def _rest(number: pa.Array, by: int) -> pa.Array:
    return pc.subtract(number, pc.multiply(pc.divide(number, by), by))
