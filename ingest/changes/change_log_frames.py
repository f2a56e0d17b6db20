"""The rows of a table's change log, from changes that Spark's columns have read. DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes import dedup
from ingest.model.position import Position
from ingest.schema import change_log
from ingest.schema.change_log import LogColumns


def of_changes(
    changes: DataFrame,
    fields: Mapping[str, str],
    version: str,
    columns: LogColumns,
    *,
    batch: int,
    first: Position | None,
    has: Mapping[int, int],
) -> DataFrame:
    """One step's changes as rows of the log.

    In: columns of ``row_images.typed`` with ``old``, all of which can be applied. Out: the log's. ``fields``: each of the table's
    columns with its field; ``version``: the definition's position; the others as ``change_log_rows.LogBatch`` has them.
    """
    # Of a change that was sent again the first counts, where the log may have it.
    changes = dedup.once_and_first(changes) if has else dedup.once(changes)
    for partition, end in has.items():
        changes = changes.filter((F.col("partition") != partition) | (F.col("offset") >= end))
    op = F.col("op")
    words = F.create_map(*[F.lit(one) for pair in change_log.OPERATIONS.items() for one in pair])
    now, was = (
        F.struct(*[F.col(held)[name].alias(field) for name, field in fields.items()])
        for held in ("row", "old")
    )
    said = {
        "operation": words[op],
        "position": F.col("position"),
        "committed_at": F.col("committed_at"),
        "batch_id": F.lit(batch),
        "transaction": F.col("gtid"),
        "origin": F.when(op != "r", "stream").otherwise(_read(first)),
        "schema_version": F.lit(version),
        "statement": F.lit(None),
        "before": F.when(op == "d", now).when(op == "u", was),
        "after": F.when(op != "d", now),
    }
    return fitted(changes.select(*[value.alias(name) for name, value in said.items()]), columns)


def fitted(rows: DataFrame, columns: LogColumns) -> DataFrame:
    """Rows of the log whose images lack some of its fields, which become NULL, with its very types."""
    kinds = schema(columns)
    images = [_image(rows, name, kinds[name].dataType) for name in change_log.IMAGES]
    plain = [one for one in kinds.fields if one.name not in change_log.IMAGES]
    return rows.select(*[F.col(one.name).cast(one.dataType) for one in plain], *images)


def schema(columns: LogColumns) -> StructType:
    """Of a log with these columns."""
    return StructType.fromJson(columns.schema)


def _image(rows: DataFrame, name: str, kind: Any) -> Column:
    there = {one.name for one in rows.schema[name].dataType.fields}  # type: ignore[attr-defined]
    fields = [
        (F.col(name)[one.name] if one.name in there else F.lit(None))
        .cast(one.dataType)
        .alias(one.name)
        for one in kind.fields
    ]
    return F.when(F.col(name).isNotNull(), F.struct(*fields)).alias(name)


def _read(first: Position | None) -> Column:
    """Of what a snapshot read, whether it was the table's first."""
    same = F.lit(first is not None)
    for name, value in change_log.of_snapshot(first).items():
        same &= F.col("position")[name] == F.lit(value)
    return F.when(same, "snapshot").otherwise("resync")
