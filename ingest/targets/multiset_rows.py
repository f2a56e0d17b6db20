"""The rows of a multiset: numbered within their content, and what a batch comes down to. DataFrame to DataFrame.

Identical rows are told apart by an ordinal (1, 2, …) within their content. Changes bring full
images, so a batch comes down to "so many copies more, so many fewer" per content, whatever the
order in between; the ordinals of a content stay without gaps.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DoubleType,
    FloatType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ingest.model import reasons
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.targets.multiset import META_TYPE

LAST_CHANGE, OP = "\x00last", "\x00op"
"""Helper columns of :func:`numbered`: the Kafka record of a content's last change, and whether a row is to be
inserted (``c``) or deleted (``d``). No MySQL column name may contain U+0000.
"""

_RECORD = ("database", "table", "topic", "partition", "offset", "timestamp", "key", "value", "run")

_FORM = {
    "ignoreNullFields": "false",
    "dateFormat": "yyyy-MM-dd",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSS]",
    "timeZone": "UTC",
}
"""How a row is written before it is hashed. Stored contents rest on it, so nothing of it is left to a default."""

_TIMES = (TimestampType, TimestampNTZType)
_FLOATS = (FloatType, DoubleType)


def content(row: Column, fields: StructType) -> Column:
    """What tells rows apart: a hash of all source columns in their order, NULLs included. ``fields``: of the row.

    It is that of the row as JSON, with two things that JSON does not say. What a timestamp has beyond
    milliseconds follows the text, where any column has such (JSON itself has no line break, so the two cannot be
    confused). And a FLOAT or DOUBLE stands as hexadecimal text, since its decimal text is another one in Java 19
    and later for some values; so -0.0 is not 0.0, as MySQL keeps them apart.
    """
    if any(isinstance(one.dataType, _FLOATS) for one in fields):
        row = F.struct(*[_exact(row.getField(one.name), one) for one in fields])
    text = F.to_json(row, _FORM)
    times = [row.getField(one.name) for one in fields if isinstance(one.dataType, _TIMES)]
    if times:
        beyond = [F.pmod(F.unix_micros(one.cast("timestamp")), F.lit(1000)) for one in times]
        parts = [F.coalesce(one, F.lit(0)) for one in beyond]
        said = F.concat(F.lit("\n"), F.concat_ws(",", *[one.cast("string") for one in parts]))
        text = F.concat(text, F.when(F.greatest(F.lit(0), *parts) > 0, said).otherwise(""))
    return F.sha2(text, 256)


def _exact(value: Column, field: StructField) -> Column:
    if isinstance(field.dataType, _FLOATS):
        value = F.when(value.isNotNull(), F.format_string("%a", value))
    return value.alias(field.name)


def meta_of(rows: DataFrame) -> Column:
    """The reserved column for rows that have one already: content and ordinal made anew, since
    columns that came or went change both.
    """
    fields = StructType([one for one in rows.schema.fields if one.name != RESERVED_COLUMN])
    hashed = content(F.struct(*[F.col(quoted(one.name)) for one in fields]), fields)
    old = F.col(RESERVED_COLUMN)
    ordinal = F.row_number().over(Window.partitionBy(hashed).orderBy(old["position"]))
    place = [old[name].alias(name) for name in ("position", "op", "committed_at")]
    return F.struct(*place, hashed.alias("content"), ordinal.alias("ordinal")).cast(META_TYPE)


def net_changes(changes: DataFrame) -> DataFrame:
    """Changes of a table (``row_images.typed`` with before images) to one row per content.

    Out: ``content string, row struct, delta bigint, _last struct, position, op, committed_at``,
    where ``delta`` is how many copies are added (positive) or removed (negative); contents that
    come out even are left out.
    """
    fields = changes.schema["row"].dataType
    assert isinstance(fields, StructType)
    added = F.col("op").isin("c", "r", "u")
    replaced = changes.filter(F.col("op") == "u").withColumn("row", F.col("old"))
    parts = changes.withColumn("delta", F.when(added, 1).otherwise(-1)).unionByName(
        replaced.withColumn("delta", F.lit(-1))
    )
    place = F.struct("position", "op", "committed_at")
    return (
        parts.withColumn("content", content(F.col("row"), fields))
        .groupBy("content")
        .agg(
            F.first("row").alias("row"),
            F.sum("delta").alias("delta"),
            F.max(place).alias("place"),
            F.max_by(F.struct(*_RECORD), place).alias(LAST_CHANGE),
        )
        .filter(F.col("delta") != 0)
        .select("content", "row", "delta", LAST_CHANGE, "place.*")
    )


def numbered(net: DataFrame, target: DataFrame) -> DataFrame:
    """Turn net changes into rows to insert and rows to delete, by (content, ordinal).

    ``target``: the table as it is. Out: the source's columns, ``_ingest``, and the two helper columns.
    Copies to remove that the table does not hold come out with an ordinal of 0 or less; ``missing`` finds
    them.
    """
    held = (
        target.select(
            F.col(f"{RESERVED_COLUMN}.content").alias("content"),
            F.col(f"{RESERVED_COLUMN}.ordinal").alias("ordinal"),
        )
        .join(net.select("content"), "content", "left_semi")
        .groupBy("content")
        .agg(F.max("ordinal").alias("held"))
    )
    counted = net.join(held, "content", "left").withColumn(
        "held", F.coalesce("held", F.lit(0).cast("bigint"))
    )
    ordinals = F.when(
        F.col("delta") > 0,
        F.sequence(F.col("held") + 1, F.col("held") + F.col("delta")),
    ).otherwise(F.sequence(F.col("held") + F.col("delta") + 1, F.col("held")))
    meta = F.struct("position", "op", "committed_at", "content", "ordinal").cast(META_TYPE)
    return (
        counted.withColumn("ordinal", F.explode(ordinals))
        .withColumn(OP, F.when(F.col("delta") > 0, "c").otherwise("d"))
        .select("row.*", meta.alias(RESERVED_COLUMN), OP, LAST_CHANGE)
    )


def changed(held: DataFrame, source: DataFrame) -> DataFrame:
    """The rows of a table once the rows of :func:`numbered` are deleted and inserted. ``held``: the table as it is, whose
    columns the rows get, and whose session.
    """
    place = ("content", "ordinal")
    gone = source.filter(F.col(OP) == "d").select(*[_meta(name) for name in place])
    stays = held.withColumns({f"{OP} {name}": _meta(name) for name in place}).alias("t")
    match = [F.col(f"t.{quoted(f'{OP} {name}')}") == F.col(f"s.{name}") for name in place]
    kept = stays.join(gone.alias("s"), match, "left_anti").select(
        *[quoted(one.name) for one in held.schema]
    )
    # Letters' case does not tell columns apart.
    there = {name.lower() for name in source.columns}
    new = source.filter(F.col(OP) == "c").select(
        *[
            (F.col(quoted(one.name)) if one.name.lower() in there else F.lit(None))
            .cast(one.dataType)
            .alias(one.name)
            for one in held.schema
        ]
    )
    return kept.union(new)


def _meta(name: str) -> Column:
    return F.col(f"{RESERVED_COLUMN}.{name}").alias(name)


ABSENT = reasons.ABSENT.says
"""Why a change of a table without a key is quarantined that no replay can mend, only a resync."""


def missing(source: DataFrame) -> DataFrame:
    """Records of :func:`numbered` that would delete what the table does not hold, with a reason."""
    absent = (F.col(OP) == "d") & (F.col(f"{RESERVED_COLUMN}.ordinal") < 1)
    reason = F.lit(ABSENT).alias("reason")
    return source.filter(absent).select(f"{quoted(LAST_CHANGE)}.*", reason)
