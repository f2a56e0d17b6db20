"""The manifest: the ledger of batches, a Delta table written once per batch, last.

It says which Kafka offsets a batch took, how far in the source's log it reached, and which version
of which table holds the result. A batch is published when its row is here; a table version newer
than the newest row belongs to a batch that is still being applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingest.position import SQL_TYPE, Position

SCHEMA = (
    "batch_id bigint, checkpoint_id string, "
    "offsets array<struct<topic: string, partition: int, start: bigint, end: bigint>>, "
    f"high_water array<struct<topic: string, partition: int, position: {SQL_TYPE}>>, "
    "tables array<struct<name: string, path: string, version: bigint, changes: bigint, "
    f"position: {SQL_TYPE}>>, "
    "changes bigint, rejects bigint, "
    f"position {SQL_TYPE}, source_time timestamp, schema_offset bigint, "
    "started_at timestamp, seconds double, code_version string"
)
"""One row per batch. ``offsets`` are half-open ranges of every partition so far, empty for those
that did not move, so one row alone says where each goes on; ``high_water`` and ``tables`` are
cumulative too."""


@dataclass(frozen=True)
class TableState:
    """A mirror as a batch left it."""

    path: str
    version: int
    changes: int = 0
    """Changes of this batch; 0 for a table that it did not touch."""
    position: Position | None = None
    """The newest position applied so far, snapshot rows included."""


@dataclass(frozen=True)
class Entry:
    """One batch of the ledger."""

    batch_id: int
    checkpoint_id: str
    offsets: Mapping[tuple[str, int], tuple[int, int]]
    high_water: Mapping[tuple[str, int], Position]
    tables: Mapping[str, TableState]
    changes: int
    rejects: int
    position: Position | None
    source_time: datetime | None
    schema_offset: int
    started_at: datetime
    seconds: float
    code_version: str = field(default="")

    def as_row(self) -> dict[str, Any]:
        """For Spark, in the shape of :data:`SCHEMA`."""
        return {
            "batch_id": self.batch_id,
            "checkpoint_id": self.checkpoint_id,
            "offsets": [
                {"topic": t, "partition": p, "start": start, "end": end}
                for (t, p), (start, end) in sorted(self.offsets.items())
            ],
            "high_water": [
                {"topic": t, "partition": p, "position": position.as_dict()}
                for (t, p), position in sorted(self.high_water.items())
            ],
            "tables": [
                {
                    "name": n,
                    "path": s.path,
                    "version": s.version,
                    "changes": s.changes,
                    "position": s.position.as_dict() if s.position else None,
                }
                for n, s in sorted(self.tables.items())
            ],
            "changes": self.changes,
            "rejects": self.rejects,
            "position": self.position.as_dict() if self.position else None,
            "source_time": self.source_time,
            "schema_offset": self.schema_offset,
            "started_at": self.started_at,
            "seconds": self.seconds,
            "code_version": self.code_version,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Entry:
        """From a row as Spark (``asDict(recursive=True)``) or Arrow gives it."""
        return cls(
            batch_id=row["batch_id"],
            checkpoint_id=row["checkpoint_id"],
            offsets={
                (o["topic"], o["partition"]): (o["start"], o["end"]) for o in row["offsets"] or ()
            },
            high_water={
                (h["topic"], h["partition"]): Position.from_mapping(h["position"])
                for h in row["high_water"] or ()
            },
            tables={
                t["name"]: TableState(
                    t["path"],
                    t["version"],
                    t["changes"],
                    Position.from_mapping(t["position"]) if t["position"] else None,
                )
                for t in row["tables"] or ()
            },
            changes=row["changes"],
            rejects=row["rejects"],
            position=Position.from_mapping(row["position"]) if row["position"] else None,
            source_time=row["source_time"],
            schema_offset=row["schema_offset"],
            started_at=row["started_at"],
            seconds=row["seconds"],
            code_version=row["code_version"] or "",
        )


def offsets_from_log(text: str) -> dict[tuple[str, int], int]:
    """Kafka end offsets from a file of Spark's offset log (``checkpoint/offsets/<batch>``).

    The file holds a version line, a metadata line and one JSON line per source; ours has one.
    Raises ``ValueError`` when it is torn.
    """
    lines = text.splitlines()
    if len(lines) < 3 or not lines[0].startswith("v"):
        raise ValueError("the offset log file is torn")
    return offsets_from_json(lines[2])


def offsets_from_json(text: str) -> dict[tuple[str, int], int]:
    """``{"topic": {"0": 12}}`` as Spark's Kafka source writes it."""
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def ranges(
    before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], tuple[int, int]]:
    """The half-open ranges between two offset maps; a partition new in ``after`` starts at 0."""
    return {place: (before.get(place, 0), end) for place, end in after.items()}
