"""One table that is to be taken again, as it is kept in the lake until that is done. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from ingest.model.position import Position
from ingest.model.topics import TableId

Kind = Literal["INCREMENTAL", "BLOCKING"]


@dataclass(frozen=True)
class Request:
    """One table to take again. ``below``: where MySQL's log ended when it was asked for. ``heard``: where
    the connector's notifications ended then; those of a blocking snapshot do not name the request. ``select``: what a
    blocking snapshot is to read, where Debezium's own statement would not do. ``sent``: when it was sent last, in
    seconds since 1970. ``after``: the manifest's newest batch when it was asked for; 0 where an earlier version asked.
    ``snapshot``: the newest snapshot of the table that was settled then. ``untold``: before its rows are asked for, the
    connector is to read the table's definition.
    """

    id: str
    table: str
    kind: Kind
    below: Position
    heard: int = 0
    select: str = ""
    sent: float = 0.0
    after: int = 0
    snapshot: Position | None = None
    untold: bool = False

    @property
    def blocks(self) -> bool:
        """True where the stream waits for what is asked for next: for a table's rows, or for its definition alone."""
        return self.kind == "BLOCKING" or self.untold

    @property
    def collection(self) -> str:
        """The table as Debezium names it."""
        table = TableId.parse(self.table)
        return f"{table.database}.{table.name}"

    def as_json(self) -> str:
        """The text of its file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The inverse."""
        found = json.loads(text)
        settled = found.get("snapshot")
        places = {
            "below": Position.from_mapping(found["below"]),
            "snapshot": Position.from_mapping(settled) if settled else None,
        }
        return cls(**{**found, **places})
