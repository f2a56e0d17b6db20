"""Gathers what is known of tables that only the lake has: from MySQL, the schema-change topic and the lake's logs. No Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.model.errors import IngestError
from ingest.model.manifest import TableState
from ingest.model.topics import TableId
from ingest.observe import held_tables, only_in_lake
from ingest.observe.only_in_lake import OnlyInLake
from ingest.schema import ddl_policy
from ingest.schema.catalog import Catalog
from ingest.source import mysql
from ingest.source.epoch_registry import EpochRegistry


def gather(pipeline: Pipeline, states: Mapping[str, TableState]) -> list[OnlyInLake]:
    """As it is now. While MySQL is away, what the connector has told last says which tables it has."""
    catalog = None
    try:
        with mysql.connected(pipeline.source) as cursor:
            there: Collection[TableId] = mysql.base_tables(cursor)
    except IngestError as failure:
        if not failure.may_pass:
            raise
        catalog = told(pipeline)
        there = not_dropped(catalog, states)
    if not only_in_lake.not_captured(states, pipeline.source.tables, there):
        return []
    waiting = not_applied(pipeline, states, catalog or told(pipeline))
    found = left(pipeline, states, there)
    return [one for one in found if one.keeps or one.name not in waiting]


def left(
    pipeline: Pipeline, states: Mapping[str, TableState], there: Collection[TableId]
) -> list[OnlyInLake]:
    """Tables of the manifest with rows that MySQL does not have (``there``: those it has) or the file does not take."""
    found = []
    for name, why in only_in_lake.not_captured(states, pipeline.source.tables, there).items():
        held = held_tables.held(states[name].path)
        if held is None:
            continue
        table = TableId.parse(name)
        one = only_in_lake.judged(
            name,
            why,
            held_tables.live(states[name].path, held),
            states[name],
            pipeline.rules(table),
            outlives=pipeline.target(table, keyed=not held.multiset).outlives,
        )
        found += [one] if one else []
    return found


def not_dropped(catalog: Catalog, states: Mapping[str, TableState]) -> list[TableId]:
    """Of the manifest's tables those that the connector has not told to be dropped."""
    tables = [TableId.parse(name) for name in states]
    there = {version.table for version in catalog.current()}
    return [one for one in tables if one not in catalog.versions or one in there]


def not_applied(
    pipeline: Pipeline, states: Mapping[str, TableState], catalog: Catalog
) -> dict[str, str]:
    """Tables whose rows may still go by a DDL that the job has not applied yet, each with the statement."""
    followed, barriers = ddl_policy.governed(catalog, states, pipeline.rules)
    return only_in_lake.not_applied(catalog, followed, states, barriers)


def told(pipeline: Pipeline) -> Catalog:
    """All that the connector has told of tables. Raises :class:`IngestError` while Kafka is away."""
    schemas = broker.SchemaTopic(pipeline, EpochRegistry(pipeline).known())
    try:
        schemas.read_to_end()
    finally:
        schemas.close()
    return schemas.catalog
