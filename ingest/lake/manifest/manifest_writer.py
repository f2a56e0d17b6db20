"""Writing the manifest: one row per batch, last (``manifest_reader`` reads it)."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from deltalake import ColumnProperties, DeltaTable, Schema, WriterProperties
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable, unread
from ingest.lake.delta.spark_table import SparkTable
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
"""For a file of one row and 88 columns, most of it what is said of columns: 19 kB, and three quarters of the time, where
compression, dictionaries and the statistics of all of them make it 30. By ``batch_id`` files are passed over (``manifest_reader``).
"""


class Publisher:
    """The manifest of one lake, as its job writes it: in the driver's own process where the lake is a local
    folder, since a row takes Spark a second.
    """

    def __init__(self, session: SparkSession, lake: str, committer: Committer) -> None:
        self._session = session
        self._committer = committer
        self._table = SparkTable(session, manifest_path(lake))
        self._direct = unread(self._table, lake, committer.term)

    @property
    def opened(self) -> list[DeltaRsTable]:
        """The manifest, where delta-rs writes it and has."""
        return [self._direct] if self._direct is not None and self._direct.merges else []

    def add(self, entry: Entry, identity: Identity) -> None:
        """Publish a batch, unless it is published."""
        if self._direct is None:
            rows = self._session.createDataFrame([entry.as_row()], manifest.SCHEMA)
            path = self._table.path
            self._committer.append_once(self._session, path, manifest.SCHEMA, rows, identity)
        else:
            direct = self._direct
            if not self._table.exists():
                schema = Schema.from_json(_schema().json())
                DeltaTable.create(direct.folder, schema, mode="ignore")
                self._table.make_lasting(0)
            self._committer.once(direct, identity, lambda: direct.append(_row(entry), _ONE_ROW))


def _row(entry: Entry) -> pa.Table:
    schema = to_arrow_schema(_schema(), timezone="UTC")
    return pa.Table.from_pylist([entry.as_row()], schema=schema)


@cache
def _schema() -> StructType:
    return StructType.fromJson(fields_json(manifest.SCHEMA))
