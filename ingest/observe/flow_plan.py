"""What a changed pipeline file does to flows, as far as that is known without Spark. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ingest.config.flow_settings import Flow
from ingest.flows.flow_record import FlowRecord
from ingest.model.names import table_folder
from ingest.model.topics import TableId
from ingest.observe.lake_plan import Effect


def of_flows(
    flows: Mapping[str, Flow],
    records: Mapping[str, FlowRecord | None],
    digests: Mapping[str, str],
    tables: Collection[TableId],
    logs: Callable[[TableId], bool],
) -> list[Effect]:
    """``records``: by flow, what it was made of; ``digests``: of their functions' sources now; ``tables``: of the source, as the pipeline
    file takes them; ``logs``: whether a table has a change log.
    """
    folders = {table_folder(one.database, one.name): one for one in tables}
    found = []
    for name, flow in flows.items():
        shown = f"flow {name}"
        refused = [
            *_without_log(flow, logs),
            *_without_copy(flow, tables),
            *_in_place_of(flow, folders),
        ]
        found += [Effect(shown, "flows", ("refused",), why) for why in refused]
        if refused:
            continue
        record = records.get(name)
        if record is None:
            found.append(Effect(shown, "flows", ("nothing",), _begins(flow)))
        else:
            found += _changed(shown, flow, record, digests.get(name, ""))
    return found


def _begins(flow: Flow) -> str:
    if flow.totals:
        tables = ", ".join(one.change_log or "" for one in flow.inputs.values())
        return f"begins: computes its totals of {tables}, and keeps them right"
    streams = "; ".join(
        f"{one.place} from its {'end' if one.starting == 'latest' else 'beginning'}"
        for one in flow.inputs.values()
        if one.streams
    )
    joined = ", ".join(one.place for one in flow.inputs.values() if not one.streams)
    return f"begins: reads {streams}" + (f"; joined with {joined}" if joined else "")


def _without_log(flow: Flow, logs: Callable[[TableId], bool]) -> list[str]:
    asked = [one.logged for one in flow.inputs.values() if one.logged]
    return [
        f"{name} has no change log: say `targets: [mirror, change_log]` of it"
        for name in asked
        if not logs(TableId.parse(name))
    ]


def _without_copy(flow: Flow, tables: Collection[TableId]) -> list[str]:
    asked = [one.table for one in flow.inputs.values() if one.table]
    return [
        f"{name}, which it is joined with, is not among the tables that the pipeline takes"
        for name in asked
        if TableId.parse(name) not in tables
    ]


def _in_place_of(flow: Flow, folders: Mapping[str, TableId]) -> list[str]:
    return [
        f"its table {sink.delta} would lie where the copy of {folders[sink.delta]} does: name another folder"
        for sink in flow.sinks
        if sink.delta is not None and sink.delta in folders
    ]


def _changed(shown: str, flow: Flow, record: FlowRecord, digest: str) -> list[Effect]:
    before = record.fingerprint
    named = {(name, place) for name, place in before.inputs if place}
    others = named - {(name, one.place) for name, one in flow.inputs.items()}
    if others or before.mode != flow.mode:
        what = "its inputs were changed" if others else "its mode was"
        if flow.on_change == "restart":
            again = f"{what}, and its state cannot follow: it begins again, and its tables are written anew"
            return [Effect(shown, "flows", ("rewrite",), again)]
        sentence = (
            f"{what}, and its state cannot follow: take that back, or say `on_change: restart`"
        )
        return [Effect(shown, "flows", ("refused",), sentence)]
    if before.function != digest:
        then = "begins again" if flow.on_change == "restart" else "is refused"
        sentence = (
            f"its function was changed: it goes on where its state can follow, and {then} where not"
        )
        return [Effect(shown, "flows", ("nothing",), sentence)]
    return []
