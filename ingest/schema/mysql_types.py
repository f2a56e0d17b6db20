"""MySQL column types: what each becomes in Delta, and how Debezium's JSON writes its values.

``column_type`` answers for one column of Debezium's schema-change topic. The JSON forms hold for the
settings of ``connect/mysql-connector.yaml`` and were read off the real connector (``tests/integration/test_types.py``). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """How a value travels; the JSON form follows each name."""

    INTEGER = "number"
    UNSIGNED_BIGINT = "number, beyond a signed long"
    DECIMAL = "plain decimal text"
    WIDE_DECIMAL = "plain decimal text, more than Delta's 38 digits"
    FLOAT = "number (single precision)"
    DOUBLE = "number (double precision)"
    ROUGH = "number, cut to single precision, of a double"
    BOOLEAN = "true or false"
    TRUTH = "true for every number but 0, or false"
    BITS = "base64 of little-endian bytes"
    LOST = "null, whatever the value"
    TEXT = "text"
    ENUM = "a label"
    SET = "labels with commas between"
    BINARY = "base64"
    GARBLED = "bytes that were taken for text: nothing that can be read"
    YEAR = "number; the stream writes 1900 for 0000"
    DATE = "days since 1970-01-01"
    DATETIME = "microseconds since 1970-01-01 00:00:00 on the wall clock"
    TIMESTAMP = "ISO 8601 text in UTC"
    TIME = "signed microseconds"
    JSON = "JSON document as text"
    GEOMETRY = "object of base64 WKB and SRID"


RANGES = {
    Kind.DATE: (-719_528, 2_932_896),  # 0000-01-01 to 9999-12-31, in days
    Kind.DATETIME: (-62_167_219_200_000_000, 253_402_300_799_999_999),  # the same, in microseconds
    Kind.TIME: (-3_020_399_999_999, 3_020_399_999_999),  # -838:59:59.999999 and its opposite
    Kind.YEAR: (0, 2155),
}
"""What MySQL's types can hold. A number beyond is nobody's value, and arithmetic on it could raise,
which would stop the batch for ever instead of setting the row aside."""


@dataclass(frozen=True)
class ColumnType:
    """``delta``: type of the lake's column. ``json``: Spark type its JSON is parsed with."""

    kind: Kind
    delta: str
    json: str
    digits: int = 0
    """Fraction digits of a TIME."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of an ENUM or SET: how the stream writes a label, and the label, where they differ."""
    padded: int = 0
    """Of a BINARY: bytes that zeros fill it up to, where Debezium does not."""
    marked: bool = False
    """Of an ENUM or SET: a snapshot marks its labels (``snapshot_select``)."""


@dataclass(frozen=True)
class Column:
    """One source column, as Debezium's schema-change topic describes it."""

    name: str
    type_name: str
    length: int | None
    scale: int | None
    optional: bool
    charset: str | None = None
    default: str | None = None
    labels: tuple[str, ...] = ()
    """Of an ENUM or SET, as the DDL quotes them."""
    generated: bool = False
    """AUTO_INCREMENT or ON UPDATE CURRENT_TIMESTAMP: MySQL gives the value (``tests/integration/test_types.py``)."""

    @classmethod
    def from_json(cls, column: Mapping[str, Any]) -> Column:
        """From an entry of ``tableChanges[].table.columns``."""
        return cls(
            name=column["name"],
            type_name=column["typeName"],
            length=column.get("length"),
            scale=column.get("scale"),
            optional=bool(column.get("optional")),
            charset=column.get("charsetName"),
            default=column.get("defaultValueExpression"),
            labels=tuple(column.get("enumValues") or ()),
            generated=bool(column.get("generated")) or bool(column.get("autoIncremented")),
        )


_SYNONYMS = {
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT3": "MEDIUMINT",
    "MIDDLEINT": "MEDIUMINT",
    "INTEGER": "INT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "SERIAL": "BIGINT UNSIGNED",
    "BIGINT SERIAL DEFAULT VALUE": "BIGINT UNSIGNED",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "FIXED": "DECIMAL",
    "FLOAT8": "DOUBLE",
    "DOUBLE PRECISION": "DOUBLE",
    "LONG": "MEDIUMTEXT",
    "LONG VARBINARY": "MEDIUMBLOB",
    "CHAR BYTE": "BINARY",
    "GEOMCOLLECTION": "GEOMETRYCOLLECTION",
}
"""Of texts there are some twenty more spellings: see :func:`_of_text`."""
_TRUTHS = {"BOOL", "BOOLEAN"}
"""MySQL makes a TINYINT(1) of them. Debezium knows that from SHOW CREATE TABLE only: of a statement that it
reads in the stream it keeps the word, and says true to 2 and to -1."""
# FLOAT4 without digits is another such word: Debezium has no converter for it and writes null, and where the column has
# a default, its task fails.
_REAL = ColumnType(Kind.ROUGH, "double", "double")
"""MySQL makes a DOUBLE of it, and of a statement in the stream Debezium keeps this word, too: 2147482681 comes as
2147482620 then, by the stream and by an incremental snapshot (``tests/integration/test_spellings.py``)."""
_INTEGERS = {
    "TINYINT": "tinyint",
    "TINYINT UNSIGNED": "smallint",
    "SMALLINT": "smallint",
    "SMALLINT UNSIGNED": "int",
    "MEDIUMINT": "int",
    "MEDIUMINT UNSIGNED": "int",
    "INT": "int",
    "INT UNSIGNED": "bigint",
    "BIGINT": "bigint",
}
_TEXTS = {"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"}
_LABELS = {"ENUM": Kind.ENUM, "SET": Kind.SET}
_BINARIES = {"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"}
GEOMETRIES = {
    "GEOMETRY",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
}
_SIMPLE = {
    "BIGINT UNSIGNED": ColumnType(Kind.UNSIGNED_BIGINT, "decimal(20,0)", "decimal(20,0)"),
    "DOUBLE": ColumnType(Kind.DOUBLE, "double", "double"),
    "YEAR": ColumnType(Kind.YEAR, "int", "bigint"),
    "DATE": ColumnType(Kind.DATE, "date", "int"),
    "DATETIME": ColumnType(Kind.DATETIME, "timestamp_ntz", "bigint"),
    "TIMESTAMP": ColumnType(Kind.TIMESTAMP, "timestamp", "string"),
    "JSON": ColumnType(Kind.JSON, "string", "string"),
}
_DELTA_PRECISION = 38
_SINGLE_PRECISION_BITS = 24


class UnknownType(ValueError):
    """A MySQL type that ingest has no exact place for."""


def column_type(column: Column) -> ColumnType:
    """The lake's type for a source column. Raises :class:`UnknownType`.

    TINYINT(1) stays a number: MySQL stores 2 and 127 in it. Only BIT(1) is a boolean.
    """
    name = normalised(column.type_name)
    if name in _TRUTHS:
        return ColumnType(Kind.TRUTH, "tinyint", "boolean")
    if name in _INTEGERS:
        return ColumnType(Kind.INTEGER, _INTEGERS[name], "bigint")
    if name in _SIMPLE:
        return _SIMPLE[name]
    base = name.removesuffix(" UNSIGNED")
    if base == "DOUBLE":
        return _SIMPLE["DOUBLE"]
    if base == "REAL":
        return _REAL
    if base == "DECIMAL":
        precision, scale = column.length or 10, column.scale or 0
        if precision > _DELTA_PRECISION:
            return ColumnType(Kind.WIDE_DECIMAL, "string", "string")
        return ColumnType(Kind.DECIMAL, f"decimal({precision},{scale})", "string")
    if base == "FLOAT4" and column.scale is None:
        return ColumnType(Kind.LOST, "float", "float")
    if base in ("FLOAT", "FLOAT4"):
        if column.scale is None and (column.length or 0) > _SINGLE_PRECISION_BITS:
            return _SIMPLE["DOUBLE"]
        return ColumnType(Kind.FLOAT, "float", "float")
    if name == "BIT":
        if (column.length or 1) == 1:
            return ColumnType(Kind.BOOLEAN, "boolean", "boolean")
        return ColumnType(Kind.BITS, "binary", "string")
    if name == "TIME":
        return ColumnType(Kind.TIME, "string", "bigint", digits=column.length or 0)
    if name == "BINARY" and column.length is None:
        return ColumnType(Kind.BINARY, "binary", "string", padded=1)
    if name in _BINARIES:
        return ColumnType(Kind.BINARY, "binary", "string")
    if name in _TEXTS and column.charset and column.charset.lower() == "binary":
        return ColumnType(Kind.GARBLED, "binary", "string")
    if name in _TEXTS:
        return ColumnType(Kind.TEXT, "string", "string")
    if name in _LABELS:
        return ColumnType(
            _LABELS[name],
            "string",
            "string",
            labels=streamed_labels(column.labels),
            marked=(column.charset or "").lower() == "binary",
        )
    if name in GEOMETRIES:
        return ColumnType(
            Kind.GEOMETRY, "struct<srid: int, wkb: binary>", "struct<wkb: string, srid: int>"
        )
    raise UnknownType(f"column {column.name!r} has the type {column.type_name}")


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
"""What a backslash and a letter mean in a MySQL string; before anything else it means nothing."""


def streamed_labels(quoted: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Labels as the DDL quotes them to pairs (as the stream writes it, label) where the two differ.

    Debezium's stream takes a label from the DDL's text with its escapes as they stand and puts a
    backslash before each comma; the snapshot has the label itself (``tests/integration/test_types.py``).
    """
    pairs = []
    for text in quoted:
        streamed = text[1:-1].replace("''", "'").replace(",", "\\,")
        label = unquoted(text)
        if streamed != label:
            pairs.append((streamed, label))
    return tuple(pairs)


def unquoted(text: str) -> str:
    """A string as MySQL quotes it to what it says."""
    inner = text[1:-1].replace("''", "'")
    return re.sub(r"(?s)\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner)


def normalised(type_name: str) -> str:
    """One spelling per type: upper case, synonyms resolved, ``UNSIGNED`` last."""
    words = type_name.upper().split()
    # MySQL takes them in any order, and ZEROFILL for both.
    unsigned = "UNSIGNED" in words or "ZEROFILL" in words
    base = " ".join(word for word in words if word not in _OF_NUMBERS)
    base = _SYNONYMS.get(base) or _of_text(base)
    return f"{base} UNSIGNED" if unsigned and not base.endswith(" UNSIGNED") else base


_OF_NUMBERS = {"SIGNED", "UNSIGNED", "ZEROFILL"}


def _of_text(base: str) -> str:
    """CHAR, VARCHAR or MEDIUMTEXT where it is one of their spellings; what follows them in a statement, BINARY,
    asks for another collation only.
    """
    found = _TEXT_WORDS.fullmatch(base)
    if found is None:
        return base
    if found["long"]:
        return "MEDIUMTEXT"
    return "VARCHAR" if found["var"] or found["varying"] else "CHAR"


_TEXT_WORDS = re.compile(
    r"(?:(?P<long>LONG)\ |NATIONAL\ )?N?(?P<var>VAR|CHAR\ VAR)?CHAR(?:ACTER)?"
    r"(?P<varying>\ VARYING)?(?:\ BINARY)?"
)
