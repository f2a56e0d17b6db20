"""What a flow's state holds, by Spark's own reader of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.flows.flow_folder import FlowFolder


@dataclass(frozen=True)
class OperatorState:
    """Of one operator. ``store``: an operator may have several; ``batch``: as of which; ``rows`` in ``partitions``; ``some``: a few of
    them, key and value.
    """

    operator: int
    name: str
    store: str
    batch: int
    partitions: int
    rows: int
    some: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def held(session: SparkSession, folder: FlowFolder, limit: int) -> list[OperatorState]:
    """Of a flow's checkpoint, as of its newest batch. Empty for one that has none, or keeps no state."""
    record = folder.record()
    if record is None:
        return []
    checkpoint = folder.checkpoint(record)
    if not folder.has_state(record):
        return []
    _ = (
        session.streams.active
    )  # makes what the reader asks for in a process that has streamed nothing yet
    found = []
    for row in session.read.format("state-metadata").load(checkpoint).collect():
        reader = session.read.format("statestore").option("operatorId", row.operatorId)
        if row.stateStoreName != "default":
            reader = reader.option("storeName", row.stateStoreName)
        rows = reader.load(checkpoint)
        shown = rows.select("key", "value") if {"key", "value"} <= {*rows.columns} else rows
        some = shown.limit(limit).select(F.to_json(F.struct("*")).alias("row")).collect()
        found.append(
            OperatorState(
                row.operatorId,
                row.operatorName,
                row.stateStoreName,
                row.maxBatchId,
                row.numPartitions,
                rows.count(),
                tuple({"row": one.row} for one in some),
            )
        )
    return found
