"""A change log as its table is called today. DataFrame to DataFrame, of streams, too.

In a log a column that was renamed, or got another type, is several fields, of which each row has one. Who reads it mostly wants the
table's columns as they are now.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.model.names import quoted
from ingest.schema.change_log import IMAGES, LogColumns
from ingest.schema.delta_types import sql_type


def today(log: DataFrame, columns: LogColumns) -> DataFrame:
    """In: a log, as Delta reads it. Out: the same, with ``before`` and ``after`` as structs of the table's columns today. A value that
    was written under another name is there; one of another type is cast, and NULL where it cannot be. Columns that the table no longer
    has are left out; those that it has got since, where the log is read as it was, are NULL.
    """
    images = {name: _image(log, name, columns).alias(name) for name in IMAGES}
    return log.select(*[images.get(name, F.col(name)) for name in log.columns])


def _image(log: DataFrame, name: str, columns: LogColumns) -> Column:
    fields, there = {one.name: one for one in columns.fields}, {*log.select(f"{name}.*").columns}
    values = []
    for column, newest in columns.today.items():
        kind, chain = sql_type(fields[newest].delta), list[Column]()
        field = newest
        while field:
            held = F.col(f"{quoted(name)}.{quoted(field)}")
            if field in there:
                chain += [held] if field == newest else _cast(held, fields[field].delta, kind)
            field = fields[field].follows
        value = F.coalesce(*chain) if chain else F.lit(None).cast(kind)
        values.append(value.alias(column))
    return F.when(F.col(name).isNotNull(), F.struct(*values))


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def _cast(held: Column, was: object, kind: str) -> list[Column]:
    """A value in another type, by its text where these are no two numbers: Spark refuses many a pair even before it looks at a value. Nothing
    for a geometry, which has no text.
    """
    if isinstance(was, dict) or kind.startswith("struct"):
        return []
    numbers = sql_type(was).startswith(_NUMBERS) and kind.startswith(_NUMBERS)
    return [(held if numbers else held.cast("string")).try_cast(kind)]
