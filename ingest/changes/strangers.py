"""Changes that stand in another table's topic: somebody else has written them there. DataFrame to DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.dedup import lookup, of_tables
from ingest.model import reasons
from ingest.schema.topic_owners import Owners


def named(changes: DataFrame, owners: Owners) -> DataFrame:
    """``envelope.changes``, in which each stranger has a reason, and no table and no place in the log: it is known by its topic alone. A change is one
    in any topic but its table's own, and in a topic that is somebody's where its table is not among ``owners``.
    """
    own, topic = of_tables(owners, "string"), F.col("topic")
    somebody_s = lookup(dict.fromkeys(owners.values(), True), "boolean")[topic].isNotNull()
    nobody_s = F.col("database").isNotNull() & F.col("table").isNotNull() & own.isNull()
    is_one = F.coalesce((own != topic) | (nobody_s & somebody_s), F.lit(False))
    table = F.concat_ws(".", "database", "table")
    says = F.replace(F.lit(reasons.OF_ANOTHER_TABLE.says), F.lit("{table}"), table)
    known = {name: F.when(~is_one, F.col(name)) for name in ("database", "table", "position")}
    return changes.withColumns(known | {"reason": F.when(is_one, says).otherwise(F.col("reason"))})
