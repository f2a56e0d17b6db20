"""``DirectLake`` with its table in an object store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, Schema

from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from tests.support.direct_lake import DirectLake


class RemoteLake(DirectLake):
    """``uri``: of a table that is not there yet; ``room``: a local folder."""

    def __init__(self, uri: str, room: Path, columns: dict[str, pa.DataType]) -> None:
        self.columns, self._steps, self._pos = columns, 0, 0
        self.uri, self.room = uri, room
        schema = self.rows({name: [] for name in columns}).schema
        DeltaTable.create(uri, Schema.from_arrow(schema))
        self.open()

    def open(self) -> None:
        """As a job does that begins."""
        slow = cast("SparkTable", SimpleNamespace(path=self.uri, folder=None))
        self.table = DeltaRsTable(slow, self.room / "scratch")

    def values(self, column: str) -> set[Any]:
        return {row[column] for row in held(self.uri)} - {None}


def held(place: str | Path, options: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """All rows that a reader finds, in order of their key. ``options``: of the store; never of a server of this process's own, which
    would wait for what delta-rs holds while it reads.
    """
    rows = (
        QueryBuilder()
        .register("t", DeltaTable(place, storage_options=options))
        .execute("SELECT id, v FROM t ORDER BY id, v")
    )
    found: list[dict[str, Any]] = pa.table(rows.read_all()).to_pylist()
    return found
