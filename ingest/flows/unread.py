"""Which versions of the lake's tables flows still need, by their checkpoints and notes: upkeep removes nothing of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ingest.config.flow_settings import Flow
from ingest.config.pipeline_file import Pipeline
from ingest.flows.cut import Cut
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.flows.joined_tables import JoinedTables
from ingest.model.topics import TableId


def first_unread(pipeline: Pipeline, path: str, table_id: str) -> int | None:
    """The lowest version that a flow of the pipeline file has not read whole, or has joined a batch with that is not done. ``path``, ``table_id``: of the table. None
    where no flow that has begun needs one.
    """
    found = [
        version
        for name, flow in pipeline.flows.items()
        for version in _needed(FlowFolder(pipeline, name), flow, path, table_id)
    ]
    return min(found, default=None)


def _needed(folder: FlowFolder, flow: Flow, path: str, table_id: str) -> Iterator[int]:
    pipeline, joined = folder.pipeline, JoinedTables(folder, flow)
    tables = [TableId.parse(one.change_log) for one in flow.inputs.values() if one.change_log]
    is_read = path in map(pipeline.change_log_path, tables)
    is_joined = path in joined.paths
    is_summed = flow.totals is not None and path in map(pipeline.path, tables)
    record = folder.record() if is_read or is_joined or is_summed else None
    if record is None:
        return
    if is_read and (reached := _reached(folder, record, table_id)) is not None:
        yield reached
    # A batch that is not done comes again, joined with the same, or of the same cut.
    comes_again = folder.done(record) + 1
    if is_joined and path in (noted := joined.noted(record, comes_again) or {}):
        yield noted[path]
    if is_summed and (text := folder.noted(record, comes_again)):
        yield from (one.version for one in Cut.from_text(text).tables.values() if one.path == path)


def _reached(folder: FlowFolder, record: FlowRecord, table_id: str) -> int | None:
    """By the newest batch that Spark has noted as done: the version that its end lies in."""
    # Before the first is done, what it is to read is what it needs.
    for line in folder.offsets(record, max(folder.done(record), 0)):
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("reservoirId") == table_id:
            return int(said["reservoirVersion"])
    return None
