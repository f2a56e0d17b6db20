"""Tables that a statement in the stream has changed, looked up in MySQL: are they what we take them for?

MySQL tells of its tables as they are now, and the catalog of what the connector has streamed. So a table is asked for,
then where the log ends; and once the connector has streamed beyond that end, and no further statement has changed the
table, both speak of one version. Then they are compared (``definition_differences``). Whatever changes meanwhile costs another look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.config.pipeline_file import Pipeline
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import definition_differences
from ingest.schema.catalog import UNKNOWN, Catalog, SchemaVersion
from ingest.schema.definition_differences import Told
from ingest.source import mysql
from ingest.source.resync import Requests, is_possible


@dataclass
class SecondLook:
    """What was looked up, and what came of it."""

    pipeline: Pipeline
    differs: dict[TableId, str] = field(default_factory=dict)
    """Tables whose newest version is another to MySQL, with the difference in words. Those whose version comes from
    MySQL's own text are none: reading them anew would bring the same.
    """
    _done: dict[TableId, int] = field(default_factory=dict)
    """Which version (its offset) was compared."""
    _asked: dict[TableId, tuple[int, Told | None]] = field(default_factory=dict)
    _end: tuple[int, int] = (0, 0)

    def look(self, catalog: Catalog, streaming: Position, requests: Requests) -> None:
        """Go on with it; a table that is another to MySQL is asked for, with its definition. ``streaming``: where
        the connector is known to stream, with ``catalog`` read to its end after that was known.
        """
        current = {one.table: one for one in catalog.current() if one.kind != UNKNOWN}
        new = {t: v for t, v in current.items() if self._done.get(t) != v.offset}
        for table in [t for t, version in new.items() if catalog.was_read_anew(version)]:
            self._done[table] = new.pop(table).offset
            self.differs.pop(table, None)
        for table in self.differs.keys() - current.keys():
            del self.differs[table]
        if self._asked and (streaming.file, streaming.pos) >= self._end:
            asked, self._asked = self._asked, {}
            for table, (offset, told) in asked.items():
                version = new.get(table)
                if version is not None and version.offset == offset:
                    self._compare(version, told, requests)
        if not self._asked:
            self._ask({t: v for t, v in new.items() if self._done.get(t) != v.offset})
        # A log keeps rows that the source has purged: only a person may have it replaced.
        wanted = sorted(str(t) for t in self.differs if not self._outlives(current[t]))
        if wanted and is_possible(self.pipeline):
            requests.ask(wanted, anew=True)

    def _outlives(self, version: SchemaVersion) -> bool:
        return self.pipeline.target(version.table, keyed=bool(version.key)).outlives

    def _ask(self, versions: Mapping[TableId, SchemaVersion]) -> None:
        if not versions:
            return
        with mysql.connected(self.pipeline.source) as cursor:
            told = mysql.told(cursor, list(versions))
            end = mysql.reached(cursor)
        self._asked = {table: (one.offset, told.get(table)) for table, one in versions.items()}
        self._end = (end.file, end.pos)

    def _compare(self, version: SchemaVersion, told: Told | None, requests: Requests) -> None:
        table = version.table
        self._done[table] = version.offset
        # Without an entry it was dropped, or renamed out of the patterns, of which Debezium tells nothing.
        found = definition_differences.differences(version, told) if told else []
        self.differs.pop(table, None)
        if found:
            self.differs[table] = "; ".join(found)
            requests.say(f"{table}: {self.differs[table]}. It has to be read anew from MySQL")
