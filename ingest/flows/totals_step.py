"""One batch of totals: what it makes of the table that holds them, and what the other sinks are told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from ingest.flows import spark_plans, table_versions, totals_query
from ingest.flows.cut import Cut
from ingest.flows.keyed_rows import GONE
from ingest.flows.sinks import Batch, Sinks, merge, overwrite
from ingest.flows.totals_query import ROWS, Shape
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.names import quoted

if TYPE_CHECKING:
    from ingest.flows.totals_flow import TotalsFlow


class Kept(ExitStack):
    """DataFrames that are computed once, for as long as this lasts. What a commit was made of has to stay what it was once the table has changed."""

    def frame(self, rows: DataFrame) -> tuple[DataFrame, int]:
        """The same rows, and how many."""
        kept = rows.persist()
        self.callback(kept.unpersist)
        return spark_plans.rows_alone(kept), kept.count()


_FEW = 10_000
"""Keys that are looked at in the driver, for the files that none of them is in; so many more are sent to each task."""

_RANGES = 32
"""Ranges of keys that a table is asked for: a condition that its files are compared with, one by one."""


@dataclass(frozen=True)
class TouchedKeys:
    """``keys``: distinct; ``by``: their columns, all of the table's where it has no key; ``within``: a condition that they all meet, by which files of a
    table are passed over.
    """

    keys: DataFrame
    by: tuple[str, ...]
    within: Column

    @classmethod
    def of_rows(cls, keys: DataFrame, by: tuple[str, ...], many: int) -> TouchedKeys:
        """Where the key begins with a whole number, and there are few, ranges of that are asked for."""
        within, first = F.lit(True), F.col(quoted(by[0]))
        if many <= _FEW and isinstance(keys.schema[by[0]].dataType, IntegralType):
            found = [row[0] for row in keys.select(first).distinct().collect()]
            if None not in found:
                some = (first.between(*one) for one in ranges(found, _RANGES))
                within = reduce(Column.__or__, some)
        return cls(F.broadcast(keys) if many <= 10 * _FEW else keys, by, within)

    def of(self, rows: DataFrame) -> DataFrame:
        """Those rows of a table that have one of the keys."""
        return totals_query.of_groups(rows.where(self.within), self.keys, self.by)


def ranges(numbers: Collection[int], most: int) -> list[tuple[int, int]]:
    """So many ranges at most that hold all of these numbers, parted where most lies between two of them. Of at least one number."""
    known = sorted(numbers)
    gaps = sorted(range(1, len(known)), key=lambda at: known[at - 1] - known[at])[: most - 1]
    starts = [0, *sorted(gaps)]
    ends = [*(at - 1 for at in starts[1:]), len(known) - 1]
    return [(known[a], known[b]) for a, b in zip(starts, ends, strict=True)]


class TotalsStep:
    """``flow``: of which run; ``now``: up to where; ``number``: Spark's."""

    def __init__(self, flow: TotalsFlow, sinks: Sinks, now: Cut, number: int, kept: Kept) -> None:
        self.flow, self.sinks, self.now, self.number, self.kept = flow, sinks, now, number, kept
        self.shape: Shape = flow.shape
        self.table = SparkTable(flow.session, sinks.path(flow.main))
        self.identity = sinks.identity(sinks.app_id(flow.main.name), number)
        self._everything: Batch | None = None

    def nothing(self) -> Batch:
        """A batch without a row: who notes places notes this one."""
        shown = [one for one in self.flow.columns if one.name in self.shape.columns]
        empty = self.flow.session.createDataFrame([], StructType(shown))
        return Batch(empty.withColumn(GONE, F.expr("false")), 0, self.number)

    def everything(self) -> Batch:
        """All totals, as the table has them now, in place of what a sink holds."""
        if self._everything is None:
            rows = self._shown().withColumn(GONE, F.expr("false"))
            self._everything = Batch(*self.kept.frame(rows), self.number, whole=True)
        return self._everything

    def whole(self) -> Batch:
        """All totals anew, and which groups are no more."""
        flow, by = self.flow, self.flow.totals.by
        rows = totals_query.whole(flow.made(flow.at(self.now)), self.shape)
        self.sinks.committer.once(self.table, self.identity, lambda: overwrite(self.table, rows))
        found, version = self._shown(), self.now.main_version
        if not table_versions.readable(flow.session, self.table.path, version):
            return self.everything()
        older = table_versions.at(flow.session, self.table.path, version)
        if not {*by} <= {*older.columns}:
            return self.everything()
        told = totals_query.with_gone(found, older.select(*map(quoted, by)), by)
        return Batch(*self.kept.frame(told), self.number, whole=True)

    def changed(self, was: Cut, logs: Mapping[str, DataFrame], *, sums: bool) -> Batch:
        """Groups that the changes have touched. ``logs``: these, by input; ``sums``: by adding to what is held."""
        flow, by = self.flow, self.flow.totals.by
        before, after = flow.at(was), flow.at(self.now)
        keys = {name: one for name, rows in logs.items() if (one := self._keys(name, rows))}
        came = {name: one.of(after[name]) for name, one in keys.items()}
        went = {name: one.of(before[name]) for name, one in keys.items()}
        signed = totals_query.signed(flow.made, self.shape, before, after, came, went)
        once = self.sinks.committer.once
        if sums:
            changes, _ = self.kept.frame(totals_query.changes(signed, self.shape))
            once(
                self.table,
                self.identity,
                lambda: _add(self.table, changes, self.shape),
                may_do_nothing=True,
            )
            groups = changes.select(*map(quoted, by))
            told = totals_query.with_gone(
                totals_query.of_groups(self._shown(), groups, by), groups, by
            )
            return Batch(*self.kept.frame(told), self.number)
        groups, _ = self.kept.frame(signed.select(*map(quoted, by)).distinct())
        told, many = self.kept.frame(totals_query.again(flow.made(after), groups, self.shape))
        once(self.table, self.identity, lambda: merge(self.table, by, told), may_do_nothing=True)
        return Batch(told, many, self.number)

    def _keys(self, name: str, log: DataFrame) -> TouchedKeys | None:
        """Of an input's rows that its log tells of; None where it tells of none. What came and went is then read from the tables as they were
        before and are now, and not from the log's images: a table may have held another row than ``before`` says, as where a TRUNCATE was not
        followed, a cascade never reached the log, or a snapshot has brought a row before its INSERT.
        """
        columns = log.schema["after"].dataType
        assert isinstance(columns, StructType)
        by = self.flow.key(name, columns.names)
        images = [_images(log, image).select(*map(quoted, by)) for image in ("before", "after")]
        found, many = self.kept.frame(images[0].unionByName(images[1]).distinct())
        return TouchedKeys.of_rows(found, by, many) if many else None

    def _shown(self) -> DataFrame:
        return self.table.frame().select(*map(quoted, self.shape.columns))


def _images(rows: DataFrame, image: str) -> DataFrame:
    operations = ("insert", "update") if image == "after" else ("update", "delete")
    return rows.where(F.col("operation").isin(*operations)).select(f"{image}.*")


def _add(table: SparkTable, changes: DataFrame, shape: Shape) -> None:
    same = " AND ".join(f"held.{quoted(one)} <=> now.{quoted(one)}" for one in shape.totals.by)
    updated, inserted = totals_query.merged(shape)
    left = f"held.{ROWS} + now.{ROWS}"
    wrong = F.raise_error(F.lit("more rows have gone from a group than it has")).cast("bigint")
    updated[ROWS] = F.when(F.expr(f"{left} > 0"), F.expr(left)).otherwise(wrong)
    inserted[ROWS] = F.when(F.expr(f"now.{ROWS} > 0"), F.col(f"now.{ROWS}")).otherwise(wrong)
    merging = table.delta().alias("held").merge(changes.alias("now"), same)
    merging = merging.whenMatchedDelete(f"{left} = 0").whenMatchedUpdate(set=updated)
    merging.whenNotMatchedInsert(f"now.{ROWS} <> 0", inserted).execute()
