"""Re-sent changes recognised, and one winning change per key. DataFrame to DataFrame.

Debezium emits a topic partition's streamed changes in log order, so one at or below the highest
position already applied for that partition was sent before. Snapshot rows all share one position
and are exempt; the row's own position guards them (see ``merge``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.position import Position

HighWater = Mapping[tuple[str, int], Position]
"""(topic, partition) to the highest streamed position that is committed."""


def literal(position: Position) -> Column:
    """A position as a Spark literal of ``SQL_TYPE``."""
    return F.expr(position.sql())


def streamed() -> Column:
    """True for a change from the log, false for a snapshot row."""
    return F.col("op") != "r"


def fresh(changes: DataFrame, high_water: HighWater) -> DataFrame:
    """Leave out streamed changes that the high-water position of their partition covers.

    Same schema out. Deterministic for a given batch: the high-water positions are those of the
    manifest *before* it, so a replay sees the same.
    """
    resent = F.lit(False)
    for (topic, partition), position in sorted(high_water.items()):
        resent = resent | (
            (F.col("topic") == topic)
            & (F.col("partition") == partition)
            & (F.col("position") <= literal(position))
        )
    return changes.filter(~(streamed() & resent)) if high_water else changes


def once(changes: DataFrame) -> DataFrame:
    """Drop repetitions of a streamed change inside a batch: the same position is the same change.

    Snapshot rows keep theirs: they share one position, and offsets tell them apart.
    """
    identity = F.when(streamed(), F.col("position"))
    offset = F.when(~streamed(), F.col("offset"))
    return (
        changes.withColumn("_identity", identity)
        .withColumn("_offset", offset)
        .dropDuplicates(["_identity", "_offset", "partition"])
        .drop("_identity", "_offset")
    )


def winners(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """One change per key: the one with the highest position.

    In: columns of ``decode.typed``. Out: ``op, position, committed_at, row`` of the winner. Ties
    do not exist between different changes; two copies of one change are equal.
    """
    keys = [F.col("row").getField(name) for name in key]
    picked = F.struct("op", "position", "committed_at", "row")
    return (
        changes.groupBy(*[k.alias(f"_key{i}") for i, k in enumerate(keys)])
        .agg(F.max_by(picked, F.col("position")).alias("winner"))
        .select("winner.*")
    )
