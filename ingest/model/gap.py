"""Gaps: what the lake is known to lack of a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.model import reasons
from ingest.model.position import Position
from ingest.model.topics import TableId, table_or_topic


@dataclass(frozen=True)
class Gap:
    """Records that Kafka lost before they were applied: the half-open offset range, and why.

    ``since``: the batch that recorded it. ``resync``: the position from which the table was taken
    again, which is what closes a gap; None while it is open. ``position``: the table's newest position when the gap was
    recorded, a snapshot's that was known by then included. Reading the table again closes the gap only where MySQL was read
    at this position or later. ``table``: the topic's name where nobody knew which table it carries.
    """

    table: str
    topic: str
    partition: int
    start: int
    end: int
    reason: str
    since: int
    resync: Position | None = None
    position: Position | None = None

    @property
    def is_open(self) -> bool:
        """True until the gap is closed: the table was read from MySQL again."""
        return self.resync is None

    def makes_void(self, table: str, asked_after: int) -> bool:
        """Whether a request to read ``table`` again is void because of this gap: it was made, behind batch ``asked_after``, before the gap was recorded, so
        rows that it brought may be among those that are lost.
        """
        older = self.since > asked_after
        return self.is_open and self.table == table and older and reasons.voids(self.reason)

    @property
    def by_hand(self) -> bool:
        """True where a person gave changes up: only a person has the table taken again."""
        return reasons.DROPPED.is_in(self.reason)

    @property
    def is_untold(self) -> bool:
        """True where the connector may not know the table's columns, as it has joined later or got its name from a table that is
        left out, and it was not taken whole yet.
        """
        untold = (reasons.JOINED, reasons.UNKNOWN_COLUMNS, reasons.GUESSED_COLUMNS)
        return self.is_open and any(one.is_in(self.reason) for one in untold)

    @property
    def is_incomplete(self) -> bool:
        """True where the table has rows of before it was followed, and was not taken whole yet."""
        return self.is_untold or (self.is_open and reasons.FIRST_ROWS.is_in(self.reason))

    @property
    def of(self) -> TableId | None:
        """The table; None where only the topic is known, so that none can be taken again."""
        return table_or_topic(self.table)
