"""What of a change log flows have still to read, by their checkpoints: upkeep removes nothing of it."""

from __future__ import annotations

import json

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.model.topics import TableId


def first_unread(pipeline: Pipeline, path: str, table_id: str) -> int | None:
    """The lowest version that a flow of the pipeline file has not read whole. ``path``, ``table_id``: of the log. None where no flow
    that has begun reads it.
    """
    found = []
    for name, flow in pipeline.flows.items():
        asked = [one.change_log for one in flow.inputs.values() if one.change_log]
        if path in [pipeline.change_log_path(TableId.parse(one)) for one in asked]:
            folder = FlowFolder(pipeline, name)
            record = folder.record()
            reached = _reached(folder, record, table_id) if record else None
            if reached is not None:
                found.append(reached)
    return min(found, default=None)


def _reached(folder: FlowFolder, record: FlowRecord, table_id: str) -> int | None:
    """By the newest batch that Spark has noted as done: the version that its end lies in."""
    checkpoint = f"checkpoint-{record.generation}"
    done = [int(n) for n in folder.files.names(f"{checkpoint}/commits") if n.isdigit()]
    # Before the first is done, what it is to read is what it needs.
    text = folder.files.read(f"{checkpoint}/offsets/{max(done, default=0)}")
    for line in (text or "").splitlines()[2:]:
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("reservoirId") == table_id:
            return int(said["reservoirVersion"])
    return None
