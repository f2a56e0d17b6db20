"""What a query keeps in Spark's state, operator by operator: by that it is told whether another query can go on from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from ingest.flows import spark_plans

_KEEPING: dict[str, Callable[[Any], list[str]]] = {
    "Aggregate": lambda node: [_columns(node.groupingExpressions()), _sums(node)],
    "Deduplicate": lambda node: [_columns(node.keys())],
    "DeduplicateWithinWatermark": lambda node: [_columns(node.keys())],
    "Distinct": lambda node: [_columns(node.output())],
    "Join": lambda node: [
        _plain(node.joinType().toString()),
        _plain(node.condition().toString()),
        *(_columns(side.output()) for side in spark_plans.each(node.children())),
    ],
    "FlatMapGroupsInPandasWithState": lambda node: [
        _columns(node.groupingAttributes()),
        _plain(node.stateType().simpleString()),
    ],
    "TransformWithStateInPySpark": lambda node: [_grouping(node)],
    "GlobalLimit": lambda node: [_columns(node.output())],
}
"""By the name of a node: what of it says how its state looks."""


def shape(result: DataFrame) -> tuple[str, ...]:
    """Of a stream: a sentence for each operator with state, from the inputs up. Empty for one without state."""
    found = []
    for node in spark_plans.nodes(spark_plans.analysed(result)):
        name = str(node.nodeName())
        if name in _KEEPING and _streams(node):
            found.append(f"{name}({'; '.join(_KEEPING[name](node))})")
    return tuple(reversed(found))


def plan_text(result: DataFrame) -> str:
    """The whole plan, without what Spark numbers anew each time."""
    return _plain(str(spark_plans.analysed(result).toString()))


def _streams(node: Any) -> bool:
    sides = spark_plans.each(node.children())
    streaming = [bool(side.isStreaming()) for side in sides]
    return all(streaming) if str(node.nodeName()) == "Join" else any(streaming)


def _columns(expressions: Any) -> str:
    return _listed(spark_plans.each(expressions))


def _listed(expressions: Sequence[Any]) -> str:
    return ", ".join(f"{_plain(one.sql())} {one.dataType().simpleString()}" for one in expressions)


def _grouping(node: Any) -> str:
    """Of a processor in Python: the columns that it is called for each value of, which come first."""
    return _listed(spark_plans.each(node.child().output())[: node.groupingAttributesLen()])


def _sums(node: Any) -> str:
    """An aggregate's functions, without what is computed from their results."""
    found = set()
    for expression in spark_plans.each(node.aggregateExpressions()):
        for one in spark_plans.nodes(expression):
            if str(one.getClass().getSimpleName()) == "AggregateExpression":
                function = one.aggregateFunction()
                distinct = "distinct " if one.isDistinct() else ""
                found.add(
                    f"{distinct}{_plain(function.toString())} {function.dataType().simpleString()}"
                )
    return ", ".join(sorted(found))


def _plain(text: str) -> str:
    """Without the numbers that Spark gives to columns, delays of watermarks, and ids of nodes."""
    text = re.sub(r"-T\d+ms", "", text)
    text = re.sub(r"#\d+L?", "", text)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id", text)
