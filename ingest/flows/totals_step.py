"""One batch of totals: what it makes of the table that holds them, and what the other sinks are told."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

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
        after = flow.at(self.now)
        came = {name: _images(rows, "after") for name, rows in logs.items()}
        went = {name: _images(rows, "before") for name, rows in logs.items()}
        signed = totals_query.signed(flow.made, self.shape, flow.at(was), after, came, went)
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
