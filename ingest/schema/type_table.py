"""Every MySQL type and its place in the lake: the table of docs/types.md.

``python -m ingest.schema.type_table`` prints it; a test compares, and another holds every row of it against the
real MySQL at the type's boundaries. Pure.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ingest.schema.mysql_types import Column, column_type


@dataclass(frozen=True)
class Entry:
    """One row; ``limits``: what does not survive, or a remark."""

    mysql: str
    column: Column
    limits: str = ""


def _column(
    type_name: str, length: int | None = None, scale: int | None = None, charset: str | None = None
) -> Column:
    return Column("c", type_name, length, scale, optional=True, charset=charset)


ENTRIES = (
    Entry(
        "TINYINT, TINYINT(1), BOOLEAN",
        _column("TINYINT"),
        "a number: MySQL stores 2 and 127 in a BOOLEAN",
    ),
    Entry("TINYINT UNSIGNED", _column("TINYINT UNSIGNED")),
    Entry("SMALLINT", _column("SMALLINT")),
    Entry("SMALLINT UNSIGNED", _column("SMALLINT UNSIGNED")),
    Entry("MEDIUMINT, signed and UNSIGNED", _column("MEDIUMINT")),
    Entry("INT", _column("INT"), "ZEROFILL is only a way to print"),
    Entry("INT UNSIGNED", _column("INT UNSIGNED")),
    Entry("BIGINT", _column("BIGINT")),
    Entry("BIGINT UNSIGNED, SERIAL", _column("BIGINT UNSIGNED"), "exact to 2^64 - 1"),
    Entry("DECIMAL(p,s), p <= 38", _column("DECIMAL", 10, 2), "exact"),
    Entry("DECIMAL(p,s), p > 38", _column("DECIMAL", 65, 30), "exact; MySQL's own plain text"),
    Entry(
        "FLOAT",
        _column("FLOAT"),
        "the stream is exact; a snapshot brings six digits (16777216 as 16777200). The audit names the "
        "rows",
    ),
    Entry(
        "FLOAT(25) to FLOAT(53), DOUBLE, REAL",
        _column("DOUBLE"),
        "exact; a REAL that a statement in the stream has made only once its table was read anew, which begins by itself "
        "(operations.md)",
    ),
    Entry("BIT(1)", _column("BIT", 1)),
    Entry("BIT(n)", _column("BIT", 10), "big-endian, as MySQL prints it"),
    Entry(
        "CHAR, VARCHAR, TINYTEXT to LONGTEXT, NCHAR",
        _column("VARCHAR", 10),
        "from any character set; see limits.md for bytes that cp1252 leaves undefined, and for texts in utf16 or ucs2 "
        "that begin with U+FEFF or U+FFFE",
    ),
    Entry("the same in CHARACTER SET binary", _column("VARBINARY", 10)),
    Entry("BINARY, VARBINARY, TINYBLOB to LONGBLOB", _column("BLOB"), "trailing zero bytes kept"),
    Entry(
        "DATE",
        _column("DATE"),
        "proleptic Gregorian from year 1 on. A date with a zero month or day is NULL; see below for NOT "
        "NULL columns. Year 0000: exact in a snapshot, NULL from the stream",
    ),
    Entry(
        "DATETIME(0) to (6)",
        _column("DATETIME", 6),
        "a wall clock without a zone. Zero dates as with DATE. From a snapshot, 1582-10-05 to 14 come ten "
        "days later and year 0000 as year 1; from the stream, year 0000 as NULL",
    ),
    Entry("TIMESTAMP(0) to (6)", _column("TIMESTAMP", 6), "an instant; the zero timestamp is NULL"),
    Entry(
        "TIME(0) to (6)", _column("TIME", 6), "MySQL's text, negative and beyond 24 hours included"
    ),
    Entry("YEAR", _column("YEAR"), "0000 is 0 from the stream; a snapshot brings it as 2000"),
    Entry(
        "ENUM",
        _column("ENUM", 1),
        "the label; commas and backslashes in it included. From the stream, `?` for each character beyond the basic "
        "plane (emoji) in a label of a table that a snapshot has described, as MySQL's own CREATE TABLE shows it. The "
        "audit names the rows",
    ),
    Entry("SET", _column("SET", 1), "the labels with commas between, as with ENUM"),
    Entry(
        "ENUM and SET in CHARACTER SET binary",
        _column("ENUM", 1, charset="binary"),
        "the same. A snapshot reads their table by a statement of ours; where Debezium cannot be told of it (see "
        "operations.md), its rows are quarantined",
    ),
    Entry(
        "JSON",
        _column("JSON"),
        "MySQL's own text, numbers unrounded. From the stream, a DOUBLE without a fraction from 10^7 on "
        "looks like an integer (`10000000.0` as `10000000`, `1e15` as digits, below 2^64), and values that "
        "no JSON text can make (CAST of a DATETIME, TIME or BINARY into a document) look different. The "
        "audit names the rows",
    ),
    Entry(
        "GEOMETRY, POINT, LINESTRING, POLYGON, MULTI…, GEOMETRYCOLLECTION",
        _column("GEOMETRY"),
        "WKB in MySQL's own axis order of storage",
    ),
)
UNTESTED = (
    (
        "VECTOR",
        "no exact place in the lake yet: a table with it is set aside by name, the others go on",
    ),
)


def table() -> str:
    """The table in Markdown."""
    lines = ["| MySQL | Debezium's JSON | Delta | Limits |", "|---|---|---|---|"]
    for entry in ENTRIES:
        found = column_type(entry.column)
        delta = found.delta.replace("(10,2)", "(p,s)")
        lines.append(f"| {entry.mysql} | {found.kind.value} | {delta} | {entry.limits} |")
    lines += [f"| {name} | | | {why} |" for name, why in UNTESTED]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
