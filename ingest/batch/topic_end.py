"""When everything that a topic held at some moment is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ingest.changes.restarted_snapshots import Cleanup
from ingest.model.manifest import Entry, Place
from ingest.model.topics import TableId


@dataclass
class Awaited:
    """What is waited for, and where its topic ended when that was first asked. ``ends``: where a table's topic
    ends now.
    """

    ends: Callable[[TableId], Mapping[Place, int]]
    _noted: dict[Cleanup, Mapping[Place, int]] = field(default_factory=dict)

    def is_applied(self, cleanup: Cleanup, newest: Entry) -> bool:
        """True when the lake has everything that the topic held when it was complete."""
        if (state := newest.tables.get(str(cleanup.table))) and state.waits:
            return False
        return self.is_read(cleanup, newest)

    def is_read(self, cleanup: Cleanup, newest: Entry) -> bool:
        """True when everything that the topic held when it was complete has been read; some of it may still wait in Kafka for its table (:meth:`is_applied`)."""
        if cleanup not in self._noted:
            self._noted[cleanup] = self.ends(cleanup.table)
        return all(newest.ends.get(place, 0) >= end for place, end in self._noted[cleanup].items())

    def forget(self, cleanup: Cleanup) -> None:
        """It is done."""
        self._noted.pop(cleanup, None)
