"""The MERGE of a mirror as data: what matches, what guards, what is assigned.

Every clause is guarded by the order, deletes included: a change applies only over an older row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import SQL_TYPE

META_TYPE = f"struct<position: {SQL_TYPE}, op: string, committed_at: timestamp>"
"""The type of the reserved column of a mirror with a key."""

_NEWER = f"s.{RESERVED_COLUMN}.position > t.{RESERVED_COLUMN}.position"


@dataclass(frozen=True)
class MergePlan:
    """Conditions and assignments for ``DeltaTable.merge`` with the aliases ``t`` and ``s``.

    Assignments are explicit, so a generated or extra column of the target never fails the MERGE.
    """

    match: str
    delete_when: str
    update_when: str
    insert_when: str
    assignments: dict[str, str]


def mirror_source(winners: DataFrame) -> DataFrame:
    """``op, position, committed_at, row`` to the source's columns and ``_ingest``."""
    meta = F.struct("position", "op", "committed_at").cast(META_TYPE)
    return winners.select("row.*", meta.alias(RESERVED_COLUMN))


def meta_of(rows: DataFrame) -> Column:
    """The reserved column of rows that have one already, of a multiset's, too."""
    fields = [rows[RESERVED_COLUMN][name] for name in ("position", "op", "committed_at")]
    return F.struct(*fields).cast(META_TYPE)


def inserted(rows: pa.Table) -> pa.Table:
    """Of a mirror's source rows in the driver those that are inserted where no row has their key (``insert_when``)."""
    op = pc.struct_field(rows[RESERVED_COLUMN], "op")
    return rows.filter(pc.not_equal(op, "d"))


def mirror_plan(
    columns: Sequence[str], key: Sequence[str], quoted: Callable[[str], str] = quoted
) -> MergePlan:
    """The plan for a mirror with a key: the newest change per key wins, a delete removes. ``quoted``: how
    the engine that is to run it quotes names.
    """
    match = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
    names = [*columns, RESERVED_COLUMN]
    return MergePlan(
        match=match,
        delete_when=f"s.{RESERVED_COLUMN}.op = 'd' AND {_NEWER}",
        update_when=f"s.{RESERVED_COLUMN}.op <> 'd' AND {_NEWER}",
        insert_when=f"s.{RESERVED_COLUMN}.op <> 'd'",
        assignments={quoted(name): f"s.{quoted(name)}" for name in names},
    )
