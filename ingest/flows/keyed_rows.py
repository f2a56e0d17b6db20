"""A batch's rows as a sink with keys takes them: one of each key, whether that is gone, and its version. DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    NullType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ingest.model.errors import IngestError
from ingest.model.names import quoted

GONE = "__gone"
"""Boolean: the row is of a key that is no more."""
VERSION = "__version"
"""Digits alone, so that their order as texts is that of what they were made of, whatever a server's locale is."""

_DIGITS = 20
_LOWEST = 2**63


def marked(rows: DataFrame, deleted: str | None) -> DataFrame:
    """The same rows with :data:`GONE`, unless they have it. ``deleted``: on which condition."""
    if GONE in rows.columns:
        return rows
    gone = F.coalesce(F.expr(deleted), F.expr("false")) if deleted else F.expr("false")
    return rows.withColumn(GONE, gone)


def newest(rows: DataFrame, keys: Sequence[str], version: str) -> DataFrame:
    """Of each key the row of the highest version, with :data:`VERSION`. Raises :class:`IngestError` for one that cannot be ordered."""
    kind = rows.select(F.expr(version).alias("v")).schema[0].dataType
    all_ = rows.withColumn(VERSION, _digits(F.expr(version), kind, version))
    row = F.struct(*[F.col(quoted(name)) for name in all_.columns])
    # NULL is a key like others.
    groups = all_.groupBy(*[F.col(quoted(key)) for key in keys])
    return groups.agg(F.max_by(row, F.col(VERSION)).alias(VERSION)).select(f"{VERSION}.*")


def _digits(value: Column, kind: DataType, of: str) -> Column:
    if isinstance(kind, StructType):
        parts = [_digits(value.getField(one.name), one.dataType, of) for one in kind.fields]
        return F.concat(*parts)
    whole = kind.scale == 0 if isinstance(kind, DecimalType) else isinstance(kind, IntegralType)
    if isinstance(kind, TimestampType):
        number = F.unix_micros(value)
    elif isinstance(kind, TimestampNTZType):
        number = F.unix_micros(value.cast("timestamp"))
    elif isinstance(kind, DateType):
        number = F.unix_date(value)
    elif whole:
        number = value
    else:
        raise IngestError(
            "E-FLOW-VERSION",
            f"`version: {of}` is of the type {kind.simpleString()}, of which it is not known which is newer.",
            means="Nothing was written there.",
            remedy="name whole numbers, moments, or a struct of them, such as `position`.",
        )
    # One that is NULL is older than all others.
    shifted = F.coalesce(number.cast("decimal(20,0)") + F.expr(f"{_LOWEST}BD"), F.lit(0))
    return F.lpad(shifted.cast("decimal(20,0)").cast("string"), _DIGITS, "0")


def for_servers(rows: DataFrame) -> DataFrame:
    """The same rows, as every server takes them: moments as text in UTC, what is nested as JSON, booleans as 0 and 1."""
    return rows.select(*[_plain(one.name, one.dataType).alias(one.name) for one in rows.schema])


_AS_THEY_ARE = (IntegralType, DecimalType)


def _plain(name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    if name in (GONE, VERSION) or isinstance(kind, _AS_THEY_ARE):
        return column
    if isinstance(kind, (StructType, ArrayType, MapType, VariantType)):
        return F.to_json(column)
    if isinstance(kind, BooleanType):
        return column.cast("int")
    if isinstance(kind, NullType) or kind.simpleString() in ("string", "binary", "double", "float"):
        return column
    return column.cast("string")
