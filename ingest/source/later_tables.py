"""Tables that join later: ``source.tables`` was widened, one is no longer excluded, one was renamed into a pattern.

Debezium reads a table's columns at its first snapshot, at a CREATE in the stream, and at a blocking snapshot of the table. Of
a table that joins otherwise it knows none: the first change of it ends its task, and an incremental snapshot makes up
columns from what the driver says of a result (without the labels of an ENUM, without character sets), which are gone
with the task. Of one that was excluded for a while it knows the columns of before (``schema_history``).

So such tables are sought, and each gets an open gap: it is asked for with its definition first (``resync``), then with its rows.

With ``source.first_rows: in_chunks`` all tables join at the first run: none was taken before. The connector's first snapshot
reads their definitions alone (``Connector.leaves_rows``), and their rows come as those of a table that joins later do, beside the
stream, and going on where a crash has ended them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ingest.config.pipeline_file import Pipeline
from ingest.lake.files.storage import Files, files_at
from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.manifest import Entry
from ingest.model.names import taken_path
from ingest.model.position import Position
from ingest.model.topics import TableId, captured
from ingest.schema.catalog import Catalog
from ingest.source import mysql
from ingest.source.left_out import LeftOut

LOOK_EVERY = 30.0
"""Seconds between two questions to MySQL which tables it has: a table that was renamed into a pattern may be known by nothing
else."""

_WRITING = threading.Lock()
"""Batches and who watches the connector are two threads."""
_FILE = "tables.json"
_UNKNOWN = "unknown.json"

NOTHING: tuple[str, ...] = ()
"""What was taken before the first run, where all tables join by it."""


@dataclass(frozen=True)
class Looked:
    """What was seen. ``there``: tables that MySQL had when its log ended at ``end``; ``patterns``: of the pipeline file;
    ``before``: what they were in each run since the last look (:class:`TakenBefore`); ``told``: tables of which the
    connector had told the columns when it had streamed beyond ``end``; ``named``: tables that are known to be incomplete
    by now; ``unknown``: those that the connector's task failed at, whatever it has told of them.
    """

    there: Collection[TableId]
    end: Position
    patterns: Sequence[str]
    before: Sequence[Sequence[str]]
    told: Collection[TableId]
    named: Collection[TableId] = ()
    unknown: Collection[TableId] = ()

    def why(self, table: TableId) -> str:
        """The gap's reason. Where no table was taken before, the connector has read the definitions of all that were there at its first snapshot."""
        known = table in self.told and table not in self.unknown
        first = known and NOTHING in self.before
        return (reasons.FIRST_ROWS if first else reasons.JOINED).says

    @property
    def joined(self) -> list[TableId]:
        """Tables that are taken by now, and of which rows may be missing that no change brings."""
        taken = captured(self.there, self.patterns)
        whole = set(always(taken, self.before)) & {*self.told} - {*self.unknown}
        return [table for table in taken if table not in whole and table not in self.named]

    @property
    def gone(self) -> list[TableId]:
        """Tables that were incomplete, and that the source has no more, or the pipeline file does not take: nothing of them
        is missing. One that is taken in again joins anew.
        """
        return sorted({*self.named} - {*captured(self.there, self.patterns)})

    @property
    def void(self) -> set[str]:
        """Tables of which nothing that was asked for before is of use: their definition is to be read first, or they are gone."""
        return set(map(str, (*self.joined, *self.gone, *self.unknown)))

    def gaps(self, entry: Entry, batch_id: int, topic: Callable[[TableId], str]) -> tuple[Gap, ...]:
        """Those of a batch with this number that follows ``entry``: one more for each table that has joined, and those of
        tables that are gone closed.
        """
        gone = set(map(str, self.gone))
        kept = [
            replace(gap, resync=self.end) if gap.is_incomplete and gap.table in gone else gap
            for gap in entry.gaps
        ]
        for table in self.joined:
            place = (topic(table), 0)
            at = entry.ends.get(place, 0)
            kept.append(
                Gap(str(table), *place, at, at, self.why(table), batch_id, position=self.end)
            )
        return tuple(kept)


def incomplete_in(newest: Entry | None) -> set[TableId]:
    """Tables that have joined and were not taken whole yet, as the manifest's newest row says."""
    return _tables(gap for gap in _gaps(newest) if gap.is_incomplete)


def untold_in(newest: Entry | None) -> set[TableId]:
    """Those of which the connector may not know the columns."""
    return _tables(gap for gap in _gaps(newest) if gap.is_untold)


def _gaps(newest: Entry | None) -> tuple[Gap, ...]:
    return newest.gaps if newest else ()


def _tables(gaps: Iterable[Gap]) -> set[TableId]:
    return {table for gap in gaps if (table := gap.of)}


def always(tables: Iterable[TableId], patterns: Iterable[Sequence[str]]) -> list[TableId]:
    """Those that each of these settings takes."""
    found = list(tables)
    for one in patterns:
        found = captured(found, one)
    return found


@dataclass(frozen=True)
class TakenBefore:
    """What ``source.tables`` was in each run since tables were last sought that join by it. Kept in the lake.

    A run adds its own before the connector hears of it, so that a table which was excluded for a while is known to have been,
    however short that run was. Those of before go once the gaps of tables that join by the newest are published. A crash
    at any moment costs another look, or a table that is taken again for nothing.
    """

    pipeline: Pipeline

    @property
    def now(self) -> tuple[str, ...]:
        """What this run takes: tables that the connector leaves out meanwhile are excluded, too."""
        return (*self.pipeline.source.tables, *LeftOut(self.pipeline).patterns())

    def leave_out(self, table: TableId, why: str) -> None:
        """The connector is about to leave it out for the rest of the run."""
        with _WRITING:
            LeftOut(self.pipeline).add(table, why)
            self._add_now()

    def patterns(self) -> tuple[tuple[str, ...], ...]:
        """The oldest first; empty where no run has begun yet."""
        text = self._files().read(_FILE)
        return tuple(map(tuple, json.loads(text)["patterns"])) if text else ()

    @property
    def nothing_yet(self) -> bool:
        """True while the first run has not found which tables join by it (:meth:`begin_with_nothing`)."""
        return NOTHING in self.patterns()

    def begin_with_nothing(self) -> None:
        """The first run begins, and rows are to come in chunks: every table joins by it. A crash behind this costs nothing; one
        before it leaves no connector, so the next run is the first.
        """
        with _WRITING:
            if not self.patterns():
                self._write((NOTHING,))

    def begin(self) -> None:
        """A run begins: what it takes is added. What the one before has left out is taken in again."""
        with _WRITING:
            self._add_now()
            LeftOut(self.pipeline).begin()
            self._add_now()

    def published(self, unknown: Collection[TableId] = ()) -> None:
        """What a run has found to join is in the manifest, with tables that were ``unknown``: only what it takes counts from
        here on.
        """
        with _WRITING:
            if self.patterns() != (self.now,):
                self._write((self.now,))
        if unknown:
            self._note(self.unknown() - set(unknown))

    def unknown(self) -> set[TableId]:
        """Tables that the connector's task has failed at, as it did not know them, whatever it has told of them."""
        text = self._files().read(_UNKNOWN)
        return set(map(TableId.parse, json.loads(text))) if text else set()

    def note_unknown(self, tables: Iterable[TableId]) -> None:
        """These, too. Kept before the first change of theirs is passed over."""
        self._note(self.unknown() | {*tables})

    def joining(self, tables: Iterable[TableId]) -> list[TableId]:
        """Those of ``tables`` that are taken by now and were not all the time, so that the connector may know none of their columns."""
        taken = captured(tables, self.pipeline.source.tables)
        before = [one for one in self.patterns() if one != NOTHING]
        whole = set(always(taken, before))
        return [table for table in taken if table not in whole]

    def _add_now(self) -> None:
        before, now = self.patterns(), self.now
        if now not in before:
            self._write((*before, now))

    def _write(self, patterns: Sequence[Sequence[str]]) -> None:
        self._files().write(_FILE, json.dumps({"patterns": patterns}, ensure_ascii=False))

    def _note(self, tables: Iterable[TableId]) -> None:
        self._files().write(_UNKNOWN, json.dumps(sorted(map(str, tables)), ensure_ascii=False))

    def _files(self) -> Files:
        return files_at(taken_path(self.pipeline.lake.path))


@dataclass
class LaterTables:
    """The looking, in one job. ``none_left``: called once no table is incomplete any more."""

    pipeline: Pipeline
    none_left: Callable[[], None] = lambda: None
    _there: tuple[list[TableId], Position] | None = None
    _next: float = 0.0
    _not_before: float = 0.0
    _before: TakenBefore = field(init=False)

    def __post_init__(self) -> None:
        self._before = TakenBefore(self.pipeline)

    def look(self, catalog: Catalog, streaming: Position, newest: Entry | None) -> Looked | None:
        """What was seen; None while it is not time, or the connector has not streamed that far. ``streaming``: where it is
        known to stream, with ``catalog`` read to its end after that was known.
        """
        unknown = self._before.unknown()
        now = time.monotonic()
        if self._there is None and now >= self._not_before and (unknown or now >= self._next):
            try:
                self._there = self._asked(streaming.epoch)
            except IngestError:
                # MySQL is away, or refuses the password: who watches the connector says so, and nothing of a batch needs this.
                self._not_before = now + LOOK_EVERY
        if self._there is None or streaming < self._there[1]:
            return None
        (there, end), self._there = self._there, None
        self._next = time.monotonic() + LOOK_EVERY
        told = [version.table for version in catalog.current() if version.columns]
        named = incomplete_in(newest)
        patterns, before = self._before.now, self._before.patterns()
        return Looked(there, end, patterns, before, told, named, unknown)

    def published(self, looked: Looked, newest: Entry | None) -> None:
        """All that was found is in the manifest."""
        self._before.published(looked.unknown)
        if not incomplete_in(newest):
            self.none_left()

    def _asked(self, epoch: int) -> tuple[list[TableId], Position]:
        with mysql.connected(self.pipeline.source) as cursor:
            there = mysql.base_tables(cursor)
            end = mysql.reached(cursor)  # afterwards: what made these tables stands before it
        return there, Position(epoch, end.file, end.pos)
