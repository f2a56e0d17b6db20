"""Tables that only a person has taken again: to read them would take rows from the lake that the source no longer has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry
from ingest.model.topics import TableId


def only_by_hand(entry: Entry, outlives: Callable[[TableId], bool]) -> frozenset[str]:
    """Of the tables with an open gap. ``outlives``: whether the lake's copy of a table keeps such rows (``Target.outlives``).

    None whose first rows are still to come: the gap says that it was never taken whole. Nor one that is hidden: a reading has begun
    that replaces what it holds, and all that changes waits in Kafka until one is whole.
    """
    opened = [gap for gap in entry.gaps if gap.is_open]
    begun = {gap.table for gap in opened if reasons.FIRST_ROWS.is_in(gap.reason)}
    begun |= {name for name, state in entry.tables.items() if state.hidden}
    named = {gap.table: table for gap in opened if (table := gap.of) is not None}
    return frozenset(n for n, table in named.items() if n not in begun and outlives(table))


def told_once(entry: Entry, names: Collection[str]) -> Entry:
    """The same row, in which these tables have one open gap of each kind and place, the newest: it may be years until a person has them
    taken again, and what a session does in each of its transactions would be a gap in each batch. What closes the newest closes those before it.
    """
    found = dict[object, Gap]()
    for number, gap in enumerate(entry.gaps):
        of: object = number
        if gap.is_open and not gap.by_hand and gap.table in names:
            of = (gap.table, gap.topic, gap.partition, reasons.without_place(gap.reason))
        before = found.pop(of, gap)
        found[of] = replace(gap, start=min(before.start, gap.start))
    return entry if len(found) == len(entry.gaps) else replace(entry, gaps=tuple(found.values()))
