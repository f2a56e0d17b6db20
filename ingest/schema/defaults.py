"""What a constant default is once MySQL has stored it in a column of some type. Pure.

Only what is the same in every session and under every character set; for all else the table is asked again.
"""

from __future__ import annotations

from decimal import Context, Decimal

from ingest.schema.ddl import Constant
from ingest.schema.mysql_types import Column, ColumnType, Kind, column_type, normalised, unquoted

_RANGES = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "decimal(20,0)": (0, 2**64 - 1),
}
_DIGITS_OF_A_DOUBLE = 15
_WIDE = Context(prec=200)
"""MySQL's DECIMAL has 65 digits; Python's own context has 28."""


def stored(default: Constant, column: Column) -> str | None:
    """The text that, cast to the lake's type, is the value of existing rows; None where it is not certain."""
    kind = column_type(column)
    if kind.kind in (Kind.INTEGER, Kind.TRUTH, Kind.UNSIGNED_BIGINT):
        return _whole(default, column, kind)
    if kind.kind is Kind.DECIMAL:
        return _decimal(default, column)
    if kind.kind in (Kind.DOUBLE, Kind.ROUGH):
        number = _number(default)
        short = number is not None and len(number.as_tuple().digits) <= _DIGITS_OF_A_DOUBLE
        return str(number) if number and short and column.scale is None else None
    if kind.kind in (Kind.ENUM, Kind.SET):
        labels = {unquoted(label) for label in column.labels if label.startswith("'")}
        known = default.is_text and (default.text in labels or _is_no_label(default, kind))
        return default.text if known and not default.text.endswith(" ") else None
    if kind.kind is Kind.TEXT:
        return _text(default, column)
    return None


def _is_no_label(default: Constant, kind: ColumnType) -> bool:
    return kind.kind is Kind.SET and not default.text


def _number(default: Constant) -> Decimal | None:
    text = default.text
    plain = text.removeprefix("-").replace(".", "", 1)
    return Decimal(text) if plain.isascii() and plain.isdigit() else None


def _whole(default: Constant, column: Column, kind: ColumnType) -> str | None:
    number = _number(default)
    if number is None or number != int(number) or "." in default.text:
        return None
    low, high = _RANGES[kind.delta]
    if normalised(column.type_name).endswith(" UNSIGNED"):
        low = 0
    return str(int(number)) if low <= number <= high else None


def _decimal(default: Constant, column: Column) -> str | None:
    number = _number(default)
    if number is None:
        return None
    length, scale = column.length or 10, column.scale or 0
    exact = number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    fits = exact == number and abs(number) < Decimal(10) ** (length - scale)
    unsigned = normalised(column.type_name).endswith(" UNSIGNED")
    return f"{number:f}" if fits and not (unsigned and number < 0) else None


def _text(default: Constant, column: Column) -> str | None:
    text = default.text
    if not default.is_text and not text.removeprefix("-").isdigit():
        return None  # how MySQL writes a fraction is its own affair
    if not default.is_text and text != str(int(text)):
        return None
    if normalised(column.type_name) == "CHAR":
        text = text.rstrip(" ")
    return text if len(text) <= (column.length or 1) else None
