"""Gathers what `ingest plan` decides from: the connector, the schema-change topic, the lake's log. No Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest import connector, kafka, mysql, policy
from ingest.config import Pipeline
from ingest.epoch_registry import EpochRegistry
from ingest.lake_plan import Effect, HeldTable, effects, of_patterns, of_policies
from ingest.ledger import Ledger
from ingest.names import RESERVED_COLUMN
from ingest.topics import captured

_DELTA_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""Delta's own names of types to Spark's, where they differ."""


@dataclass(frozen=True)
class PipelinePlan:
    """What the connector will be told, and what becomes of the lake."""

    connector: connector.Plan
    effects: tuple[Effect, ...]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "connector": {
                "action": self.connector.action,
                "settings": [key for key, _, _ in self.connector.changes],
            },
            "lake": [effect.as_json() for effect in self.effects],
        }


def gather(pipeline: Pipeline) -> PipelinePlan:
    """Look, and change nothing. Raises :class:`IngestError` when a server is away."""
    kafka.refuse_away(pipeline)
    schemas = kafka.SchemaTopic(pipeline, EpochRegistry(pipeline).known())
    try:
        schemas.read_to_end()
    finally:
        schemas.close()
    newest = Ledger(pipeline.lake.path).last()
    states = dict(newest.tables) if newest else {}
    tables = {name: _held(state.path) for name, state in states.items()}
    held = {name: table for name, table in tables.items() if table}
    with mysql.connected(pipeline.source) as cursor:
        taken = captured(mysql.base_tables(cursor), pipeline.source.tables)
    known = sorted(schemas.catalog.versions)
    catalog, barriers = policy.governed(schemas.catalog, states, pipeline.rules)
    found = [
        *effects(catalog, states, held, pipeline.lake.profile, barriers),
        *of_policies(states, barriers, pipeline.rules),
        *of_patterns(taken, known, sorted(held)),
    ]
    return PipelinePlan(connector.Connector(pipeline).plan(), tuple(found))


def _held(path: str) -> HeldTable | None:
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    own = next(field for field in fields if field["name"] == RESERVED_COLUMN)
    actions = pa.table(table.get_add_actions(flatten=True))
    sizes, rows = actions.column("size_bytes"), actions.column("num_records")
    return HeldTable(
        {f["name"]: _spark_name(f["type"]) for f in fields if f["name"] != RESERVED_COLUMN},
        any(part["name"] == "content" for part in own["type"]["fields"]),
        int(pc.sum(rows).as_py() or 0),
        int(pc.sum(sizes).as_py() or 0),
    )


def _spark_name(delta: Any) -> str:
    if isinstance(delta, str):
        return _DELTA_NAMES.get(delta, delta)
    inner = ",".join(f"{f['name']}:{_spark_name(f['type'])}" for f in delta["fields"])
    return f"struct<{inner}>"
