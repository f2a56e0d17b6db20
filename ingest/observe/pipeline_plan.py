"""Gathers what `ingest plan` decides from: the connector, the schema-change topic, the lake's log. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.config.pipeline_file import Pipeline
from ingest.flows import flow_function
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.kafka import broker
from ingest.lake.engines.engine_choice import Choice, MergeFacts, choose
from ingest.lake.engines.registry import ENGINES
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import TableState
from ingest.model.topics import TableId, captured
from ingest.observe import held_tables, left_tables
from ingest.observe.flow_plan import of_flows
from ingest.observe.lake_plan import (
    Effect,
    HeldTable,
    effects,
    of_left,
    of_logs,
    of_patterns,
    of_policies,
    of_targets,
    of_unmatched,
)
from ingest.schema import ddl_policy
from ingest.schema.catalog import Catalog
from ingest.source import connector, first_rows, mysql
from ingest.targets.target import Target


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
    told = left_tables.told(pipeline)
    newest = Ledger(pipeline.lake.path).last()
    states = newest.tables if newest else {}
    tables = {name: held_tables.held(state.path) for name, state in states.items()}
    held = {name: table for name, table in tables.items() if table}
    engines = {name: _engine(pipeline, table, told, name) for name, table in held.items()}
    keyed = {TableId.parse(name) for name in held if _key(told, name, held[name])}
    kept_as = {
        name: pipeline.target(TableId.parse(name), keyed=TableId.parse(name) in keyed)
        for name in held
    }
    held = {
        name: replace(one, target=_was(pipeline, name, one), outlives=kept_as[name].outlives)
        for name, one in held.items()
    }
    with mysql.connected(pipeline.source) as cursor:
        there = mysql.base_tables(cursor)
    known = sorted(told.versions)
    catalog, barriers = ddl_policy.governed(told, states, pipeline.rules)
    pending = effects(catalog, states, held, pipeline.lake.profile, barriers)
    left = left_tables.left(pipeline, states, there)
    taken = captured(there, pipeline.source.tables)
    found = [
        *pending,
        *of_policies(states, barriers, pipeline.rules),
        *of_targets(
            held,
            lambda table: kept_as[str(table)],
            lambda table: pipeline.unfit(table, keyed=table in keyed),
        ),
        *of_logs(states, pipeline.logs, pipeline.change_log_path, _in_kafka(pipeline, states)),
        *of_patterns(taken, known),
        *of_unmatched(pipeline.unmatched(taken)),
        *of_left(left, {effect.table for effect in pending}),
        *_of_flows(pipeline, taken),
    ]
    targets = {name: target.name for name, target in kept_as.items() if not target.default}
    its = connector.Connector(pipeline)
    first_rows.foresee(pipeline, its)
    return PipelinePlan(its.plan(), tuple(found), engines, targets)


def _in_kafka(
    pipeline: Pipeline, states: Mapping[str, TableState]
) -> Callable[[TableId], tuple[int, int] | None]:
    """As ``of_logs`` wants it: of logs that hold nothing. Kafka is asked for the topics of those alone."""
    named = [table for table in map(TableId.parse, states) if pipeline.logs(table)]
    wanted = [table for table in named if pipeline.change_log_from(table) == "kafka"]
    filled = [table for table in wanted if not held_tables.rows(pipeline.change_log_path(table))]
    topics = {pipeline.topic(table): table for table in filled}
    spans = broker.spans(pipeline, topics) if topics else {}
    found = dict.fromkeys(filled, (0, 0))
    for (topic, _), (start, end) in spans.items():
        records, gone = found[topics[topic]]
        found[topics[topic]] = (records + end - start, gone + start)
    return found.get


def _of_flows(pipeline: Pipeline, tables: Collection[TableId]) -> list[Effect]:
    """Raises :class:`IngestError` where a function's file cannot be read."""
    digests, records = dict[str, str](), dict[str, FlowRecord | None]()
    for name, flow in pipeline.flows.items():
        digests[name] = flow_function.digest_of(name, flow)
        records[name] = FlowFolder(pipeline, name).record()
    return of_flows(pipeline.flows, records, digests, tables, pipeline.logs)


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


def _was(pipeline: Pipeline, name: str, held: HeldTable) -> Target | None:
    """What it was last written as."""
    return (
        held.target
        if held.noted
        else pipeline.noted({}, TableId.parse(name), keyed=not held.multiset)
    )


def _key(catalog: Catalog, name: str, held: HeldTable) -> tuple[str, ...]:
    """The primary key, or the unique key that stands for it in the lake."""
    versions = catalog.versions.get(TableId.parse(name), ())
    dropped = any(version.key == held.key for version in versions)
    newest = versions[-1].key if versions else ()
    return newest or (() if dropped else held.key)
