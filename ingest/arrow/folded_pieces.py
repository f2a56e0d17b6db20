"""The newest change of each key, of pieces that lie in Spark: folded by Arrow in one of its tasks.

Spark's own aggregate has to shuffle and sort rows of several columns, and to plan that anew for each table; where they are few, that takes
several times as long as to fold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.arrow.winning_rows import winners, within
from ingest.changes.arrow_frames import mapped
from ingest.changes.kept_rows import StepPieces, opened
from ingest.model.position import Position

FEW = 64 * 2**20
"""Bytes of pieces that one task folds at once: it holds them, and the rows that are left."""


def folded(pieces: StepPieces, key: Sequence[str]) -> DataFrame:
    """One source row per key of a step: its columns and the reserved one. Where no more than :data:`FEW` bytes are read for it."""
    step, whole = pieces.step, pieces.where is None
    start, end = (None, None) if whole else (step.start, step.end)
    read = partial(_folded, tuple(key), start, end)
    return mapped(pieces.frame.select("rows").coalesce(1), read, pieces.schema)


def _folded(
    key: Sequence[str],
    start: Position | None,
    end: Position | None,
    some: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    pieces = (opened(body.as_buffer()) for batch in some for body in batch.column(0))
    parts = [rows.filter(within(rows, start, end)) for rows in pieces]
    if parts:
        names = parts[0].column_names
        rows = pa.concat_tables([part.select(names) for part in parts])
        yield from winners(rows, key).to_batches()
