"""What waits in a lake's quarantine, for people: per table and reason, how many changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.names import quarantine_path
from ingest.topics import TableId


@dataclass(frozen=True)
class Waiting:
    """Changes of one table that wait for one reason; ``table`` is a topic's name where the record could
    not be read.
    """

    table: str
    reason: str
    changes: int

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


def waiting_list(lake: str) -> list[Waiting]:
    """All of it, in order of table and reason; empty where nothing waits."""
    try:
        table = DeltaTable(quarantine_path(lake))
    except TableNotFoundError:
        return []
    columns = ["database", "table", "topic", "reason", "settled"]
    rows = table.to_pyarrow_table(columns=columns)
    rows = rows.filter(pc.is_null(rows["settled"]))
    groups = rows.group_by(columns[:4]).aggregate([([], "count_all")]).to_pylist()
    found = [
        Waiting(
            str(TableId(group["database"], group["table"])) if group["table"] else group["topic"],
            group["reason"],
            group["count_all"],
        )
        for group in groups
    ]
    return sorted(found, key=lambda one: (one.table, one.reason))
