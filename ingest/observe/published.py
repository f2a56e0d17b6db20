"""One row of the manifest beside the row before it: what has happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ingest.model.gap import Gap
from ingest.model.manifest import Entry, TableState


@dataclass(frozen=True)
class Published:
    """``readers``: by table, where its changes were read (``Entry.lanes``)."""

    previous: Entry | None
    entry: Entry
    readers: Mapping[str, str] = field(default_factory=dict)

    @property
    def touched(self) -> Mapping[str, TableState]:
        """Tables of which the batch brought changes."""
        return {name: state for name, state in self.entry.tables.items() if state.changes}

    @property
    def opened(self) -> tuple[Gap, ...]:
        """Gaps that are new, and open."""
        known = {replace(gap, resync=None) for gap in self._gaps_before}
        return tuple(
            gap for gap in self.entry.gaps if gap.is_open and replace(gap, resync=None) not in known
        )

    @property
    def closed(self) -> tuple[Gap, ...]:
        """Gaps that were open, and are so no more."""
        were_open = {gap for gap in self._gaps_before if gap.is_open}
        return tuple(
            gap
            for gap in self.entry.gaps
            if not gap.is_open and replace(gap, resync=None) in were_open
        )

    @property
    def versions(self) -> Mapping[str, int]:
        """How many versions each table has gained: by changes, DDL and upkeep. All of one that was made anew, none of one
        that went back.
        """
        before = self.previous.tables if self.previous else {}
        found = {}
        for name, state in self.entry.tables.items():
            then = before.get(name)
            gained = state.version - (then.version if then else -1)
            if then and gained < 0:
                gained = 0 if state.id and state.id == then.id else state.version + 1
            if gained:
                found[name] = gained
        return found

    def reader(self, table: str) -> str:
        """Where a table's changes were read: by Arrow in the `driver` or in Spark's `tasks`, or by Spark's `columns`."""
        return self.readers.get(table, "columns")

    @property
    def _gaps_before(self) -> tuple[Gap, ...]:
        return self.previous.gaps if self.previous else ()
