"""Equality of DataFrames, by chispa, which shows what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import DataFrame

from ingest.model.names import RESERVED_COLUMN


def assert_rows(found: DataFrame, expected: DataFrame | Sequence[Mapping[str, Any]]) -> None:
    """Both hold the same rows, in whatever order, each as often. Of ``_ingest``, of the order of columns and of what
    may be NULL nothing is asked; types count, and so does every digit.

    ``expected``: a DataFrame, or rows by column name in Python's types, such as ``Table.rows``. Raises
    ``chispa.DataFramesNotEqualError`` or ``chispa.schema_comparer.SchemasNotEqualError``, with both sides in colour.
    """
    actual = found.drop(RESERVED_COLUMN)
    if isinstance(expected, DataFrame):
        wanted = expected.drop(RESERVED_COLUMN)
    else:
        names = actual.columns
        if unknown := {name for row in expected for name in row} - set(names):
            raise AssertionError(f"columns {sorted(unknown)} are expected; there are {names}")
        rows = [tuple(row.get(name) for name in names) for row in expected]
        wanted = found.sparkSession.createDataFrame(rows, actual.schema)
    assert_df_equality(
        actual,
        wanted,
        ignore_nullable=True,
        ignore_column_order=True,
        ignore_row_order=True,
        ignore_metadata=True,
        allow_nan_equality=True,
    )
