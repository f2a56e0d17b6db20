"""The rows of a table with a key, as a MERGE takes them. DataFrame to DataFrame."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.model.names import RESERVED_COLUMN
from ingest.targets.target import KEYED_META, Target


def mirror_source(winners: DataFrame) -> DataFrame:
    """``op, position, committed_at, row`` to the source's columns and ``_ingest``."""
    meta = F.struct("position", "op", "committed_at").cast(KEYED_META)
    return winners.select("row.*", meta.alias(RESERVED_COLUMN))


def meta_of(rows: DataFrame) -> Column:
    """The reserved column of rows that have one already, of a multiset's, too."""
    fields = [rows[RESERVED_COLUMN][name] for name in ("position", "op", "committed_at")]
    return F.struct(*fields).cast(KEYED_META)


def inserted(rows: pa.Table, target: Target) -> pa.Table:
    """Of source rows in the driver those that are inserted where no row has their key (``insert_when``)."""
    op = pc.struct_field(rows[RESERVED_COLUMN], "op")
    removing = pa.array(sorted(target.removing), pa.string())
    return rows.filter(pc.invert(pc.is_in(op, value_set=removing)))
