"""Totals that stay right while rows change: what comes to and goes from each group, and what is held of it. DataFrame to DataFrame.

COUNT, SUM and AVG are sums of what each row brings, so a change of a row is its new share less its old one. A group is held as sums: how many rows it
has, and of each value how many of them are not NULL and what these come to. The values follow from those, and a group without rows is no group.

Of several tables that are joined, each brings its own part of a change, with the others as they were before it, or are after it:
``d(R x S x T) = dR x S' x T' + R x dS x T' + R x S x dT``. That is exact for inner joins, filters and expressions of a row, whatever changes together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, IntegralType, StructType

from ingest.config.flow_totals import HELD, Totals
from ingest.flows import spark_plans
from ingest.flows.keyed_rows import GONE
from ingest.model.names import quoted

ROWS = f"{HELD}rows"
"""How many rows a group has."""
_SIGN = f"{HELD}sign"

Rows = Callable[[Mapping[str, DataFrame]], DataFrame]
"""A flow's function: rows to be grouped, of its inputs by name."""


@dataclass(frozen=True)
class Part:
    """A value that is a sum. ``function``: ``count``, ``sum`` or ``avg``; ``argument``: in SQL; ``kind``: the value's type; ``held``: that of its
    sum; ``number``: among the values, from 0.
    """

    name: str
    function: str
    argument: str
    kind: str
    held: str
    number: int

    @property
    def share(self) -> str:
        """The column of what a row brings."""
        return f"{HELD}{self.number}"

    @property
    def many(self) -> str:
        """The column of how many are not NULL."""
        return f"{self.share}_n"

    @property
    def sum(self) -> str:
        """The column of their sum."""
        return f"{self.share}_sum"

    def value(self, many: Column, sum_: Column) -> Column:
        """From what is held."""
        if self.function == "count":
            return many
        if self.function == "avg":
            exact = self.held.startswith("decimal") and self.kind.startswith("decimal")
            above = sum_ if exact else sum_.cast("double")
            below = F.greatest(many, F.lit(1))
            sum_ = above / (below.cast("decimal(20,0)") if exact else below.cast("double"))
        return F.when(many > 0, sum_.cast(self.kind))


@dataclass(frozen=True)
class Shape:
    """Of totals. ``parts``: their values, where all of them are sums; else None."""

    totals: Totals
    parts: tuple[Part, ...] | None

    @property
    def by(self) -> list[Column]:
        """The columns that tell groups apart."""
        return [F.col(quoted(name)) for name in self.totals.by]

    @property
    def columns(self) -> list[str]:
        """What a reader is to see."""
        return [*self.totals.by, *self.totals.values]


def grouped(rows: DataFrame, totals: Totals) -> DataFrame:
    """In: what the function brings. Out: the totals, by Spark's own GROUP BY."""
    values = [F.expr(text).alias(name) for name, text in totals.values.items()]
    return rows.groupBy(*[F.col(quoted(name)) for name in totals.by]).agg(*values)


def shape(rows: DataFrame, totals: Totals) -> Shape:
    """Raises what Spark says of a value that is none."""
    made = grouped(rows, totals)
    plan = next(
        one
        for one in spark_plans.nodes(spark_plans.analysed(made))
        if str(one.nodeName()) == "Aggregate"
    )
    named = {str(one.name()): one for one in spark_plans.each(plan.aggregateExpressions())}
    parts = []
    for number, (name, text) in enumerate(totals.values.items()):
        part = _part(name, text, number, named[name], made.schema)
        if part is None:
            return Shape(totals, None)
        parts.append(part)
    return Shape(totals, tuple(parts))


_CALL = re.compile(r"\s*(count|sum|avg|mean)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_FUNCTIONS = {"Count": "count", "Sum": "sum", "Average": "avg"}


def _part(name: str, text: str, number: int, said: object, columns: StructType) -> Part | None:
    """None for what is no sum of exact numbers: sums of floating-point ones depend on their order."""
    expression = said.child()  # type: ignore[attr-defined]
    call = _CALL.fullmatch(text)
    if call is None or str(expression.getClass().getSimpleName()) != "AggregateExpression":
        return None
    function = expression.aggregateFunction()
    kind = _FUNCTIONS.get(str(function.getClass().getSimpleName()))
    arguments = spark_plans.each(function.children())
    if (
        kind is None
        or expression.isDistinct()
        or expression.filter().isDefined()
        or len(arguments) != 1
    ):
        return None
    of = DataType.fromDDL(str(arguments[0].dataType().sql()))
    if kind != "count" and not isinstance(of, (DecimalType, IntegralType)):
        return None
    if kind == "avg" and isinstance(of, DecimalType) and _loses(of):
        return None
    held = (
        f"decimal({min(38, of.precision + 10)},{of.scale})"
        if isinstance(of, DecimalType)
        else "bigint"
    )
    argument = "1" if call[2].strip() == "*" else call[2]
    return Part(name, kind, argument, columns[name].dataType.simpleString(), held, number)


def _loses(of: DecimalType) -> bool:
    """Whether the sum divided by the number of rows, for which Spark has 38 digits in all, has fewer behind the point than AVG and two to round by."""
    before_point = min(38, of.precision + 10) - of.scale
    return max(38 - before_point, 6) < min(of.scale + 4, 38) + 2


def signed(
    of: Rows,
    shape: Shape,
    before: Mapping[str, DataFrame],
    after: Mapping[str, DataFrame],
    came: Mapping[str, DataFrame],
    went: Mapping[str, DataFrame],
) -> DataFrame:
    """In: by input, each table before and after, and the rows that came to it and went from it (of one that only stayed, both); tables that have not changed are not among the last two.
    Out: of each row of the function that came (sign 1) or went (-1), its group and its shares.
    """
    found = []
    for at, name in enumerate(before):
        others = {
            other: (before if place < at else after)[other] for place, other in enumerate(before)
        }
        for sign, rows in ((1, came.get(name)), (-1, went.get(name))):
            if rows is not None:
                found.append(_shares(of({**others, name: rows}), shape, sign))
    return reduce(DataFrame.unionByName, found)


def _shares(rows: DataFrame, shape: Shape, sign: int) -> DataFrame:
    shares = [F.expr(part.argument).alias(part.share) for part in shape.parts or ()]
    return rows.select(*shape.by, *shares, F.lit(sign).cast("bigint").alias(_SIGN))


def changes(signed_rows: DataFrame, shape: Shape) -> DataFrame:
    """In: :func:`signed`. Out: of each group that changes, what comes to what is held of it."""
    sign = F.col(_SIGN)
    sums = [F.sum(sign).alias(ROWS)]
    for part in shape.parts or ():
        share = F.col(part.share)
        sums.append(F.sum(F.when(share.isNotNull(), sign).otherwise(0)).alias(part.many))
        if part.function != "count":
            exact = share.cast(part.held)
            share = F.when(sign > 0, exact).otherwise(-exact)
            sums.append(F.coalesce(F.sum(share), F.lit(0)).cast(part.held).alias(part.sum))
    found = signed_rows.groupBy(*shape.by).agg(*sums)
    differ = [F.col(name) != 0 for name in found.columns[len(shape.by) :]]
    return found.where(reduce(Column.__or__, differ))


def whole(rows: DataFrame, shape: Shape) -> DataFrame:
    """In: what the function brings of whole tables. Out: all totals, with what is held of each group."""
    if shape.parts is None:
        return grouped(rows, shape.totals)
    held = changes(_shares(rows, shape, 1), shape)
    values = [_value(part).alias(part.name) for part in shape.parts]
    return held.select(*shape.by, *values, *held.columns[len(shape.by) :])


def _value(part: Part, of: Callable[[str], Column] = F.col) -> Column:
    sum_ = of(part.sum) if part.function != "count" else F.lit(0)
    return part.value(of(part.many), sum_)


def merged(shape: Shape) -> tuple[dict[str, str | Column], dict[str, str | Column]]:
    """What a MERGE of :func:`changes` (``now``) sets in the table (``held``): in a group that is there, and in one that is new."""
    names = [ROWS]
    for part in shape.parts or ():
        names += [part.many] if part.function == "count" else [part.many, part.sum]
    kinds = {part.sum: part.held for part in shape.parts or ()}

    def both(name: str) -> Column:
        found = F.col(f"held.{name}") + F.col(f"now.{name}")
        return found.cast(kinds[name]) if name in kinds else found

    def new(name: str) -> Column:
        return F.col(f"now.{name}")

    updated: dict[str, str | Column] = {name: both(name) for name in names}
    inserted: dict[str, str | Column] = {name: new(name) for name in names}
    for part in shape.parts or ():
        updated[quoted(part.name)] = _value(part, both)
        inserted[quoted(part.name)] = _value(part, new)
    inserted |= {quoted(name): F.col(f"now.{quoted(name)}") for name in shape.totals.by}
    return updated, inserted


def again(rows: DataFrame, groups: DataFrame, shape: Shape) -> DataFrame:
    """In: what the function brings of whole tables; groups that were touched. Out: the totals of these, by Spark's own GROUP BY; of one without rows
    that it is gone (``keyed_rows.GONE``).
    """
    found = grouped(of_groups(rows, groups, shape.totals.by), shape.totals)
    return with_gone(found, groups, shape.totals.by)


def of_groups(rows: DataFrame, groups: DataFrame, by: Sequence[str]) -> DataFrame:
    """Those rows that belong to one of the groups, or keys, each once. NULL is one like others."""
    return rows.join(groups, _same(rows, groups, by), "left_semi")


def with_gone(found: DataFrame, groups: DataFrame, by: Sequence[str]) -> DataFrame:
    """The rows of groups that are there, and the keys of those that are not, told apart by ``keyed_rows.GONE``."""
    gone = groups.join(found, _same(groups, found, by), "left_anti").select(*map(quoted, by))
    alive = found.withColumn(GONE, F.expr("false"))
    return alive.unionByName(gone.withColumn(GONE, F.expr("true")), allowMissingColumns=True)


def _same(one: DataFrame, other: DataFrame, by: Sequence[str]) -> Column:
    equal = [one[quoted(name)].eqNullSafe(other[quoted(name)]) for name in by]
    return reduce(Column.__and__, equal)
