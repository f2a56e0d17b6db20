"""What of a change log flows have still to read, by their checkpoints: upkeep removes nothing of it."""

from __future__ import annotations

import json

from ingest.config.pipeline_file import Pipeline
from ingest.flows import inputs
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord


def first_unread(pipeline: Pipeline, path: str, table_id: str) -> int | None:
    """The lowest version that a flow of the pipeline file has not read whole. ``path``, ``table_id``: of the log. None where no flow
    that has begun reads it.
    """
    found = []
    for name, flow in pipeline.flows.items():
        logs = [inputs.log_path(pipeline, one) for one in flow.inputs.values() if one.change_log]
        if path in logs:
            folder = FlowFolder(pipeline, name)
            record = folder.record()
            reached = _reached(folder, record, table_id) if record else None
            if reached is not None:
                found.append(reached)
    return min(found, default=None)


def _reached(folder: FlowFolder, record: FlowRecord, table_id: str) -> int | None:
    """By the newest batch that Spark has noted as done: the version that its end lies in."""
    # Before the first is done, what it is to read is what it needs.
    for line in folder.offsets(record, max(folder.done(record), 0)):
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("reservoirId") == table_id:
            return int(said["reservoirVersion"])
    return None
