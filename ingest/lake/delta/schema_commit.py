"""A table's columns changed in one commit that writes no data.

Delta's own ALTER TABLE renames, drops or widens one column a commit and takes no identity; a crash
between two of them would leave names that say neither what was nor what is to be. A transaction of
Delta's is given the whole new schema instead, and the identity that stands in the session's
configuration, where Delta's other commands take it from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from ingest.model.names import RESERVED_COLUMN
from ingest.schema.delta_types import type_json
from ingest.schema.evolution import Field

APP_ID = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
"""Where a commit's identity stands (``tests/capability/test_delta.py``)."""


def delta_log(session: SparkSession, path: str) -> Any:
    """Delta's own object for a table's log, with the session active in this thread.

    A command of Spark's sees to that itself. Delta's objects do not: they read a checkpoint, and take the note of a
    commit, by the session that is active in the thread that asks, and fail in a thread that has none.
    """
    jvm: Any = session._jvm
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession$")
    getattr(sessions, "MODULE$").setActiveSession(session._jsparkSession)
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)


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
    jvm: Any = session._jvm
    delta = jvm.org.apache.spark.sql.delta
    none = jvm.scala.Option.empty()
    transaction = delta_log(session, path).startTransaction(none, none)
    app, version = session.conf.get(APP_ID), int(session.conf.get(VERSION) or 0)
    # Asked for, so that Delta notes that we rely on it: a successor's fence is then a conflict.
    if transaction.txnVersion(app) >= version:
        return
    held = transaction.metadata()
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
    transaction.updateMetadata(changed, False)
    now = jvm.scala.Option.apply(int(time.time() * 1000))
    actions = jvm.java.util.ArrayList()
    actions.add(delta.actions.SetTransaction(app, version, now))
    actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
    operation = getattr(delta, "DeltaOperations$UpdateSchema")
    schemas = held.schema(), transaction.metadata().schema()
    transaction.commit(actions, operation(*schemas))


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
