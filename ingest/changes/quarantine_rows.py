"""What could not be applied: reason, place and raw bytes, in one Delta table per lake.

A change waits there, and later changes of its key wait behind it, in order, until it is replayed or its
table was taken again. Kafka's own key says which changes belong together: it is there also when the
value cannot be read, and one key stays in one partition, where offsets are the order.
DataFrame to DataFrame, no effects.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.changes.envelope import PLACE
from ingest.model import reasons
from ingest.model.quarantine_drop import Drop

SCHEMA = (
    "batch_id bigint, reason string, database string, table string, topic string, "
    "partition int, offset bigint, timestamp timestamp, key binary, value binary, run string, "
    "settled bigint"
)
"""``settled``: the batch in which the change was applied after all, or found void; below zero, the batch in which a
person gave it up; null while it waits.
"""

RECORD = (*PLACE, "value")
"""What tells a record from every other. By what it holds, too: a topic that is made again gives offsets anew. One that was set
aside twice, as its table went back, is one.
"""


def rows(rejects: DataFrame, batch_id: int) -> DataFrame:
    """Rejected changes (any frame with ``row_images``'s columns and a reason) to :data:`SCHEMA`."""
    return rejects.select(
        F.lit(batch_id).cast("bigint").alias("batch_id"),
        "reason",
        "database",
        "table",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "run",
        F.lit(None).cast("bigint").alias("settled"),
    )


def waiting(quarantine: DataFrame) -> DataFrame:
    """Rows of :data:`SCHEMA` that still wait."""
    return quarantine.filter(F.col("settled").isNull())


def chosen(drop: Drop) -> Column:
    """True for rows of :data:`SCHEMA` that a person gives up."""
    table = drop.of
    if table is None:
        found = F.col("table").isNull() & (F.col("topic") == drop.table)
    else:
        found = (F.col("database") == table.database) & (F.col("table") == table.name)
    found = found & F.col("settled").isNull() & (F.col("batch_id") <= drop.upto)
    found = found & F.col("reason").startswith(drop.reason) & (F.col("offset") >= drop.first)
    if drop.partition is not None:
        found = found & (F.col("partition") == drop.partition)
    return found if drop.last is None else found & (F.col("offset") <= drop.last)


def behind(changes: DataFrame, heads: DataFrame) -> DataFrame:
    """Changes that have to wait: of a key of which an earlier change waits.

    ``changes``: readable ones (``envelope.changes``). ``heads``: rows with ``topic, partition, offset,
    key``, those without a key being nobody's head. Out: ``changes`` of those, with their reason. A row
    that a snapshot reads is the whole truth and waits for nothing.
    """
    first = (
        heads.filter(F.col("key").isNotNull())
        .groupBy(*[F.col(name).alias(f"_{name}") for name in ("topic", "partition", "key")])
        .agg(F.min("offset").alias("_head"))
    )
    same = [F.col(name) == F.col(f"_{name}") for name in ("topic", "partition", "key")]
    later = F.col("offset") > F.col("_head")
    found = changes.filter(F.col("key").isNotNull() & (F.col("op") != "r"))
    found = found.join(first, [*same, later], "left_semi")
    return found.withColumn("reason", F.lit(reasons.BEHIND.says))


def without(changes: DataFrame, left_out: DataFrame, by: Sequence[str] = PLACE) -> DataFrame:
    """Changes but those that have the place (``topic, partition, offset``) of others, or whatever they are told apart ``by``."""
    return _matched(changes, left_out, by, "left_anti")


def among(changes: DataFrame, others: DataFrame) -> DataFrame:
    """Those changes that are records of others, too."""
    return _matched(changes, others, RECORD, "left_semi")


def _matched(changes: DataFrame, others: DataFrame, by: Sequence[str], how: str) -> DataFrame:
    same = [F.col(f"c.{name}").eqNullSafe(F.col(f"o.{name}")) for name in by]
    return changes.alias("c").join(others.select(*by).alias("o"), same, how).select("c.*")


def same_record(one: str, other: str) -> str:
    """SQL that is true where two aliases name one Kafka record."""
    return " AND ".join(f"{one}.{name} <=> {other}.{name}" for name in RECORD)
