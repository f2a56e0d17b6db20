"""One canonical text per value, written the same by MySQL and by Spark, and hashes of it.

The audit compares these, so each pair below must agree to the byte on every value that the type
can hold; a test per kind runs both on the real servers. Texts are length-prefixed, so no two rows
share one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from ingest.model.names import quoted
from ingest.schema.mysql_types import Column, Kind, column_type

BUCKETS = 256
"""Chunks of a table, by hash of the key: MySQL's collation order is not Spark's."""


_ZEROFILLED = (Kind.INTEGER, Kind.UNSIGNED_BIGINT, Kind.DECIMAL, Kind.WIDE_DECIMAL)


def mysql_text(column: Column) -> str:
    """SQL for a column's canonical text, as utf8mb4."""
    name, kind = quoted(column.name), column_type(column).kind
    text = {
        Kind.TEXT: f"CONVERT({name} USING utf8mb4)",
        Kind.ENUM: f"CONVERT({name} USING utf8mb4)",
        Kind.SET: f"CONVERT({name} USING utf8mb4)",
        Kind.YEAR: f"CAST({name} + 0 AS CHAR)",
        # Without the zeros of ZEROFILL.
        **dict.fromkeys(_ZEROFILLED, f"CAST({name} + 0 AS CHAR)"),
        Kind.JSON: f"CAST({name} AS CHAR CHARACTER SET utf8mb4)",
        Kind.BINARY: f"HEX({name})",
        Kind.BOOLEAN: f"CAST({name} + 0 AS CHAR)",
        Kind.BITS: f"CAST({name} + 0 AS CHAR)",
        Kind.DATETIME: f"DATE_FORMAT({name}, '%Y-%m-%d %H:%i:%s.%f')",
        Kind.TIMESTAMP: f"DATE_FORMAT({name}, '%Y-%m-%d %H:%i:%s.%f')",
        # A POINT's WKB holds its two doubles as IEEE 754 bytes, from the sixth on: the only way to
        # have a double's exact bits from MySQL.
        Kind.FLOAT: f"HEX(SUBSTR(ST_AsWKB(POINT({name}, 0)), 6, 8))",
        Kind.DOUBLE: f"HEX(SUBSTR(ST_AsWKB(POINT({name}, 0)), 6, 8))",
        Kind.GEOMETRY: f"CONCAT(ST_SRID({name}), ':', HEX(SUBSTR({name}, 5)))",
    }.get(kind, f"CAST({name} AS CHAR CHARACTER SET utf8mb4)")
    return f"CONVERT({text} USING utf8mb4)"


def spark_text(column: Column) -> SparkColumn:
    """The same text of the lake's column."""
    name, kind = F.col(quoted(column.name)), column_type(column).kind
    if kind is Kind.BINARY:
        return F.hex(name)
    if kind is Kind.BOOLEAN:
        return name.cast("int").cast("string")
    if kind is Kind.BITS:
        return F.conv(F.hex(name), 16, 10)
    if kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return F.date_format(name, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return _ieee_754(name.cast("double"))
    if kind is Kind.GEOMETRY:
        srid, wkb = name.getField("srid").cast("string"), F.hex(name.getField("wkb"))
        return F.when(name.isNotNull(), F.concat(srid, F.lit(":"), wkb))
    return name.cast("string")


def _ieee_754(name: SparkColumn) -> SparkColumn:
    bits = F.reflect(F.lit("java.lang.Double"), F.lit("doubleToLongBits"), name).cast("bigint")
    big_endian = F.lpad(F.hex(bits), 16, "0")
    pairs = F.regexp_extract_all(big_endian, F.lit("(..)"), F.lit(1))
    return F.when(name.isNotNull(), F.array_join(F.reverse(pairs), ""))


def mysql_absent(column: Column) -> str:
    """SQL that is true where the lake has NULL: for NULL, and for dates with a zero month or day, for
    which no type of the lake has a place.
    """
    name = quoted(column.name)
    if column_type(column).kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return f"({name} IS NULL OR MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0)"
    return f"{name} IS NULL"


def mysql_shown(column: Column) -> str:
    """SQL for a column's canonical text as it is compared with the lake's: NULL where the lake has NULL."""
    return f"IF({mysql_absent(column)}, NULL, {mysql_text(column)})"


def mysql_row(columns: Sequence[Column]) -> str:
    """SQL for the text of a whole row: length-prefixed, NULL distinct from everything."""
    parts = [
        f"IF({mysql_absent(c)}, 'N;', "
        f"CONCAT(OCTET_LENGTH({mysql_text(c)}), ':', {mysql_text(c)}, ';'))"
        for c in columns
    ]
    return f"CONCAT({', '.join(parts)})"


def spark_row(columns: Sequence[Column]) -> SparkColumn:
    """The same text on the lake's side."""
    parts = [
        F.when(F.col(quoted(c.name)).isNull(), F.lit("N;")).otherwise(
            F.concat(
                F.octet_length(spark_text(c)).cast("string"),
                F.lit(":"),
                spark_text(c),
                F.lit(";"),
            )
        )
        for c in columns
    ]
    return F.concat(*parts)


def mysql_digest(text: str) -> str:
    """SQL for the digest of a text, in hexadecimal. MySQL 9.6 and later know MD5 by a component alone that nobody has to have installed."""
    return f"SHA2({text}, 256)"


def spark_digest(text: SparkColumn) -> SparkColumn:
    """The same on the lake's side."""
    return F.sha2(text, 256)


def mysql_bucket(key: Sequence[Column]) -> str:
    """SQL for the bucket of a row, 0 to :data:`BUCKETS` - 1."""
    return f"CONV(SUBSTR({mysql_digest(mysql_row(key))}, 1, 2), 16, 10)"


def spark_bucket(key: Sequence[Column]) -> SparkColumn:
    """The same bucket on the lake's side."""
    return F.conv(F.substring(spark_digest(spark_row(key)), 1, 2), 16, 10).cast("int")


def mysql_halves(row: str) -> tuple[str, str]:
    """SQL for two 60-bit numbers of a row's digest; sums of them do not depend on order."""
    return (
        f"CAST(CONV(SUBSTR({mysql_digest(row)}, 1, 15), 16, 10) AS UNSIGNED)",
        f"CAST(CONV(SUBSTR({mysql_digest(row)}, 16, 15), 16, 10) AS UNSIGNED)",
    )


def spark_halves(row: SparkColumn) -> tuple[SparkColumn, SparkColumn]:
    """The same two numbers on the lake's side."""
    digest = spark_digest(row)
    return (
        F.conv(F.substring(digest, 1, 15), 16, 10).cast("decimal(20,0)"),
        F.conv(F.substring(digest, 16, 15), 16, 10).cast("decimal(20,0)"),
    )
