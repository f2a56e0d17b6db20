"""The newest change of each key, of pieces that lie in Spark: folded by Arrow in one of its tasks.

Spark's own aggregate has to shuffle and sort rows of several columns, and to plan that anew for each table; where they are few, that takes
several times as long as to fold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.arrow.carried_rows import StepPart
from ingest.arrow.kept_rows import StepPieces, each_opened
from ingest.arrow.winning_rows import winners
from ingest.changes.arrow_frames import mapped

FEW = 64 * 2**20
"""Bytes of pieces that one task folds at once: it holds them, and the rows that are left."""


def folded(pieces: StepPieces, key: Sequence[str]) -> DataFrame:
    """One source row per key of a step: its columns and the reserved one. Where no more than :data:`FEW` bytes are read for it."""
    read = partial(_folded, tuple(key), pieces.parts, pieces.schema.names)
    return mapped(pieces.frame.select("layout", "rows").coalesce(1), read, pieces.schema)


def _folded(
    key: Sequence[str],
    parts: Sequence[StepPart],
    names: Sequence[str],
    some: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    found = [rows.select(names) for rows in each_opened(parts, some)]
    if found:
        yield from winners(pa.concat_tables(found), key).to_batches()
