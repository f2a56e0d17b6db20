"""Tables that are to be taken again, and that MySQL has not: dropped, or renamed out of the patterns, of which Debezium tells
nothing.

A snapshot of such a table begins and ends without a word of it, so that a request for it would never be done, and all others would
wait behind it. What it lacks stays an open gap: what the lake has of it is made by what the stream says of it (a DROP), and that
may be lost by the same gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ingest.config.pipeline_file import Pipeline
from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.source import mysql

LOOK_AGAIN = 45.0
"""Seconds between two questions to MySQL whether one is there again."""


@dataclass
class AbsentTables:
    """Of one job. ``say`` gets a sentence for each, once."""

    pipeline: Pipeline
    say: Callable[[str], None]
    known: set[str] = field(default_factory=set)
    """Those that were absent when they were last looked up."""
    next_look: float = 0.0

    def of(self, tables: Iterable[str]) -> set[str]:
        """Those of them that MySQL has not. Of one that is known to be absent it is not asked before its time."""
        asked = set(tables)
        self._look_up(asked - self.known)
        return asked & self.known

    def came_back(self) -> bool:
        """True where one that was absent is there now; looked up now and then."""
        if not self.known or time.monotonic() < self.next_look:
            return False
        before = set(self.known)
        self._look_up(before)
        return self.known != before

    def _look_up(self, tables: set[str]) -> None:
        """Where MySQL does not answer (who watches the connector says so) what is known stays known, and nothing new is."""
        if not tables:
            return
        self.next_look = time.monotonic() + LOOK_AGAIN
        try:
            gone = self.looked_up(tables)
        except IngestError:
            return
        for table in sorted(gone - self.known):
            self.say(
                f"{table}: {reasons.NO_SUCH_TABLE.says}, so it is not taken again before it is there; an open gap of it stays, "
                "unless `source.tables` excludes it"
            )
        self.known = (self.known - tables) | gone

    def looked_up(self, tables: set[str]) -> set[str]:
        """Those of them that MySQL has not now. Raises :class:`IngestError` while it is away."""
        with mysql.connected(self.pipeline.source) as cursor:
            return tables - set(map(str, mysql.base_tables(cursor)))
