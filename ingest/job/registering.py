"""Tables of the lake registered in a catalogue, beside the batches: whatever becomes of it there, the mirrors go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ingest.config.lake_settings import Catalog
from ingest.config.pipeline_file import Pipeline
from ingest.lake import metastore
from ingest.lake.metastore import DELTA, CatalogError, Metastore
from ingest.model.catalog_names import CatalogEntry, CatalogName, act, catalog_names
from ingest.model.location import as_uri
from ingest.model.manifest import Entry
from ingest.model.topics import TableId

AGAIN = 60.0
"""Seconds between two looks at a catalogue that was away or refused a table."""
LOOKS_EVERY = 600.0
"""Seconds between two looks at one that has all: somebody may have dropped an entry there, or led it elsewhere."""

_AT_LAST = 60.0
"""Seconds that a run which ends waits for it."""


def wanted(newest: Entry | None, log_suffix: str) -> dict[TableId, CatalogEntry]:
    """Tables that readers may have, and what is to be said of them: each mirror that a batch has left, and its change log."""
    found = dict[TableId, CatalogEntry]()
    for name, state in (newest.tables if newest else {}).items():
        table = TableId.parse(name)
        if not (state.hidden and state.position is None):
            found[table] = CatalogEntry(as_uri(state.path), DELTA, state.id)
        if state.log is not None:
            log = TableId(table.database, f"{table.name}{log_suffix}")
            found[log] = CatalogEntry(as_uri(state.log.path), DELTA, state.log.id)
    return found


@dataclass
class Registering:
    """Of one run, in a thread of its own while there is something to do. ``say`` gets sentences."""

    session: SparkSession
    pipeline: Pipeline
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _thread: threading.Thread | None = None
    _closing: threading.Event = field(default_factory=threading.Event)
    _done: dict[TableId, CatalogEntry] = field(default_factory=dict)
    """Written by the thread, and read while there is none."""
    _told: dict[TableId | None, str] = field(default_factory=dict)
    """What was said last of a table, or of the catalogue."""
    _again_at: float = float("-inf")
    _all_at: float = float("-inf")
    """When all of it was begun to be looked at last."""

    def look(self, newest: Entry | None) -> None:
        """Begin to register what is not yet, unless that goes on, or failed a moment ago. Returns at once."""
        catalog = self.pipeline.lake.catalog
        if catalog is None or self._goes_on or self.clock() < self._again_at:
            return
        if self.clock() - self._all_at >= LOOKS_EVERY:
            self._done.clear()
            self._all_at = self.clock()
        tables = wanted(newest, self.pipeline.lake.change_log_suffix)
        if all(self._done.get(table) == entry for table, entry in tables.items()):
            return
        # A thread that nobody waits for: one that hangs on a server does not keep the process.
        self._thread = threading.Thread(target=self._run, args=(catalog, tables), daemon=True)
        self._thread.start()

    def finish(self, newest: Entry | None, stop: threading.Event) -> None:
        """As the run ends: what is left, for a moment, and not where it is to ``stop``."""
        until = time.monotonic() + _AT_LAST
        self._wait(until, stop)
        self._again_at = float("-inf")
        self.look(newest)
        self._wait(until, stop)

    def close(self) -> None:
        """No more than the table in hand."""
        self._closing.set()

    @property
    def _goes_on(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wait(self, until: float, stop: threading.Event) -> None:
        while self._goes_on and time.monotonic() < until and not stop.is_set():
            assert self._thread is not None
            self._thread.join(0.2)

    def _run(self, catalog: Catalog, tables: Mapping[TableId, CatalogEntry]) -> None:
        try:
            self._register(catalog, tables)
        except CatalogError as failure:
            self._later(
                None, f"cannot be used: {failure}; the mirrors go on, and it is asked again"
            )
        except Exception as failure:  # noqa: BLE001 - nobody waits for this thread; the mirrors go on
            self._later(None, f"cannot be used: {type(failure).__name__}; the mirrors go on")
        else:
            if self._told.pop(None, None):
                self.say(f"{self._where} is there again")

    def _register(self, catalog: Catalog, tables: Mapping[TableId, CatalogEntry]) -> None:
        """Raises :class:`CatalogError` where the catalogue is away."""
        named, unfit = catalog_names(tables, catalog.database)
        for table, why in unfit.items():
            self._tell(table, f"{table} cannot be named in {self._where}: {why}")
            self._done[table] = tables[table]
        with metastore.connected(self.session, catalog) as held:
            for table, name in named.items():
                if self._closing.is_set():
                    return
                if self._done.get(table) == tables[table]:
                    continue
                try:
                    self._one(held, table, name, tables[table])
                except CatalogError as failure:
                    if failure.away:
                        raise
                    self._later(table, f"does not take {table}: {failure}; the others go on")

    def _one(self, held: Metastore, table: TableId, name: CatalogName, entry: CatalogEntry) -> None:
        there = held.entry(name)
        match act(there, entry):
            case "create":
                held.create(name, entry)
                self.say(f"{table} is in {self._where} now, as {name}")
            case "move":
                held.move(name, entry.location)
                self.say(f"{name} in {self._where} leads to {entry.location} now")
            case "identify":
                held.identify(name, entry.id)
            case "nothing":
                pass
            case "refuse":
                assert there is not None
                self._later(
                    table,
                    f"has {name} already, which is not this lake's: {there.provider} at {there.location}; drop it there, and {table} "
                    "takes its place",
                )
                return
        self._done[table] = entry
        self._told.pop(table, None)

    def _later(self, table: TableId | None, words: str) -> None:
        """Said, and tried again after a while."""
        self._again_at = self.clock() + AGAIN
        self._tell(table, f"{self._where} {words}")

    @property
    def _where(self) -> str:
        assert self.pipeline.lake.catalog is not None
        return f"the catalogue {self.pipeline.lake.catalog.metastore}"

    def _tell(self, of: TableId | None, sentence: str) -> None:
        if self._told.get(of) != sentence and not self._closing.is_set():
            self._told[of] = sentence
            self.say(sentence)
