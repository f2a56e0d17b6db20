"""What a query keeps in Spark's state, operator by operator: by that it is told whether another query can go on from it.

What an operator groups by or sums up is often a column that a projection below it has made, as a window is. So columns are followed down to the
inputs: `sum(x)` of another `x` is another state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ingest.flows import spark_plans

Keeps = Callable[["_Columns", Any], list[str]]

_KEEPING: dict[str, Keeps] = {
    "Aggregate": lambda said, node: [said.all(node.groupingExpressions()), said.sums(node)],
    "Deduplicate": lambda said, node: [said.all(node.keys())],
    "DeduplicateWithinWatermark": lambda said, node: [said.all(node.keys())],
    "Distinct": lambda said, node: [said.all(node.output())],
    "Join": lambda said, node: [
        str(node.joinType().toString()),
        said.text(str(node.condition().toString())),
        *(said.all(side.output()) for side in spark_plans.each(node.children())),
    ],
    "FlatMapGroupsInPandasWithState": lambda said, node: [
        said.all(node.groupingAttributes()),
        str(node.stateType().simpleString()),
    ],
    "TransformWithStateInPySpark": lambda said, node: [
        said.listed(spark_plans.each(node.child().output())[: node.groupingAttributesLen()])
    ],
    "GlobalLimit": lambda said, node: [said.all(node.output())],
}
"""By the name of a node: what of it says how its state looks."""

_ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
_UNIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|@[0-9a-f]{5,8}\b")


def shape(result: DataFrame, inputs: Mapping[str, DataFrame]) -> tuple[str, ...]:
    """Of a stream: a sentence for each operator with state, from the inputs up. Empty for one without state. ``inputs``: by name, as the
    function got them.
    """
    plan, found = spark_plans.analysed(result), []
    said = _Columns(_made(plan), _ids(inputs.values()))
    for node in spark_plans.nodes(plan):
        name = str(node.nodeName())
        if name in _KEEPING and spark_plans.keeps_state(node):
            found.append(f"{name}({'; '.join(_KEEPING[name](said, node))})")
    return tuple(reversed(found))


def sources(result: DataFrame, inputs: Mapping[str, DataFrame]) -> tuple[str, ...]:
    """The inputs in the order in which Spark numbers them, each as often as it is read; by its own words where it is none of them."""
    names = dict[int, str]()
    for name, frame in inputs.items():
        for leaf in _leaves(spark_plans.analysed(frame)):
            names |= {int(column.exprId().id()): name for column in spark_plans.each(leaf.output())}
    found = []
    for leaf in _leaves(spark_plans.analysed(result)):
        of = [names.get(int(column.exprId().id())) for column in spark_plans.each(leaf.output())]
        known = next((one for one in of if one), None)
        found.append(known or _plain(str(leaf.toString()).partition(", [")[0]))
    return tuple(found)


def plan_text(result: DataFrame) -> str:
    """The whole plan, without what Spark numbers anew each time."""
    return _plain(spark_plans.whole_text(result))


def _leaves(plan: Any) -> list[Any]:
    every = spark_plans.nodes(plan)
    return [one for one in every if not one.children().size() and one.isStreaming()]


def _ids(frames: Collection[DataFrame]) -> set[int]:
    """Of the columns that the inputs have."""
    plans = map(spark_plans.analysed, frames)
    return {int(one.exprId().id()) for plan in plans for one in spark_plans.each(plan.output())}


def _made(plan: Any) -> dict[int, str]:
    """Of each column that is made anywhere in a plan: from what."""
    found = dict[int, str]()
    for node in spark_plans.nodes(plan):
        name = str(node.nodeName())
        if name == "Project":
            for one in spark_plans.each(node.projectList()):
                if str(one.getClass().getSimpleName()) == "Alias":
                    found[int(one.exprId().id())] = str(one.child().toString())
        elif name == "Expand":
            rows = [spark_plans.each(row) for row in spark_plans.each(node.projections())]
            for at, one in enumerate(spark_plans.each(node.output())):
                cells = list(dict.fromkeys(str(row[at].toString()) for row in rows))
                id_ = int(one.exprId().id())
                # A column that is only handed on is itself in each of them.
                if cells != [str(one.toString())]:
                    found[id_] = " | ".join(cells)
        elif name == "Generate":
            for one in spark_plans.each(node.generatorOutput()):
                found[int(one.exprId().id())] = str(node.generator().toString())
    return found


@dataclass(frozen=True)
class _Columns:
    """In words. ``made``: of what columns are made; ``given``: those of the inputs, which are followed no further."""

    made: Mapping[int, str]
    given: Collection[int]

    def text(self, said: str, above: frozenset[int] = frozenset()) -> str:
        """An expression of Spark's, each column in it with what it is made of."""

        def column(found: re.Match[str]) -> str:
            id_ = int(found[1])
            if id_ in self.given or id_ in above or id_ not in self.made:
                return ""
            return f":({self.text(self.made[id_], above | {id_})})"

        return _UNIQUE.sub("id", _ID.sub(column, said))

    def all(self, expressions: Any) -> str:
        """Of a sequence of Scala's."""
        return self.listed(spark_plans.each(expressions))

    def listed(self, expressions: Sequence[Any]) -> str:
        """Each with its type."""
        return ", ".join(
            f"{self.text(str(one.toString()))} {one.dataType().simpleString()}"
            for one in expressions
        )

    def sums(self, node: Any) -> str:
        """An aggregate's functions, without what is computed from their results."""
        found = set()
        for expression in spark_plans.each(node.aggregateExpressions()):
            for one in spark_plans.nodes(expression):
                if str(one.getClass().getSimpleName()) == "AggregateExpression":
                    function = one.aggregateFunction()
                    distinct = "distinct " if one.isDistinct() else ""
                    text = self.text(str(function.toString()))
                    found.add(f"{distinct}{text} {function.dataType().simpleString()}")
        return ", ".join(sorted(found))


def _plain(text: str) -> str:
    return _UNIQUE.sub("id", _ID.sub("", text))
