"""Gathers what `ingest plan` decides from: the connector, the schema-change topic, the lake's log. No Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.delta.delta_snapshot import asked_of_writers
from ingest.lake.engines.engine_choice import Choice, MergeFacts, choose
from ingest.lake.engines.registry import ENGINES
from ingest.lake.files.location import delta_rs_folder, local_folder
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.names import KEY_PROPERTY, RESERVED_COLUMN
from ingest.model.topics import TableId, captured
from ingest.observe.lake_plan import (
    Effect,
    HeldTable,
    effects,
    of_patterns,
    of_policies,
    of_targets,
)
from ingest.schema import ddl_policy
from ingest.schema.catalog import Catalog
from ingest.source import connector, mysql
from ingest.source.epoch_registry import EpochRegistry
from ingest.targets import registry

_DELTA_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""Delta's own names of types to Spark's, where they differ."""


@dataclass(frozen=True)
class PipelinePlan:
    """What the connector will be told, what becomes of the lake, and which engine merges a small batch into
    each table.
    """

    connector: connector.Plan
    effects: tuple[Effect, ...]
    engines: Mapping[str, Choice]
    targets: Mapping[str, str] = field(default_factory=dict)
    """What tables are kept as that are not simply mirrored."""

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "connector": {
                "action": self.connector.action,
                "settings": [key for key, _, _ in self.connector.changes],
            },
            "lake": [effect.as_json() for effect in self.effects],
            "merges": {
                name: {"engine": choice.engine, "because": choice.because}
                for name, choice in self.engines.items()
            },
            "targets": dict(self.targets),
        }


def gather(pipeline: Pipeline) -> PipelinePlan:
    """Look, and change nothing. Raises :class:`IngestError` when a server is away."""
    broker.refuse_away(pipeline)
    schemas = broker.SchemaTopic(pipeline, EpochRegistry(pipeline).known())
    try:
        schemas.read_to_end()
    finally:
        schemas.close()
    newest = Ledger(pipeline.lake.path).last()
    states = newest.tables if newest else {}
    tables = {name: _held(state.path) for name, state in states.items()}
    held = {name: table for name, table in tables.items() if table}
    engines = {
        name: _engine(pipeline, table, schemas.catalog, name) for name, table in held.items()
    }
    keyed = {TableId.parse(name) for name in held if _key(schemas.catalog, name, held[name])}
    with mysql.connected(pipeline.source) as cursor:
        taken = captured(mysql.base_tables(cursor), pipeline.source.tables)
    known = sorted(schemas.catalog.versions)
    catalog, barriers = ddl_policy.governed(schemas.catalog, states, pipeline.rules)
    found = [
        *effects(catalog, states, held, pipeline.lake.profile, barriers),
        *of_policies(states, barriers, pipeline.rules),
        *of_targets(
            held,
            lambda table: pipeline.target(table, keyed=table in keyed),
            lambda table: pipeline.unfit(table, keyed=table in keyed),
        ),
        *of_patterns(taken, known, sorted(held)),
    ]
    kept_as = {
        name: pipeline.target(TableId.parse(name), keyed=TableId.parse(name) in keyed)
        for name in held
    }
    targets = {name: target.name for name, target in kept_as.items() if not target.default}
    return PipelinePlan(connector.Connector(pipeline).plan(), tuple(found), engines, targets)


def _engine(pipeline: Pipeline, held: HeldTable, catalog: Catalog, name: str) -> Choice:
    key = _key(catalog, name, held)
    facts = MergeFacts(
        pipeline.spark.merge_engine,
        pipeline.lake.profile,
        held.reachable,
        held.features,
        held.bytes,
        key=tuple(held.columns[column] for column in key if column in held.columns),
    )
    return choose(ENGINES, facts)


def _key(catalog: Catalog, name: str, held: HeldTable) -> tuple[str, ...]:
    """The primary key, or the unique key that stands for it in the lake."""
    versions = catalog.versions.get(TableId.parse(name), ())
    dropped = any(version.key == held.key for version in versions)
    newest = versions[-1].key if versions else ()
    return newest or (() if dropped else held.key)


def _held(path: str) -> HeldTable | None:
    try:
        with _readable(path) as place:
            table = DeltaTable(place)
    except TableNotFoundError:
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    own = next(field for field in fields if field["name"] == RESERVED_COLUMN)
    actions = pa.table(table.get_add_actions(flatten=True))
    sizes, rows = actions.column("size_bytes"), actions.column("num_records")
    asked = table.protocol()
    multiset = any(part["name"] == "content" for part in own["type"]["fields"])
    return HeldTable(
        {f["name"]: _spark_name(f["type"]) for f in fields if f["name"] != RESERVED_COLUMN},
        multiset,
        int(pc.sum(rows).as_py() or 0),
        int(pc.sum(sizes).as_py() or 0),
        asked_of_writers(asked.min_writer_version, asked.reader_features, asked.writer_features),
        delta_rs_folder(path) is not None,
        registry.noted(table.metadata().configuration, keyed=not multiset),
        tuple(json.loads(table.metadata().configuration.get(KEY_PROPERTY, "[]"))),
    )


@contextmanager
def _readable(path: str) -> Iterator[str]:
    """Where delta-rs can read a table's log: there, or in a copy under a name that it takes."""
    folder = local_folder(path)
    if folder is None or folder == delta_rs_folder(path) or not (folder / "_delta_log").is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ingest-plan-") as copy:
        shutil.copytree(folder / "_delta_log", Path(copy) / "_delta_log")
        yield copy


def _spark_name(delta: Any) -> str:
    if isinstance(delta, str):
        return _DELTA_NAMES.get(delta, delta)
    inner = ",".join(f"{f['name']}:{_spark_name(f['type'])}" for f in delta["fields"])
    return f"struct<{inner}>"
