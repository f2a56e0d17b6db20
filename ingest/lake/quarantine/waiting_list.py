"""What waits in a lake's quarantine, for people: per table and reason, how many changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.lake.delta.delta_sql import queried
from ingest.model.names import quarantine_path
from ingest.model.topics import TableId


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
    groups = queried(
        table,
        'SELECT database, "table", topic, reason, count(*) AS changes FROM rows WHERE settled IS NULL '
        'GROUP BY database, "table", topic, reason',
    )
    found = [
        Waiting(
            str(TableId(group["database"], group["table"])) if group["table"] else group["topic"],
            group["reason"],
            group["changes"],
        )
        for group in groups
    ]
    return sorted(found, key=lambda one: (one.table, one.reason))
