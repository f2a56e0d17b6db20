"""What could not be applied: reason, place and raw bytes, in one Delta table per lake.

Written before the tables of its batch and under the batch's own identity, so a replay neither
loses nor repeats a row of it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = (
    "batch_id bigint, reason string, database string, table string, topic string, "
    "partition int, offset bigint, timestamp timestamp, key binary, value binary"
)


def rows(rejects: DataFrame, batch_id: int) -> DataFrame:
    """Rejected changes (any frame with ``decode``'s columns and a reason) to :data:`SCHEMA`."""
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
    )
