"""Whether what a change brings to totals can be worked out from the change alone, by a look at the plan of the function's rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from ingest.flows import spark_plans

_OF_ONE_ROW = (
    "Project",
    "Filter",
    "SubqueryAlias",
    "View",
    "Generate",
    "Union",
    "ResolvedHint",
    "Sort",
)
"""Steps to which each row comes alone, so that a change of the rows is all that changes behind them."""
_JOINS = ("Inner", "Cross")
_MOMENTARY = re.compile(
    r"current_(?:date|time|timestamp|user)|\bnow\(|localtimestamp|\buuid\(", re.IGNORECASE
)


def why_whole(rows: DataFrame, given: Mapping[str, DataFrame]) -> str:
    """Why not, in words; empty where it can. ``given``: the function's inputs, by name."""
    plan = spark_plans.analysed(rows)
    left = {name: _columns(spark_plans.analysed(frame)) for name, frame in given.items()}
    for node in spark_plans.nodes(plan):
        why = _why(node) if node.children().size() else _of_input(node, left)
        if why:
            return why
    found = _MOMENTARY.search(spark_plans.whole_text(rows))
    return f"it asks for {found[0].strip('(')}, which is another one each time" if found else ""


def _why(node: Any) -> str:
    name = str(node.nodeName())
    if node.subqueries().size():
        return "it has a subquery"
    if not node.deterministic():
        return "it is not deterministic"
    if name == "Join":
        kind = str(node.joinType().toString())
        return "" if kind in _JOINS else f"it has a join of the kind {kind}"
    return "" if name in _OF_ONE_ROW else f"it has a step of the kind {name}"


def _of_input(leaf: Any, left: dict[str, frozenset[int]]) -> str:
    """Each input is read once: were it joined with itself, both sides of the join would change together."""
    here = _columns(leaf)
    name = next((name for name, ids in left.items() if ids & here), None)
    if name is None:
        return "it reads something more than once, or that is no input"
    del left[name]
    return ""


def _columns(plan: Any) -> frozenset[int]:
    """Of the tables that a plan reads."""
    leaves = [one for one in spark_plans.nodes(plan) if not one.children().size()]
    every = [column for leaf in leaves for column in spark_plans.each(leaf.output())]
    return frozenset(int(column.exprId().id()) for column in every)
