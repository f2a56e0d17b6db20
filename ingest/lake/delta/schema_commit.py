"""A table's columns changed in one commit that writes no data.

Delta's own ALTER TABLE renames, drops or widens one column a commit and takes no identity; a crash
between two of them would leave names that say neither what was nor what is to be. A transaction of
Delta's is given the whole new schema instead, and the identity that stands in the session's
configuration, where Delta's other commands take it from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from ingest.lake.delta.spark_transaction import SparkTransaction
from ingest.model.names import RESERVED_COLUMN
from ingest.schema.delta_types import type_json
from ingest.schema.evolution import Field


def commit(session: SparkSession, path: str, columns: Sequence[Field]) -> None:
    """Give the table exactly these columns and the reserved one. A field with an origin is that very
    column, its values included, under a new name or in a wider type; one without is new, and NULL.
    """
    _commit(session, path, lambda held: changed_schema(held, columns), {})


def replace(
    session: SparkSession, path: str, schema: Mapping[str, Any], properties: Mapping[str, str]
) -> None:
    """Give the table this schema (Delta's JSON), and these properties besides its own."""
    _commit(session, path, lambda _: schema, properties)


def _commit(
    session: SparkSession,
    path: str,
    changed_to: Callable[[dict[str, Any]], Mapping[str, Any]],
    properties: Mapping[str, str],
) -> None:
    transaction = SparkTransaction(session, path)
    app, version = transaction.identity
    # Asked for, so that Delta notes that we rely on it: a successor's fence is then a conflict.
    if transaction.of.txnVersion(app) >= version:
        return
    held = transaction.of.metadata()
    configuration = held.configuration()
    for name, text in properties.items():
        configuration = configuration.updated(name, text)
    changed = held.copy(
        held.id(),
        held.name(),
        held.description(),
        held.format(),
        json.dumps(changed_to(json.loads(held.schemaString()))),
        held.partitionColumns(),
        configuration,
        held.createdTime(),
    )
    transaction.of.updateMetadata(changed, False)
    schemas = held.schema(), transaction.of.metadata().schema()
    operation = transaction.operation("UpdateSchema")(*schemas)
    transaction.commit([transaction.marker(app, version)], operation)


def changed_schema(held: dict[str, Any], columns: Sequence[Field]) -> dict[str, Any]:
    """Delta's JSON of the new schema from its JSON of the old one."""
    old = {field["name"]: field for field in held["fields"]}
    fields = [_field(old.get(column.origin or ""), column) for column in columns]
    return {**held, "fields": [*fields, old[RESERVED_COLUMN]]}


def _field(old: dict[str, Any] | None, column: Field) -> dict[str, Any]:
    new = type_json(column.delta)
    if old is None:
        return {"name": column.name, "type": new, "nullable": True, "metadata": {}}
    metadata = dict(old["metadata"])
    if new != old["type"]:
        before = metadata.get("delta.typeChanges", [])
        change = {"fromType": old["type"], "toType": new}
        metadata["delta.typeChanges"] = [*before, change]
    return {**old, "name": column.name, "type": new, "metadata": metadata}
