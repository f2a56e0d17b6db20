"""A change log as a Delta table: made, given a field more, and asked how far it is (``schema.change_log`` says what is in it)."""

from __future__ import annotations

import json

from delta.tables import DeltaTable
from deltalake import Schema
from pyspark.sql.types import StructType

from ingest.lake.delta import schema_commit
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_features import LOCAL_TIMES, with_feature
from ingest.lake.files.object_files import made
from ingest.model.topics import TableId
from ingest.schema.change_log import COLUMNS_PROPERTY, LOG_PROPERTY, STATISTICS, LogColumns


def create(log: SparkTable, of: TableId, columns: LogColumns) -> None:
    """An empty one, of a source's table. Where delta-rs finds it without Spark, as ``SparkTable.create``."""
    properties = {LOG_PROPERTY: str(of), **STATISTICS, **columns.properties}
    if log.place is not None:
        made(log.place, Schema.from_json(json.dumps(columns.schema)), properties)
    else:
        builder = DeltaTable.createIfNotExists(log.session).location(log.path)
        builder = builder.addColumns(StructType.fromJson(columns.schema))
        for name, text in properties.items():
            builder = builder.property(name, text)
        builder.execute()
    log.make_lasting(0)


def columns_of(log: SparkTable, direct: DeltaRsTable | None) -> LogColumns:
    """Its columns now. ``direct``: the same, where it is read by its log. Raises ``KeyError`` or ``ValueError`` for what is no change log."""
    if direct is not None:
        direct.version()
        return LogColumns.of(direct.state.metadata["schemaString"], direct.state.configuration)
    said = log.property_of(COLUMNS_PROPERTY)
    return LogColumns.of(log.schema_json(), {COLUMNS_PROPERTY: said or ""})


def grow(log: SparkTable, direct: DeltaRsTable | None, columns: LogColumns) -> None:
    """Give it these columns, by a commit that writes no data, under the identity that stands in the one that commits."""
    if direct is None:
        if columns.has_local_times:
            log.allow_local_times()
        schema_commit.replace(log.session, log.path, columns.schema, columns.properties)
        return
    was = direct.state
    now = with_feature(was.protocol, LOCAL_TIMES) if columns.has_local_times else was.protocol
    text = json.dumps(columns.schema)
    changed = {
        "schemaString": text,
        "configuration": {**was.configuration, **columns.properties},
    }
    asked = None if now is was.protocol else now
    direct.describe(changed, "CHANGE COLUMNS", {"columns": text}, asked, marked=True)


def is_one(table: SparkTable) -> bool:
    """Whether a table that is there is a change log."""
    return table.property_of(LOG_PROPERTY) is not None
