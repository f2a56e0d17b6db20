"""A table's changes of one batch as a MERGE's source rows, and which of them belong to a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow.record_decoder import LOGGED
from ingest.arrow.winning_rows import within
from ingest.schema.catalog import SchemaVersion
from ingest.schema.steps import Step


@dataclass(frozen=True)
class SourceRows:
    """``parts``: apart by the columns and the key that they were read with, each with one version of these; a row for each change,
    TRUNCATEs left out: the columns and the reserved one, and what a change log wants besides, where the table has one.
    """

    parts: tuple[tuple[SchemaVersion, pa.Table], ...]

    @property
    def nbytes(self) -> int:
        """Of all."""
        return sum(rows.nbytes for _, rows in self.parts)

    @property
    def num_rows(self) -> int:
        """Of all."""
        return sum(rows.num_rows for _, rows in self.parts)

    def cut(self, steps: Sequence[Step]) -> list[pa.Table]:
        """Those of each step. One that was read with other columns than its step's is in none of them."""
        if len(steps) == 1:
            return [_whole(self._like(steps[0]))]
        return [
            _whole([rows.filter(within(rows, step.start, step.end)) for rows in self._like(step)])
            for step in steps
        ]

    def fit(self, steps: Sequence[Step]) -> bool:
        """Whether each of them was read with the columns and the key of its step."""
        if len(steps) == 1:
            found = sum(rows.num_rows for rows in self._like(steps[0]))
        else:
            pairs = ((rows, step) for step in steps for rows in self._like(step))
            found = sum(
                pc.sum(within(rows, step.start, step.end)).as_py() or 0 for rows, step in pairs
            )
        return bool(found == self.num_rows)

    def _like(self, step: Step) -> list[pa.Table]:
        """Several where columns went and came again."""
        return [unlogged(rows) for version, rows in self.parts if version.is_like(step.version)]


def unlogged(rows: pa.Table) -> pa.Table:
    """The same as a MERGE wants them."""
    return rows.drop_columns([LOGGED]) if LOGGED in rows.column_names else rows


def _whole(parts: Sequence[pa.Table]) -> pa.Table:
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts) if parts else pa.table({})
