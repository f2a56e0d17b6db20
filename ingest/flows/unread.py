"""Which versions of the lake's tables flows still need, by their checkpoints and notes: upkeep removes nothing of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ingest.config.flow_settings import Flow
from ingest.config.pipeline_file import Pipeline
from ingest.flows import inputs
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.flows.joined_tables import joined, joined_with


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
    logs = [inputs.log_path(folder.pipeline, one) for one in flow.inputs.values() if one.change_log]
    is_joined = path in joined(folder.pipeline, flow)
    if path not in logs and not is_joined:
        return
    record = folder.record()
    if record is None:
        return
    if path in logs:
        reached = _reached(folder, record, table_id)
        if reached is not None:
            yield reached
    # A batch that is not done comes again, joined with the same.
    noted = joined_with(folder, record, folder.done(record) + 1) if is_joined else None
    if noted and path in noted:
        yield noted[path]


def _reached(folder: FlowFolder, record: FlowRecord, table_id: str) -> int | None:
    """By the newest batch that Spark has noted as done: the version that its end lies in."""
    # Before the first is done, what it is to read is what it needs.
    for line in folder.offsets(record, max(folder.done(record), 0)):
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("reservoirId") == table_id:
            return int(said["reservoirVersion"])
    return None
