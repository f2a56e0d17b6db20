"""Tables without a key, mirrored as multisets. DataFrame to DataFrame.

Identical rows are told apart by an ordinal (1, 2, …) within their content. Changes bring full
images, so a batch comes down to "so many copies more, so many fewer" per content, whatever the
order in between; the ordinals of a content stay without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ingest.merge import MergePlan
from ingest.names import RESERVED_COLUMN, quoted
from ingest.position import SQL_TYPE

LAST_CHANGE, _OP = "\x00last", "\x00op"
"""Helper columns of :func:`numbered`: the Kafka record of a content's last change, and whether a row is to be
inserted (``c``) or deleted (``d``). No MySQL column name may contain U+0000.
"""

_RECORD = ("database", "table", "topic", "partition", "offset", "timestamp", "key", "value", "run")

META_TYPE = (
    f"struct<position: {SQL_TYPE}, op: string, committed_at: timestamp, "
    "content: string, ordinal: bigint>"
)
"""The reserved column of a multiset: also the SHA-256 of the row's content, and its ordinal."""


def content(row: Column) -> Column:
    """What tells rows apart: a hash of all source columns in their order, NULLs included."""
    return F.sha2(F.to_json(row, {"ignoreNullFields": "false"}), 256)


def meta_of(rows: DataFrame) -> Column:
    """The reserved column for rows that have one already: content and ordinal made anew, since
    columns that came or went change both.
    """
    columns = [F.col(quoted(name)) for name in rows.columns if name != RESERVED_COLUMN]
    hashed = content(F.struct(*columns))
    old = F.col(RESERVED_COLUMN)
    ordinal = F.row_number().over(Window.partitionBy(hashed).orderBy(old["position"]))
    place = [old[name].alias(name) for name in ("position", "op", "committed_at")]
    return F.struct(*place, hashed.alias("content"), ordinal.alias("ordinal")).cast(META_TYPE)


def net_changes(changes: DataFrame) -> DataFrame:
    """Changes of a table (``decode.typed`` with before images) to one row per content.

    Out: ``content string, row struct, delta bigint, _last struct, position, op, committed_at``,
    where ``delta`` is how many copies are added (positive) or removed (negative); contents that
    come out even are left out.
    """
    added = F.col("op").isin("c", "r", "u")
    replaced = changes.filter(F.col("op") == "u").withColumn("row", F.col("old"))
    parts = changes.withColumn("delta", F.when(added, 1).otherwise(-1)).unionByName(
        replaced.withColumn("delta", F.lit(-1))
    )
    place = F.struct("position", "op", "committed_at")
    return (
        parts.withColumn("content", content(F.col("row")))
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
        .withColumn(_OP, F.when(F.col("delta") > 0, "c").otherwise("d"))
        .select("row.*", meta.alias(RESERVED_COLUMN), _OP, LAST_CHANGE)
    )


ABSENT = "the row to remove is not in the lake"
"""Why a change of a table without a key is quarantined that no replay can mend, only a resync."""


def missing(source: DataFrame) -> DataFrame:
    """Records of :func:`numbered` that would delete what the table does not hold, with a reason."""
    absent = (F.col(_OP) == "d") & (F.col(f"{RESERVED_COLUMN}.ordinal") < 1)
    reason = F.lit(ABSENT).alias("reason")
    return source.filter(absent).select(f"{quoted(LAST_CHANGE)}.*", reason)


def multiset_plan(
    columns: Sequence[str], op: str = _OP, quoted: Callable[[str], str] = quoted
) -> MergePlan:
    """The plan for a multiset: (content, ordinal) is the key. ``op``: the column that says whether to
    insert or delete; ``quoted``: how the engine that is to run it quotes names.
    """
    meta = RESERVED_COLUMN
    return MergePlan(
        match=f"t.{meta}.content = s.{meta}.content AND t.{meta}.ordinal = s.{meta}.ordinal",
        delete_when=f"s.{quoted(op)} = 'd'",
        update_when="",
        insert_when=f"s.{quoted(op)} = 'c'",
        assignments={quoted(name): f"s.{quoted(name)}" for name in [*columns, meta]},
    )
