"""Snapshots that began again, and what their completion removes. Pure.

Debezium starts an interrupted snapshot from its beginning. Rows that were read by the first attempt
and deleted at the source before the second send no delete, so when a table's newest snapshot is
complete, rows of it that are older than that snapshot's position did not occur in it and go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import PART_DELETE, Position
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.steps import Attempt, TableFacts


@dataclass(frozen=True)
class Cleanup:
    """Still to be done: once the snapshot taken at the position ``below`` is applied, delete the rows of ``table`` whose
    position is lower.
    """

    table: TableId
    below: Position


def begins_again(facts: TableFacts, state: TableState | None) -> Attempt | None:
    """The attempt in this batch that makes the rows of an earlier one void, or None."""
    attempt = facts.attempt
    if attempt is None or state is None:
        return None
    if state.floor is None:
        return attempt  # what is there was streamed; the snapshot contains it
    if attempt.position < state.floor or attempt.is_of(state.run, state.floor):
        return None
    return attempt


def is_uncertain(attempt: Attempt, catalog: Catalog, table: TableId) -> bool:
    """Whether some of its rows stand before a definition of the table that others stand behind. A blocking snapshot writes it
    before all rows; but an event that comes meanwhile may move their place back: that of a heartbeat of the log is its end less 36
    bytes, that of a commit its end less 31. Rows before it would be taken for those of the table before.
    """
    highest = attempt.highest
    return highest is not None and bool(catalog.between(table, attempt.position, highest))


def awaited(catalog: Catalog, states: Mapping[str, TableState]) -> list[Cleanup]:
    """Newest snapshots that are not settled yet, for tables that hold anything."""
    found = []
    for table in sorted(catalog.versions):
        state = states.get(str(table))
        pinned = catalog.snapshots(table)
        if state is None or not pinned:
            continue
        if state.snapshot is not None and state.snapshot < pinned[-1]:
            found.append(Cleanup(table, pinned[-1]))
    return found


def settled(state: TableState, cleanup: Cleanup, begins: Position) -> TableState:
    """The table's state once a cleanup is done. ``begins``: where the rows of that snapshot do. Of an incremental snapshot whose
    first row lies behind it, which is another one, it says nothing: were that row's place forgotten, the snapshot would look as if
    it had read nothing.
    """
    newest = max(p for p in (state.snapshot, cleanup.below) if p)
    other = state.reread is not None and state.reread > begins
    return replace(state, snapshot=newest, reread=state.reread if other else None)


def closed(
    gaps: Sequence[Gap], cleanup: Cleanup, asked_after: int | None = None
) -> tuple[Gap, ...]:
    """The gaps once a cleanup is done. One behind the place up to which rows were removed stays open: a row that was written in between,
    and taken away by what the gap says, would stay for good. ``asked_after``: the batch after which the table was asked
    for; None for a snapshot that the connector began of itself.
    """

    def is_closed(gap: Gap) -> bool:
        if not (gap.is_open and gap.table == str(cleanup.table)):
            return False
        if not reasons.voids(gap.reason):
            return gap.position is None or gap.position <= cleanup.below
        # Rows that were read before it was recorded may be lost themselves, and a quiet source's log stands where it
        # stood: positions do not tell them from those that were read since. For a snapshot that nobody asked for they
        # do, as the gap's position is not below any that was known then.
        if asked_after is not None:
            return gap.since <= asked_after
        return gap.position is None or gap.position < cleanup.below

    return tuple(replace(gap, resync=cleanup.below) if is_closed(gap) else gap for gap in gaps)


def lost_rows(cleanup: Cleanup, gaps: Sequence[Gap]) -> bool:
    """True where rows of this snapshot may be among what a gap says is lost: it was known when that was recorded."""
    return any(
        gap.is_open
        and gap.table == str(cleanup.table)
        and reasons.voids(gap.reason)
        and gap.position is not None
        and gap.position >= cleanup.below
        for gap in gaps
    )


def first(catalog: Catalog, table: TableId) -> Position | None:
    """A table's first snapshot: settled from the start, since no row can be older."""
    return next(iter(catalog.snapshots(table)), None)


@dataclass(frozen=True)
class Asked:
    """A request for a blocking snapshot. ``after``: the manifest's newest batch then; ``complete``: the connector says that
    it has read the table; ``empty``: and found no row.
    """

    after: int
    complete: bool
    empty: bool


def may_be_whole(
    table: str,
    hidden: Position,
    *,
    gaps: Sequence[Gap],
    streamed: Position | None,
    asked: Sequence[Asked],
    pinned: Position | None,
) -> bool:
    """Whether the newest snapshot of a table, the first of which begins at ``hidden``, may all be in Kafka.

    One that was asked for is when the connector says so; of one that was given up, it is asked anew. Another one is when
    the connector has streamed beyond it. ``pinned``: the newest that the connector began of itself. What Kafka has lost may
    be of any that was known by then.
    """
    own = max(hidden, pinned or hidden)
    # Rows of a snapshot stand behind its place (``PART_WRITE``), which is all that a connector with nothing to stream has come to.
    place = replace(own, part=PART_DELETE)
    if (own > hidden or not asked) and (streamed is None or streamed < place):
        return False
    if asked:
        void = [gap for gap in gaps for one in asked if gap.makes_void(table, one.after)]
        return not void and all(one.complete for one in asked)
    lost = any(g.is_open and g.table == table and reasons.voids(g.reason) for g in gaps)
    return not lost or (
        pinned is not None and not lost_rows(Cleanup(TableId.parse(table), pinned), gaps)
    )


def is_complete(cleanup: Cleanup, streaming: Position | None) -> bool:
    """True when the connector is known to have streamed beyond the snapshot's position.

    It streams only once the whole snapshot is in Kafka. ``streaming``: the newest position that is
    known to be streamed, or None.
    """
    return streaming is not None and streaming >= cleanup.below
