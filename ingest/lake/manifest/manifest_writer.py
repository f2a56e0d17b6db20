"""Writing the manifest: one row per batch, last (``manifest_reader`` reads it).

Most rows rest upon the one before (``part_rows``). That is only so where this very object has written that one, and knows
so; the first row of a job, and the one after any doubt, is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa
from deltalake import ColumnProperties, Schema, WriterProperties
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ingest.lake.delta import column_commits
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable, unread
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.object_files import made
from ingest.lake.manifest import part_rows
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.manifest.part_rows import Last
from ingest.model import manifest
from ingest.model.manifest import Entry
from ingest.model.names import manifest_path
from ingest.schema.delta_types import fields_json

_ONE_ROW = WriterProperties(
    compression="UNCOMPRESSED",
    default_column_properties=ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE"),
    column_properties={
        "batch_id": ColumnProperties(dictionary_enabled=False, statistics_enabled="CHUNK")
    },
)
"""For a file of one row and 93 columns, most of it what is said of columns: 19 kB, and three quarters of the time, where
compression, dictionaries and the statistics of all of them make it 30. By ``batch_id`` files are passed over (``manifest_reader``).
"""


class Publisher:
    """The manifest of one lake, as its job writes it: in the driver's own process where the lake is a local
    folder, since a row takes Spark a second.
    """

    def __init__(self, session: SparkSession, lake: str, committer: Committer) -> None:
        self._session = session
        self._lake = lake
        self._committer = committer
        self._table = SparkTable(session, manifest_path(lake))
        self._direct = unread(self._table, lake, committer.term)
        self._rows = 0
        """That Spark has written."""
        self._last: Last | None = None
        self._total: int | None = None
        """Changes of all batches up to the newest; None before it is known."""

    @property
    def opened(self) -> list[DeltaRsTable]:
        """The manifest, where delta-rs writes it and has."""
        return [self._direct] if self._direct is not None and self._direct.merges else []

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """See ``ReachedTables.left_to_spark``."""
        return {self._table.path: self._rows} if self._direct is None and self._rows else {}

    def add(self, entry: Entry, identity: Identity) -> None:
        """Publish a batch, unless it is published."""
        if self._total is None:
            self._total = Ledger(self._lake).total_changes()
        total = self._total + entry.changes
        row, last = part_rows.row(entry, self._last, total)
        # Until it is certain that this row is there, the next one can neither rest upon it nor upon the one before.
        self._last = self._total = None
        if self._write(row, identity):
            self._last, self._total = last, total

    def _write(self, row: Mapping[str, Any], identity: Identity) -> bool:
        if self._direct is None:
            rows = self._session.createDataFrame([row], manifest.SCHEMA)
            path, self._rows = self._table.path, self._rows + 1
            return self._committer.append_once(
                self._session, path, manifest.SCHEMA, rows, identity, adds_columns=True
            )
        direct = self._direct
        if not self._table.exists():
            schema = Schema.from_json(_schema().json())
            made(direct.at.place, schema)
            self._table.make_lasting(0)

        def append() -> None:
            column_commits.add(direct, fields_json(manifest.SCHEMA)["fields"])
            direct.append(_row(row), _ONE_ROW)

        return self._committer.once(direct, identity, append)


def _row(row: Mapping[str, Any]) -> pa.Table:
    schema = to_arrow_schema(_schema(), timezone="UTC")
    return pa.Table.from_pylist([row], schema=schema)


@cache
def _schema() -> StructType:
    return StructType.fromJson(fields_json(manifest.SCHEMA))
