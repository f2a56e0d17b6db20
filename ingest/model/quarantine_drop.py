"""Changes in quarantine that a person gives up: which, and what is left of them. Values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.position import Position
from ingest.model.topics import TableId, table_or_topic


@dataclass(frozen=True)
class Drop:
    """Which changes that wait. ``table``: as ``ingest quarantine list`` has it, which is the topic's name where a record
    could not be read. ``upto``: set aside by this batch or an earlier one, so that none goes which nobody has looked at.
    ``on``: the day, as 2026-01-31. ``reason``: how it begins. ``partition``: None for any. ``first``, ``last``: Kafka
    offsets, both included; ``last`` None for no end. ``at``: where MySQL's log ended by then: what is read of the table
    from there on holds whatever was in these changes.
    """

    table: str
    upto: int
    on: str
    reason: str = ""
    partition: int | None = None
    first: int = 0
    last: int | None = None
    at: Position | None = None

    @property
    def of(self) -> TableId | None:
        """The table; None where the records name none, and ``table`` is a topic."""
        return table_or_topic(self.table)

    def takes(self, table: str, partition: int, offset: int, reason: str, batch_id: int) -> bool:
        """Whether such a change is one of them; ``quarantine_rows.chosen`` says the same to Spark."""
        return (
            table == self.table
            and reason.startswith(self.reason)
            and self.partition in (None, partition)
            and self.first <= offset
            and (self.last is None or offset <= self.last)
            and batch_id <= self.upto
        )

    def as_dict(self) -> dict[str, Any]:
        """For a note."""
        return {**asdict(self), "at": self.at.as_dict() if self.at else None}

    @classmethod
    def from_mapping(cls, found: Mapping[str, Any]) -> Drop:
        """The inverse."""
        at = found["at"]
        return cls(**{**found, "at": Position.from_mapping(at) if at else None})


@dataclass(frozen=True)
class Dropped:
    """What was given up of one partition of a topic. ``table``: None where the records name none. ``first``, ``last``:
    offsets, both included.
    """

    table: TableId | None
    topic: str
    partition: int
    first: int
    last: int
    changes: int


def gaps(
    drop: Drop, dropped: Iterable[Dropped], batch_id: int, tables: Mapping[str, str]
) -> list[Gap]:
    """The lasting mark: a gap of each table, open until the table was read again after that. ``tables``: topic to
    table, of those that are known.
    """
    return [
        Gap(
            str(one.table) if one.table else tables.get(one.topic, one.topic),
            one.topic,
            one.partition,
            one.first,
            one.last + 1,
            reasons.DROPPED.of(on=drop.on, changes=one.changes),
            batch_id,
            position=drop.at,
        )
        for one in dropped
    ]
