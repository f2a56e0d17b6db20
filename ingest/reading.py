"""What a batch holds: its plain changes read in the driver, all others by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest import dedup, facts, held_back, in_driver
from ingest.admission import admitted
from ingest.arrow_records import Layout
from ingest.catalog import Catalog, SchemaVersion
from ingest.config import Pipeline
from ingest.decode import RowSchema
from ingest.epochs import Epoch
from ingest.facts import Counts
from ingest.in_driver import Read
from ingest.kept import free, keep
from ingest.manifest import Entry, Place, TableState
from ingest.ports import Log, parts
from ingest.stages import Stopwatch
from ingest.start_facts import Note
from ingest.steps import TableFacts, steps
from ingest.topics import TableId, topic_of


@dataclass
class Reading:
    """A batch as it was read. ``rows``: a MERGE's source rows of the tables that were read in the driver;
    ``changes``: all others' (``dedup.marked``), None where there are none.
    """

    facts: dict[TableId, TableFacts]
    counts: Counts
    rows: Mapping[TableId, pa.Table]
    changes: DataFrame | None

    @property
    def fresh(self) -> DataFrame | None:
        """The changes that are to be applied."""
        return None if self.changes is None else dedup.fresh(self.changes)


@dataclass
class Reader:
    """Reads batches of one job."""

    pipeline: Pipeline
    log: Log
    pool: Executor
    epochs: Sequence[Epoch]
    _layouts: dict[TableId, Layout] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)

    def read(
        self,
        batch: DataFrame,
        note: Note,
        catalog: Catalog,
        previous: Entry | None,
        waiting: Sequence[TableId],
        watch: Stopwatch,
        *,
        plain: bool,
    ) -> Reading:
        """``waiting``: tables of which changes waited that are taken in now; ``plain``: False where all has
        to be read by Spark. Stages: ``read`` in the driver, ``decode`` by Spark.
        """
        touched = [place for place, (start, end) in note.ranges.items() if end > start]
        read, others = Read(), None
        if plain and touched:
            read, others = self._in_driver(note, catalog, previous, touched)
            watch.done("read")
            if not others:
                return Reading(dict(read.facts), _counts(read.facts), read.rows, None)
        if others is not None and read.rows:
            left = {place: r for place, r in note.ranges.items() if place[0] in others}
            batch = self.log.read(left)
            touched = [place for place in touched if place[0] in others]
            note = replace(note, ranges=left)
        changes = self._by_spark(batch, note, catalog, previous, waiting, touched)
        found, counts = facts.gather(changes)
        watch.done("decode")
        both = dict(sorted({**found, **read.facts}.items()))
        counts = replace(counts, changes=counts.changes + _counts(read.facts).changes)
        return Reading(both, counts, read.rows, changes)

    def release(self) -> None:
        """Free what was kept for a batch."""
        for frame in self._kept:
            free(frame)
        self._kept = []

    def _by_spark(
        self,
        batch: DataFrame,
        note: Note,
        catalog: Catalog,
        previous: Entry | None,
        waiting: Sequence[TableId],
        touched: Sequence[Place],
    ) -> DataFrame:
        by = self.pipeline.dedup.by
        if not self.pipeline.dedup.keeps_state:  # whose partitions are its state's
            batch = batch.coalesce(parts(note.ranges, batch.sparkSession.sparkContext))
        marked = facts.marked(batch, self.epochs, previous, touched, by)
        marked = dedup.paused(marked, note.paused)
        states = previous.tables if previous else {}
        changes = keep(held_back.replayable(marked, catalog, states, waiting))
        self._kept.append(changes)
        return changes

    def _in_driver(
        self,
        note: Note,
        catalog: Catalog,
        previous: Entry | None,
        touched: Sequence[Place],
    ) -> tuple[Read, frozenset[str]]:
        """What was read, and the topics that are Spark's."""
        topics = {topic for topic, _ in touched}
        layouts = self._known(catalog, topics)
        read, others = in_driver.read(
            self.log, note.ranges, layouts, self.epochs, previous, self.pool
        )
        states = previous.tables if previous else {}
        fits = {
            layout.version.table
            for layout in layouts.values()
            if (found := read.facts.get(layout.version.table))
            and _fits(layout, found, catalog, states.get(str(found.table)))
        }
        kept = {table: found for table, found in read.facts.items() if table in fits}
        rows = {table: rows for table, rows in read.rows.items() if table in fits}
        again = {
            topic
            for topic, layout in layouts.items()
            if layout.version.table in read.facts.keys() - fits
        }
        return Read(kept, rows), others | again

    def _known(self, catalog: Catalog, topics: set[str]) -> dict[str, Layout]:
        """By topic, the layouts of tables that can be read in the driver."""
        found: dict[str, Layout] = {}
        names = self.pipeline.source.topic_names
        for version in catalog.current():
            topic = topic_of(self.pipeline.name, version.table, names)
            if topic in topics and not self.pipeline.append_only(version.table):
                layout = self._layout(version)
                if layout.is_readable:
                    found[topic] = layout
        return found

    def _layout(self, version: SchemaVersion) -> Layout:
        known = self._layouts.get(version.table)
        if known is None or known.version != version:
            readable = admitted(version, self.pipeline.lake.profile)
            zero = self.pipeline.source.epoch_dates
            schema = RowSchema.of(readable.columns, version.key, zero)
            known = self._layouts[version.table] = Layout(version, schema)
        return known


def _fits(layout: Layout, found: TableFacts, catalog: Catalog, state: TableState | None) -> bool:
    """True when the layout is that of the schema in force at each of the changes."""
    wanted = layout.version.columns, layout.version.key
    cut = steps(found, catalog, state.position if state else None)
    return all((step.version.columns, step.version.key) == wanted for step in cut)


def _counts(found: Mapping[TableId, TableFacts]) -> Counts:
    """Of changes that were read in the driver: none of them is passed over."""
    return Counts(sum(one.changes for one in found.values()), 0, 0)
