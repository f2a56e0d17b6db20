"""Streamed changes that stand where their topic partition was before: were they sent again, or are they others?

Debezium reads one log, so what a partition holds for the first time stands behind all that it held before. A change at
an earlier place was sent again, and is passed over (``dedup``). But for three cases, in which it may be another one:

- ``binlog_transaction_compression``: all rows of a transaction come with the place of the one event that holds them,
  and are counted from 0 in each statement. Two statements on one table tie, or go back.
- A binlog file beyond 4 GiB, which one transaction can make: the log's places are counted modulo 2^32.
- Another server took over in the middle of a transaction: its second half comes from a log in which the first half has
  other places, and only the transaction's name is the same. So with transactions of another tag (MySQL 8.3+): which of
  them were read before, no mark says.

Nothing in the messages tells the first two from a re-send with certainty: the same rows can be written twice by one
transaction. MySQL's own log tells (``binlog``). Where it does not, or not any more, nothing is guessed: the table is
taken again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingest.model import reasons
from ingest.model.position import Position
from ingest.model.topics import TableId

WRAPS_AT = 2**32
"""Bytes of a binlog file from which on its places are counted from 0 again."""

PAYLOAD = "Transaction_payload"
"""What MySQL calls the event that holds a compressed transaction."""


@dataclass(frozen=True)
class Tie:
    """A place at which a change of a table stands although its partition had been there, or beyond. ``same``: the
    change before it stands at the same byte of the log, or the newest that was applied does.
    """

    table: TableId
    position: Position
    same: bool


@dataclass(frozen=True)
class Event:
    """What MySQL says of a place in its log. ``kind``: of the event that begins there; empty where it cannot say.
    ``size``: bytes of the file.
    """

    kind: str = ""
    size: int = 0


@dataclass(frozen=True)
class Doubt:
    """Why it is not certain what a table holds, and its newest place so far."""

    reason: str
    position: Position


def doubts(ties: Iterable[Tie], events: Mapping[Position, Event]) -> dict[TableId, Doubt]:
    """Tables of which it is not certain that all was sent again, each with why. ``events``: by the places of the
    ties.
    """
    found: dict[TableId, Doubt] = {}
    for tie in sorted(ties, key=lambda one: one.position):
        reason = _other(tie, events.get(tie.position, Event()))
        if reason:
            found[tie.table] = Doubt(reason, tie.position)
    return found


def torn(places: Mapping[TableId, Position]) -> dict[TableId, Doubt]:
    """The same of changes that another server may send again, or not (``dedup.marked``)."""
    reason = reasons.ANOTHER_SERVER
    return {table: Doubt(reason.says, position) for table, position in places.items()}


def _other(tie: Tie, event: Event) -> str:
    """Why the change at a tie may be another one than the change before it; empty where it was sent again."""
    where = f"binlog file {tie.position.file}, byte {tie.position.pos}"
    if event.size > WRAPS_AT:
        return reasons.COUNTED_TWICE.of(where=where)
    if not tie.same:
        return ""
    if event.kind == PAYLOAD:
        return reasons.COMPRESSED.of(where=where)
    if not event.kind:
        return reasons.LOG_GONE.of(where=where)
    return ""
