"""A MERGE that writes each file anew that holds a changed row, by delta-rs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.model.names import RESERVED_COLUMN, quoted_for_delta_rs
from ingest.targets import mirror_rows
from ingest.targets.target import Target


def rewrite(
    direct: DeltaRsTable, target: Target, rows: pa.Table, key: Sequence[str], prune: Sequence[str]
) -> None:
    """One MERGE of source rows, one per key; or what it comes to where no file may hold one of their keys.
    ``prune``: see ``DeltaRsTable.merge``.
    """
    reached = direct.state.reached_by(rows, prune)
    if reached or not direct.add(mirror_rows.inserted(rows, target)):
        columns = [name for name in rows.column_names if name != RESERVED_COLUMN]
        direct.merge(rows, target.plan(columns, key, quoted_for_delta_rs), prune=prune)
