"""The changes of a batch brought to the driver: one job for its tables, not one each.

What goes to delta-rs has to be in the driver anyway, and Spark plans and starts a job for about as long as
it takes to read ten thousand changes. So the typed changes of many tables come together, each table in a
column of its own, and Arrow picks the winners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.arrow.table_batch import StepBatch, TableBatch
from ingest.changes import row_images
from ingest.lake.engines.delta_rs_limits import MAX_BYTES
from ingest.model.names import RESERVED_COLUMN
from ingest.targets.target import KEYED_META

TOGETHER = 16
"""Steps in one job: each has a column that is null for all others, so plans grow with the square."""


def look(fresh: DataFrame, tables: Sequence[TableBatch], pool: Executor, *, collect: bool) -> int:
    """Computes the changes of all tables; returns how many cannot be read or applied. Tells each table
    which of its steps have others. With ``collect``, and unless something cannot be applied, steps with a
    key get their rows.
    """
    if collect and sum(table.facts.bytes for table in tables) <= MAX_BYTES:
        return _brought(fresh, tables, pool)
    return _counted(fresh.filter(F.col("reason").isNotNull()), tables)


def _brought(fresh: DataFrame, tables: Sequence[TableBatch], pool: Executor) -> int:
    steps = [one for table in tables for one in table.read_by_spark]
    keyed = [one for one in steps if one.key]
    keyless = [one for one in steps if not one.key]
    groups = [keyed[start : start + TOGETHER] for start in range(0, len(keyed), TOGETHER)] or [[]]
    frames = [_frame(fresh, group, unread=group is groups[0]) for group in groups]
    if keyless:
        groups.append(keyless)
        frames.append(_without_rows(keyless))
    found = list(pool.map(lambda frame: frame.toArrow().combine_chunks(), frames))
    bad = sum(pc.sum(part["bad"]).as_py() or 0 for part in found)
    for group, part in zip(groups, found, strict=True):
        for place, one in enumerate(group):
            mine = part.filter(pc.equal(part["step"], place))
            one.applicable = mine.num_rows > (pc.sum(mine["bad"]).as_py() or 0)
            if one.key and not bad:
                both = _of_fields(mine[_column(place)])
                rows = _of_fields(both["row"])
                one.rows = rows.append_column(RESERVED_COLUMN, both[RESERVED_COLUMN])
    return int(bad)


def _frame(fresh: DataFrame, steps: Sequence[StepBatch], *, unread: bool) -> DataFrame:
    """``step int`` (-1: unreadable, if ``unread``), ``bad int`` (1 for what cannot be applied), and for each
    step a column of its rows and what a mirror notes of them, null for rows of other steps.

    One SELECT for all: a frame for each table is one plan more to analyse and to optimise for Spark, which
    takes it longer than to read a thousand changes.
    """
    number = F.when(F.col("reason").isNotNull(), F.lit(-1 if unread else None))
    for place, one in enumerate(steps):
        number = number.when(one.mine, place)
    rows = fresh.withColumn("step", number.cast("int")).filter(F.col("step").isNotNull())
    parsed, bad, sources = {}, F.when(F.col("step") == -1, 1), []
    noted = F.struct("position", "op", "committed_at").cast(KEYED_META)
    for place, one in enumerate(steps):
        raw, mine = _raw(steps[:place], one), F.col("step") == place
        reading = row_images.of_row(one.schema, raw, fresh.sparkSession)
        parsed[raw] = F.when(mine, reading.parsed)
        bad = bad.when(mine & reading.reason.isNotNull(), 1)
        # Arrow refuses a field that may not be null in a struct that may, as all but one are here.
        row = F.when(mine, reading.row).alias("row")
        meta = F.when(mine, noted).alias(RESERVED_COLUMN)
        sources.append(F.when(mine, F.struct(row, meta)).alias(_column(place)))
    return rows.withColumns(parsed).select("step", bad.otherwise(0).alias("bad"), *sources)


def _raw(before: Sequence[StepBatch], one: StepBatch) -> str:
    """A column of its own, and the same one in the next batch. To Spark, letters' case does not tell columns
    apart, as it may tables.
    """
    table = one.step.version.table
    earlier = sum(other.step.version.table == table for other in before)
    return f"raw {earlier} {str(table).encode().hex()}"


def _without_rows(steps: Sequence[StepBatch]) -> DataFrame:
    """``step int, bad int`` of tables without a key, whose changes are kept as Spark has them."""
    bad = F.col("reason").isNotNull().cast("int").alias("bad")
    parts = [one.changes.select(F.lit(at).alias("step"), bad) for at, one in enumerate(steps)]
    return reduce(DataFrame.unionByName, parts)


def _column(place: int) -> str:
    return f"of{place}"


def _counted(unread: DataFrame, tables: Sequence[TableBatch]) -> int:
    """One job, which computes what the MERGEs will read, too."""
    bad = F.col("reason").isNotNull().alias("bad")
    parts = [unread.select(F.lit(-1).alias("table"), F.lit(0).alias("step"), bad)]
    parts += [
        one.changes.select(F.lit(number).alias("table"), F.lit(index).alias("step"), bad)
        for number, table in enumerate(tables)
        for index, one in enumerate(table.read_by_spark)
    ]
    counted = reduce(DataFrame.unionByName, parts).groupBy("table", "step", "bad").count().collect()
    for number, table in enumerate(tables):
        table.know({row.step for row in counted if row.table == number and not row.bad})
    return sum(row["count"] for row in counted if row.bad)


class AbsentError(Exception):
    """A change removes a row that the table does not hold."""


def numbered(net: pa.Table, held: Mapping[str, int], op: str) -> pa.Table:
    """Net changes (``multiset_rows.net_changes``) as the source rows of a multiset's MERGE, in the driver.

    ``held``: content to the highest ordinal in the table. ``op``: the name of the column that says whether
    a row is to be inserted (``c``) or deleted (``d``). Raises :class:`AbsentError`.
    """
    places: list[int] = []
    ordinals: list[int] = []
    ops: list[str] = []
    contents, deltas = net["content"].to_pylist(), net["delta"].to_pylist()
    for place, (content, delta) in enumerate(zip(contents, deltas, strict=True)):
        have = held.get(content, 0)
        if have + delta < 0:
            raise AbsentError
        first, last = sorted((have, have + delta))
        for ordinal in range(first + 1, last + 1):
            places.append(place)
            ordinals.append(ordinal)
            ops.append("c" if delta > 0 else "d")
    rows = net.take(pa.array(places, pa.int64()))
    meta = rows.select(["position", "op", "committed_at", "content"])
    meta = meta.append_column("ordinal", pa.array(ordinals, pa.int64())).to_struct_array()
    return (
        _of_fields(rows["row"])
        .append_column(RESERVED_COLUMN, meta)
        .append_column(op, pa.array(ops, pa.string()))
    )


def _of_fields(column: pa.ChunkedArray) -> pa.Table:
    """A column's fields as columns. pyarrow 25, the last for Python 3.10, takes none without a chunk."""
    if not column.num_chunks:
        return pa.schema(list(column.type)).empty_table()
    return pa.Table.from_struct_array(column)
