"""Re-sent changes recognised, and one winning change per key. DataFrame to DataFrame.

Debezium emits a topic partition's streamed changes in log order, so one at or below the highest
position already applied for that partition was sent before. Snapshot rows all share one position
and are exempt: Kafka's offset says whether one was applied, and the row's own position guards it
(see ``merge``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.manifest import HighWater, Place
from ingest.position import Position
from ingest.steps import Attempt
from ingest.topics import TableId

HighWaters = Mapping[Place, HighWater]
"""Per topic partition, what is committed. See :class:`ingest.manifest.HighWater`."""

RESENT, OBSOLETE, PAUSED = "resent", "obsolete", "paused"
"""Why a change is passed over: it was applied before, or the newest TRUNCATE or snapshot of its
table comes after it."""


def literal(position: Position) -> Column:
    """A position as a Spark literal of ``SQL_TYPE``."""
    return F.expr(position.sql())


def streamed() -> Column:
    """True for a change from the log, false for a snapshot row."""
    return F.col("op") != "r"


def marked(
    changes: DataFrame,
    high_water: HighWaters,
    floors: Mapping[TableId, Position],
    restart: int = 0,
) -> DataFrame:
    """Adds ``passed_over string`` (see :data:`RESENT`, :data:`OBSOLETE`, or null) and ``regressed
    boolean``: a streamed change that its position calls re-sent and its GTID calls new, so some log
    was replaced by another without our knowing.

    Deterministic for a given batch: the high-water marks and floors are those of the manifest
    *before* it, so a replay sees the same. ``restart``: the newest epoch whose transaction numbers
    began anew, so that older marks say nothing of them.
    """
    resent, regressed = F.lit(False), F.lit(False)
    for (topic, partition), mark in sorted(high_water.items()):
        here = (F.col("topic") == topic) & (F.col("partition") == partition)
        again = F.col("offset") < mark.offset
        if mark.position is not None:
            ahead = _ahead_of(mark.gtid)
            seen, unseen = (F.coalesce(holds, F.lit(False)) for holds in (ahead <= 0, ahead > 0))
            older = streamed() & (F.col("position") <= literal(mark.position))
            other = streamed() & (F.col("position.epoch") > mark.position.epoch)
            comparable = F.lit(mark.position.epoch >= restart)
            again = again | older | (comparable & other & seen)
            new = older & (F.col("offset") >= mark.offset) & unseen
            regressed = regressed | (here & new)
        resent = resent | (here & again)
    obsolete = F.lit(False)
    for table, floor in sorted(floors.items()):
        here = (F.col("database") == table.database) & (F.col("table") == table.name)
        obsolete = obsolete | (here & (F.col("position") < literal(floor)))
    reason = F.when(resent, RESENT).when(obsolete, OBSOLETE)
    return changes.withColumn("passed_over", reason).withColumn("regressed", regressed)


def _ahead_of(gtid: str) -> Column:
    """How many transactions of one server a change comes after ``gtid``; null for another server's.

    A server numbers its transactions in the order of its log, so the newest number says it all.
    """
    server, _, number = gtid.rpartition(":")
    if not number.isdigit():
        return F.lit(None).cast("bigint")
    own = F.substring_index("gtid", ":", -1).try_cast("bigint")
    return F.when(F.substring_index("gtid", ":", 1) == server, own - int(number))


def paused(marked_changes: DataFrame, barriers: Mapping[str, Position]) -> DataFrame:
    """Marks (``passed_over``) the changes at or behind the DDL that their table stands before."""
    for name, at in barriers.items():
        table = TableId.parse(name)
        here = (F.col("database") == table.database) & (F.col("table") == table.name)
        behind = F.coalesce(here & (F.col("position") >= literal(at)), F.lit(False))
        reason = F.when(behind, PAUSED).otherwise(F.col("passed_over"))
        marked_changes = marked_changes.withColumn("passed_over", reason)
    return marked_changes


def fresh(marked_changes: DataFrame) -> DataFrame:
    """The changes that are to be applied."""
    return marked_changes.filter(F.col("passed_over").isNull())


def of_attempt(changes: DataFrame, attempt: Attempt) -> DataFrame:
    """Snapshot rows of this attempt alone, and streamed changes that it does not contain."""
    pinned = literal(attempt.position)
    mine = (F.coalesce("run", F.lit("")) == attempt.run) & (F.col("position") == pinned)
    return changes.filter((streamed() & (F.col("position") > pinned)) | (~streamed() & mine))


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
