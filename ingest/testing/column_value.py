"""A value of Python as Debezium writes it and as the lake holds it, by the column's type. Pure."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from ingest.sample import moments
from ingest.sample.json_forms import base64_text
from ingest.sample.values import NO_LABEL, NULL, Value, exact
from ingest.schema import snapshot_select
from ingest.schema.mysql_types import Column, ColumnType, Kind, column_type


def column_value(column: Column, given: Any) -> Value:
    """``given`` by type: ``int``, ``float``, ``str``, ``bytes`` and ``None`` as one expects; DECIMAL: ``Decimal``,
    ``int`` or ``str``; DATE: ``date``; DATETIME: ``datetime`` without a zone; TIMESTAMP: ``datetime`` with one; TIME:
    ``timedelta``; BIT(1): ``bool``, wider: ``int``; JSON: anything that ``json`` can write. A ``Value`` of
    ``ingest.sample.values``, the only form of a geometry, is taken as it is.

    Raises ``TypeError`` for a value of another type, ``ValueError`` for NULL where the column has none. Ranges are not
    looked at: what MySQL could not hold goes to quarantine.
    """
    if isinstance(given, Value):
        return given
    if given is None:
        if not column.optional:
            raise ValueError(f"column {column.name!r} is NOT NULL and was given no value")
        return NO_LABEL if column_type(column).marked else NULL
    kind = column_type(column)
    wanted, made = _FORMS.get(kind.kind, ((), _itself))
    if not isinstance(given, wanted) or (isinstance(given, bool) and bool not in wanted):
        names = " or ".join(one.__name__ for one in wanted) or "Value of ingest.sample.values"
        raise TypeError(
            f"column {column.name!r} is a {column.type_name}: it takes {names}, not {given!r}"
        )
    return made(given, column, kind)


def python_value(column: Column, held: Value) -> Any:
    """The inverse of :func:`column_value`: what it takes of a column whose value the lake has in another form than Python."""
    form = _BACK.get(column_type(column).kind)
    return held.lake if form is None or held.lake is None else form(held.lake)


def _value(streamed: Any, lake: Any, snapshot: Any = None) -> Value:
    return Value("", streamed, lake, streamed if snapshot is None else snapshot)


def _itself(given: Any, _: Column, __: ColumnType) -> Value:
    return _value(given, given)


def _unsigned(given: int, _: Column, __: ColumnType) -> Value:
    return _value(given, Decimal(given))


def _single(given: float, _: Column, __: ColumnType) -> Value:
    (number,) = struct.unpack("<f", struct.pack("<f", given))
    return _value(float(given), number)


def _double(given: float, _: Column, __: ColumnType) -> Value:
    return _value(float(given), float(given))


def _decimal(given: Any, column: Column, kind: ColumnType) -> Value:
    number = Decimal(given).quantize(Decimal(1).scaleb(-(column.scale or 0)), context=Context(80))
    if number != Decimal(given):
        raise ValueError(
            f"column {column.name!r} has {column.scale or 0} fraction digits: {given!r}"
        )
    text = f"{number:f}"
    return _value(text, text if kind.kind is Kind.WIDE_DECIMAL else number)


def _too_fine(column: Column, digits: int | None, given: Any) -> ValueError:
    """MySQL would round it."""
    return ValueError(f"column {column.name!r} has {digits or 0} fraction digits: {given!r}")


def _micros(micros: int, column: Column, given: Any) -> int:
    if moments.cut(micros, column.length or 0) != micros:
        raise _too_fine(column, column.length, given)
    return micros


def _bits(given: int, column: Column, _: ColumnType) -> Value:
    raw = given.to_bytes(((column.length or 1) + 7) // 8, "little")
    return _value(base64_text(raw), raw[::-1])


def _label(given: str, _: Column, kind: ColumnType) -> Value:
    written = {label: streamed for streamed, label in kind.labels}
    parts = given.split(",") if kind.kind is Kind.SET else [given]
    mark = snapshot_select.LABEL if kind.marked else ""
    return _value(",".join(written.get(one, one) for one in parts), given, f"{mark}{given}")


def _binary(given: bytes, column: Column, _: ColumnType) -> Value:
    fixed = column.type_name.upper() == "BINARY"
    kept = given.ljust(column.length or 1, b"\0") if fixed else given
    return _value(base64_text(kept), kept)


def _date(given: date, column: Column, _: ColumnType) -> Value:
    if isinstance(given, datetime):
        raise TypeError(f"column {column.name!r} is a DATE: it takes a date, {given!r} has a time")
    return _value(exact(given), given)


def _datetime(given: datetime, column: Column, _: ColumnType) -> Value:
    if given.tzinfo is not None:
        raise TypeError(
            f"column {column.name!r} is a DATETIME: it takes no time zone, {given!r} has"
        )
    return _value(_micros(moments.micros_of(given), column, given), given)


def _timestamp(given: datetime, column: Column, _: ColumnType) -> Value:
    if given.tzinfo is None:
        raise TypeError(
            f"column {column.name!r} is a TIMESTAMP: it takes a time zone, {given!r} has none"
        )
    instant = moments.EPOCH + (given - moments.instant(moments.EPOCH))
    digits = column.length or 0
    _micros(instant.microsecond, column, given)
    text = instant.isoformat("T", "microseconds")[: 20 + digits if digits else 19]
    short = text.rstrip("0").rstrip(".") if digits else text
    return _value(f"{text}Z", given, f"{short}Z")


def _time(given: timedelta, column: Column, kind: ColumnType) -> Value:
    micros = _micros(given // timedelta(microseconds=1), column, given)
    return _value(micros, moments.time_text(micros, kind.digits))


def _duration(text: str) -> timedelta:
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, rest = seconds.partition(".")
    size = timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(whole),
        microseconds=int(rest.ljust(6, "0")),
    )
    return -size if text.startswith("-") else size


def _json(given: Any, column: Column, _: ColumnType) -> Value:
    document = _as_stored(json.loads(given) if isinstance(given, str) else given, column)
    printed = json.dumps(document, ensure_ascii=False)
    return _value(json.dumps(document, ensure_ascii=False, separators=(",", ":")), printed, printed)


def _as_stored(document: Any, column: Column) -> Any:
    """With names in MySQL's order: the shorter ones first."""
    if isinstance(document, dict):
        names = sorted(document, key=lambda name: (len(name.encode()), name.encode()))
        return {name: _as_stored(document[name], column) for name in names}
    if isinstance(document, list):
        return [_as_stored(one, column) for one in document]
    if isinstance(document, float) and document and not 1e-4 <= abs(document) < 1e15:
        raise ValueError(
            f"column {column.name!r}: MySQL prints {document!r} in another way than Python; "
            "take a Value of ingest.sample.values"
        )
    return document


_BACK: dict[Kind, Callable[[Any], Any]] = {
    Kind.UNSIGNED_BIGINT: int,
    Kind.BITS: lambda raw: int.from_bytes(raw, "big"),
    Kind.TIME: _duration,
}
"""What Python has in another form than the lake."""

_Form = Callable[[Any, Column, ColumnType], Value]

_FORMS: dict[Kind, tuple[tuple[type, ...], _Form]] = {
    Kind.INTEGER: ((int,), _itself),
    Kind.UNSIGNED_BIGINT: ((int,), _unsigned),
    Kind.DECIMAL: ((Decimal, int, str), _decimal),
    Kind.WIDE_DECIMAL: ((Decimal, int, str), _decimal),
    Kind.FLOAT: ((float, int), _single),
    Kind.DOUBLE: ((float, int), _double),
    Kind.BOOLEAN: ((bool,), _itself),
    Kind.BITS: ((int,), _bits),
    Kind.TEXT: ((str,), _itself),
    Kind.ENUM: ((str,), _label),
    Kind.SET: ((str,), _label),
    Kind.BINARY: ((bytes,), _binary),
    Kind.YEAR: ((int,), _itself),
    Kind.DATE: ((date,), _date),
    Kind.DATETIME: ((datetime,), _datetime),
    Kind.TIMESTAMP: ((datetime,), _timestamp),
    Kind.TIME: ((timedelta,), _time),
    Kind.JSON: ((str, dict, list), _json),
}
"""What a column takes. No entry: nothing but a ``Value``."""
