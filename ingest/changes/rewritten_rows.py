"""Which rows files hold once a MERGE has been made in them, each file from its own rows alone.

Delta's own MERGE looks in one join for rows of either side that the other does not have, and so shuffles all rows of the files that change:
it takes longer, and leaves files in which every key may be. Where the source is small it is sent to every task instead: a file's rows
stay together and in their order, so that the next batch, and readers who filter, still pass files over.

Frames are as a MERGE has them: a table's rows under the alias ``t``, the source's under ``s``, of which each has the reserved column
and no two match one row. What clauses cast to a column's type a MERGE would, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes.kept_frames import keep
from ingest.model.names import quoted
from ingest.targets.target import MergePlan

NUMBER = "number"
"""Of a source row that matches a row of the table (:func:`matches`)."""

_OF_SOURCE = "number "
"""The same, beside the source's own columns: no column of MySQL's has a name that ends with a blank."""

_OF_HELD = "file "
"""The file of a table's row, beside the table's own columns."""


def numbered(source: DataFrame, key: Iterable[str]) -> DataFrame:
    """The source's rows, computed once and each with a number of its own. ``key``: of which no two rows have the same. A task that is run twice
    (its executor is gone, or Spark speculates) may have its rows in another order, and has to number them as before: by then
    numbers of the first run may be what says which rows match.
    """
    sorted_rows = source.sortWithinPartitions(*map(quoted, key))
    return keep(sorted_rows.withColumn(_OF_SOURCE, F.monotonically_increasing_id()))


def matches(held: DataFrame, source: DataFrame, plan: MergePlan) -> DataFrame:
    """``number long, file string, deleted boolean, updated boolean``: the source rows (:func:`numbered`) that match a row of
    ``held``, the file that holds that one as a URI, and what becomes of it. ``held``: read from files. Each source row is there once more,
    without a file: so they are counted in the same job.
    """
    file = held.metadataColumn("_metadata")["file_path"]  # whatever the table's columns are called
    placed = held.withColumn(_OF_HELD, file).alias("t")
    both = placed.join(F.broadcast(source).alias("s"), F.expr(plan.match))
    found = both.select(
        F.col(f"s.{quoted(_OF_SOURCE)}").alias(NUMBER),
        F.col(f"t.{quoted(_OF_HELD)}").alias("file"),
        _deleted(plan).alias("deleted"),
        (~_deleted(plan) & _true(plan.update_when)).alias("updated"),
    )
    no_file, no = F.lit(None).cast("string"), F.lit(False)
    return found.union(source.select(F.col(quoted(_OF_SOURCE)), no_file, no, no))


def kept(held: DataFrame, source: DataFrame, plan: MergePlan, table: StructType) -> DataFrame:
    """Rows of ``held`` as the MERGE leaves them, with the columns of ``table``."""
    both = held.alias("t").join(F.broadcast(source).alias("s"), F.expr(plan.match), "left")
    both = both.filter(~_deleted(plan))
    values, updated = _values(plan, table), _true(plan.update_when)
    columns = list[Column]()
    for name in table.names:
        before = F.col(f"t.{quoted(name)}")
        after = F.when(updated, values[name]).otherwise(before) if name in values else before
        columns.append(after.alias(name))
    return both.select(*columns)


def inserted(source: DataFrame, plan: MergePlan, table: StructType) -> DataFrame:
    """Rows that the MERGE inserts where none matches, with those columns of ``table`` that it assigns."""
    values = (value.alias(name) for name, value in _values(plan, table).items())
    return source.alias("s").filter(plan.insert_when).select(*values)


def added(source: DataFrame, matched: DataFrame, plan: MergePlan, table: StructType) -> DataFrame:
    """Rows that the MERGE inserts, with all columns of ``table``. ``matched``: ``number long`` of source rows (:func:`numbered`) that match."""
    same = F.col(f"s.{quoted(_OF_SOURCE)}") == F.col(f"m.{NUMBER}")
    new = source.alias("s").join(F.broadcast(matched).alias("m"), same, "left_anti")
    rows = inserted(new, plan, table)
    return rows.select(
        *(
            F.col(quoted(one.name))
            if one.name in rows.columns
            else F.lit(None).cast(one.dataType).alias(one.name)
            for one in table.fields
        )
    )


def _values(plan: MergePlan, table: StructType) -> dict[str, Column]:
    """What a clause assigns, by the column that gets it."""
    kinds = {quoted(field.name): field for field in table.fields}
    return {
        kinds[name].name: F.expr(value).cast(kinds[name].dataType)
        for name, value in plan.assignments.items()
    }


def _deleted(plan: MergePlan) -> Column:
    return _true(plan.delete_when)


def _true(condition: str) -> Column:
    """A condition, where unknown is no; false where there is none."""
    return F.coalesce(F.expr(condition), F.lit(False)) if condition else F.lit(False)
