"""Tables of the lake registered in a catalogue, beside the batches: whatever becomes of it there, the mirrors go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ingest.config.lake_settings import Catalog
from ingest.config.pipeline_file import Pipeline
from ingest.lake import metastore
from ingest.lake.metastore import CatalogError, Metastore
from ingest.model.catalog_names import CatalogName, act, catalog_names
from ingest.model.location import as_uri
from ingest.model.manifest import Entry
from ingest.model.topics import TableId

AGAIN = 60.0
"""Seconds between two looks at a catalogue that was away or refused a table."""

_AT_LAST = 60.0
"""Seconds that a run which ends waits for the look in hand."""


def wanted(newest: Entry | None) -> dict[TableId, str]:
    """Tables that readers may have, and where they are: each mirror that a batch has left, and its change log."""
    found = dict[TableId, str]()
    for name, state in (newest.tables if newest else {}).items():
        table = TableId.parse(name)
        if state.version >= 0 and not (state.hidden and state.position is None):
            found[table] = state.path
        if state.log is not None:
            log = state.log.path
            found[TableId(table.database, log.rstrip("/").rpartition("/")[2])] = log
    return found


@dataclass
class Registering:
    """Of one run. ``say`` gets sentences, each once."""

    session: SparkSession
    pipeline: Pipeline
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _looking: Future[None] | None = None
    _done: dict[TableId, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _again_at: float = float("-inf")

    def look(self, newest: Entry | None) -> None:
        """Begin to register what is not yet, unless that goes on, or failed a moment ago. Returns at once."""
        catalog = self.pipeline.lake.catalog
        left = dict(wanted(newest).items() - self._done.items())
        busy = self._looking is not None and not self._looking.done()
        if catalog is None or not left or busy or self.clock() < self._again_at:
            return
        self._looking = self._pool.submit(self._register, catalog, wanted(newest))

    def finish(self, newest: Entry | None) -> None:
        """As the run ends: what is left, and no more of it than a moment."""
        if self._looking is not None:
            self._wait()
        self._again_at = float("-inf")
        self.look(newest)
        self._wait()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _wait(self) -> None:
        if self._looking is not None:
            try:
                self._looking.result(_AT_LAST)
            except futures.TimeoutError:
                self._tell(f"{self._where} does not answer; the next run asks again")

    def _register(self, catalog: Catalog, tables: dict[TableId, str]) -> None:
        self._again_at = self.clock() + AGAIN
        named, unfit = catalog_names(tables, catalog.database)
        for table, why in unfit.items():
            self._tell(f"{table} is not in {self._where}: {why}")
            self._done[table] = tables[table]
        try:
            with metastore.connected(self.session, catalog) as held:
                for table, name in named.items():
                    if self._done.get(table) != tables[table]:
                        self._one(held, table, name, as_uri(tables[table]))
                        self._done[table] = tables[table]
        except CatalogError as failure:
            self._tell(
                f"{self._where} cannot be used: {failure}; the mirrors go on, and it is asked again"
            )
        except (Py4JError, OSError) as failure:  # of the JVM, which says itself where it ends
            self._tell(f"{self._where} cannot be used: {type(failure).__name__}")

    def _one(self, held: Metastore, table: TableId, name: CatalogName, place: str) -> None:
        entry = held.entry(name)
        match act(entry, place, self.pipeline.name):
            case "create":
                held.create(name, place, self.pipeline.name)
                self.say(f"{table} is in {self._where} now, as {name}")
            case "move":
                held.move(name, place)
                self.say(f"{name} in {self._where} leads to {place} now")
            case "refuse":
                assert entry is not None
                self._tell(
                    f"{table} is not in {self._where}: {name} is there already, leads to {entry.location}, and is not of this pipeline"
                )
            case "nothing":
                pass

    @property
    def _where(self) -> str:
        assert self.pipeline.lake.catalog is not None
        return f"the catalogue {self.pipeline.lake.catalog.metastore}"

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self.say(sentence)
