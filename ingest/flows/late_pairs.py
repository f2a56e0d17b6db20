"""What of a batch came too late: the pairs of event and window, or the events, that an operator with state drops.

Spark drops them without a word but a count. They are found here in the operator's own input: the part of the batch's plan below it
is read once more, from where the batch has read, and judged by the watermark that the operator used, which is the one at the end of
the batch before. So an event of a sliding window may be late for one of its windows, and count in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.flows import spark_plans

LATE = (
    "checkpoint string, batch_id bigint, operator string, watermark timestamp, event_time timestamp, "
    "window struct<start: timestamp, end: timestamp>, event string"
)
"""The table of what came late. ``watermark``: by which it was; ``window``: NULL where the operator has none, as a join; ``event``: the
row as JSON.
"""

_JUDGING: dict[str, Callable[[Any], Any] | None] = {
    "Aggregate": lambda node: node.groupingExpressions(),
    "Deduplicate": lambda node: node.child().output(),
    "Distinct": lambda node: node.child().output(),
    "DeduplicateWithinWatermark": lambda node: node.child().output(),
    "Join": None,
    "FlatMapGroupsInPandasWithState": lambda node: node.child().output(),
    "TransformWithStateInPySpark": lambda node: node.child().output(),
}
"""Operators that drop what is late, each with the columns among which it seeks the event time; of a join, those of each side."""


@dataclass(frozen=True)
class _Input:
    """Of an operator. ``at``: of which of its columns (``names``) it is judged; ``windowed``: that one is a window."""

    operator: str
    plan: Any
    names: tuple[str, ...]
    at: int
    windowed: bool


def dropped(execution: Any) -> int:
    """How many rows a batch's operators have dropped, as Spark counts them: at least one wherever a pair was late. To be asked once the
    batch was read.
    """
    total = 0
    for node in spark_plans.nodes(execution.executedPlan()):
        found = node.metrics().get("numRowsDroppedByWatermark")
        total += int(found.get().value()) if found.isDefined() else 0
    return total


def watermark_of(execution: Any) -> int:
    """By which a batch's first operators judge what is late, in milliseconds: that of the batch before, as the offset log has it."""
    before = execution.prevOffsetSeqMetadata()
    return int(before.get().batchWatermarkMs()) if before.isDefined() else 0


def late(session: SparkSession, execution: Any, watermark_ms: int) -> DataFrame | None:
    """Of a batch: ``operator``, ``watermark``, ``event_time``, ``window`` and ``event`` of :data:`LATE`. Only of operators that read
    the inputs themselves, and not what another one has brought; None where no such one drops anything.
    """
    other = spark_plans.batch_session(session)
    found = [_late(other, one, watermark_ms) for one in _inputs(execution.analyzed())]
    return reduce(DataFrame.unionByName, found) if found else None


def _inputs(plan: Any) -> list[_Input]:
    found = []
    for node in spark_plans.nodes(plan):
        if not _drops(node):
            continue
        name = str(node.nodeName())
        judging = _JUDGING[name]
        for side in spark_plans.each(node.children()):
            if any(map(_drops, spark_plans.nodes(side))):
                continue
            among = side.output() if judging is None else judging(node)
            if (one := _judged(name, side, among)) is not None:
                found.append(one)
    return found


def _drops(node: Any) -> bool:
    """Of a table, and of a stream joined with one, nothing is late."""
    return str(node.nodeName()) in _JUDGING and spark_plans.keeps_state(node)


def _judged(operator: str, plan: Any, among: Any) -> _Input | None:
    """None for an operator that drops nothing, since no event time is among what it goes by."""
    output = spark_plans.each(plan.output())
    timed = {int(one.exprId().id()) for one in spark_plans.each(among) if _is_timed(one)}
    for at, column in enumerate(output):
        if int(column.exprId().id()) in timed:
            windowed = str(column.dataType().typeName()) == "struct"
            return _Input(operator, plan, tuple(str(c.name()) for c in output), at, windowed)
    return None


def _is_timed(expression: Any) -> bool:
    is_column = str(expression.getClass().getSimpleName()) == "AttributeReference"
    return is_column and bool(expression.metadata().contains(spark_plans.DELAY))


def _late(session: SparkSession, found: _Input, watermark_ms: int) -> DataFrame:
    rows = spark_plans.rows_alone(spark_plans.as_frame(session, found.plan))
    plain = [f"_{at}" for at in range(len(found.names))]
    rows = rows.toDF(*plain)
    judged = F.col(plain[found.at])
    watermark = F.timestamp_millis(F.lit(watermark_ms))
    end = judged["end"] if found.windowed else judged
    window = judged if found.windowed else F.lit(None)
    others = zip(found.names, plain, strict=True)
    event = [(n, F.col(c)) for n, c in others if not (found.windowed and c == plain[found.at])]
    return rows.filter(end <= watermark).select(
        F.lit(found.operator).alias("operator"),
        watermark.alias("watermark"),
        _event_time(found, plain).alias("event_time"),
        window.cast("struct<start: timestamp, end: timestamp>").alias("window"),
        F.to_json(F.struct(*_named_once(event))).alias("event"),
    )


def _event_time(found: _Input, plain: Sequence[str]) -> Column:
    """The event's own; of a window, of the column beside it that is one, where the operator's input still has it."""
    if not found.windowed:
        return F.col(plain[found.at]).cast("timestamp")
    for at, column in enumerate(spark_plans.each(found.plan.output())):
        if at != found.at and _is_timed(column):
            return F.col(plain[at]).cast("timestamp")
    return F.lit(None).cast("timestamp")


def _named_once(columns: Sequence[tuple[str, Column]]) -> list[Column]:
    seen = dict[str, int]()
    found = []
    for name, column in columns:
        seen[name] = seen.get(name, 0) + 1
        found.append(column.alias(name if seen[name] == 1 else f"{name}_{seen[name]}"))
    return found
