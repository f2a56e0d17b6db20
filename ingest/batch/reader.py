"""What a batch holds: its plain changes read in the driver, all others by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.arrow.json_columns import Layout
from ingest.batch import arrow_reader
from ingest.batch.arrow_reader import Read
from ingest.batch.stage_times import Stopwatch
from ingest.batch.table_definitions import InForce
from ingest.changes import batch_facts, dedup, envelope
from ingest.changes.batch_facts import Counts
from ingest.changes.kept_frames import free, keep
from ingest.changes.row_images import RowSchema
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log, parts
from ingest.lake.quarantine import held_back
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model.epochs import Epoch
from ingest.model.manifest import Entry, Place, TableState, filled
from ingest.model.position_ties import Tie
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.set_aside import Spans
from ingest.schema.steps import TableFacts, steps


@dataclass
class Reading:
    """A batch as it was read. ``rows``: a MERGE's source rows of the tables that were read in the driver;
    ``changes``: all others' (``dedup.marked``), None where there are none; ``left``: topics of these, with why.
    """

    facts: dict[TableId, TableFacts]
    counts: Counts
    rows: Mapping[TableId, pa.Table]
    changes: DataFrame | None
    left: Mapping[str, str] = field(default_factory=dict)
    ties: Sequence[Tie] = ()
    """Changes that were sent again, or are others at the same place."""

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
    held: HeldBack
    collects: bool
    """True when changes are wanted in the driver at all."""
    _layouts: dict[TableId, Layout] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)

    def read(
        self,
        batch: DataFrame,
        seen: InForce,
        previous: Entry | None,
        waiting: Sequence[TableId],
        watch: Stopwatch,
        *,
        late: bool,
    ) -> Reading:
        """``waiting``: tables of which changes waited that are taken in now; ``late``: all of it was late to Spark.
        Stages: ``read`` in the driver, ``decode`` by Spark.
        """
        note, catalog, aside = seen.note, seen.catalog, seen.aside
        touched = list(filled(note.ranges))
        left = self._left(note, {topic for topic, _ in touched}, late=late)
        read, others = Read(), dict(left)
        if plain := {topic for topic, _ in touched} - left.keys():
            read, others = self._in_driver(note, catalog, aside, previous, plain, left)
            watch.done("read")
            if not others:
                return Reading(dict(read.facts), _counts(read.facts), read.rows, None)
        if read.rows:
            ranges = {place: r for place, r in note.ranges.items() if place[0] in others}
            batch = self.log.read(ranges)
            touched = [place for place in touched if place[0] in others]
            note = replace(note, ranges=ranges)
        changes = self._by_spark(batch, note, catalog, previous, waiting, touched, aside)
        found, counts = batch_facts.gather(changes)
        watch.done("decode")
        both = dict(sorted({**found, **read.facts}.items()))
        counts = replace(counts, changes=counts.changes + _counts(read.facts).changes)
        streamed = counts.passed_over or any(one.high_water for one in found.values())
        looked = streamed or self.pipeline.dedup.keeps_state
        ties = self._ties(changes, note, previous, touched) if looked else []
        return Reading(both, counts, read.rows, changes, others, ties)

    def _ties(
        self, changes: DataFrame, note: Note, previous: Entry | None, touched: Sequence[Place]
    ) -> list[Tie]:
        """What waited in quarantine was looked at when it came."""
        if note.replay:
            return []
        if self.pipeline.dedup.keeps_state:  # which has dropped what came again
            changes = envelope.changes(self.log.read(note.ranges), self.epochs)
        marks = previous.high_water if previous else {}
        return batch_facts.ties(
            changes, {place: marks[place] for place in touched if place in marks}
        )

    def release(self) -> None:
        """Free what was kept for a batch."""
        for frame in self._kept:
            free(frame)
        self._kept = []

    def _left(self, note: Note, topics: set[str], *, late: bool) -> dict[str, str]:
        """Topics that Spark has to read, which has all the rules, each with why."""
        why = special(note, late=late, keeps_state=self.pipeline.dedup.keeps_state)
        if not self.collects:
            why = ""
        elif why is None:
            topics, why = topics & self.held.topics(note.batch_id), "a key waits in quarantine"
        return dict.fromkeys(topics, why)

    def _by_spark(
        self,
        batch: DataFrame,
        note: Note,
        catalog: Catalog,
        previous: Entry | None,
        waiting: Sequence[TableId],
        touched: Sequence[Place],
        aside: Spans,
    ) -> DataFrame:
        by = self.pipeline.dedup.by
        if not self.pipeline.dedup.keeps_state:  # whose partitions are its state's
            batch = batch.coalesce(parts(note.ranges, batch.sparkSession.sparkContext))
        marked = batch_facts.marked(batch, self.epochs, previous, touched, by)
        marked = dedup.set_aside(dedup.paused(marked, note.paused), aside)
        states = previous.tables if previous else {}
        changes = keep(held_back.replayable(marked, catalog, states, waiting))
        self._kept.append(changes)
        return changes

    def _in_driver(
        self,
        note: Note,
        catalog: Catalog,
        aside: Spans,
        previous: Entry | None,
        plain: set[str],
        left: Mapping[str, str],
    ) -> tuple[Read, dict[str, str]]:
        """What was read of these topics, and those that are Spark's, with why."""
        layouts, others = self._known(catalog, plain)
        others |= left
        for topic in self._unreadable(aside, previous) & layouts.keys():
            others[topic] = "a column that cannot be read"
            del layouts[topic]
        read, others = arrow_reader.read(
            self.log, note.ranges, layouts, others, self.epochs, previous, self.pool
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
            topic: "its columns change in this batch"
            for topic, layout in layouts.items()
            if layout.version.table in read.facts.keys() - fits
        }
        return Read(kept, rows), {**others, **again}

    def _unreadable(self, aside: Spans, previous: Entry | None) -> set[str]:
        """Topics in which changes may still come that cannot be read."""
        found = set()
        for table, spans in aside.items():
            state = previous.tables.get(str(table)) if previous else None
            at = state.position if state else None
            if any(span.end is None or at is None or at < span.end for span in spans):
                found.add(self.pipeline.topic(table))
        return found

    def _known(
        self, catalog: Catalog, topics: set[str]
    ) -> tuple[dict[str, Layout], dict[str, str]]:
        """By topic, the layouts of tables that can be read in the driver; of all others, why they cannot."""
        found: dict[str, Layout] = {}
        others = dict.fromkeys(topics, "no table that is known")
        for version in catalog.current():
            topic = self.pipeline.topic(version.table)
            if topic in topics:
                layout = self._layout(version)
                why = layout.unreadable()
                if why is None:
                    found[topic] = layout
                    del others[topic]
                else:
                    others[topic] = why
        return found, others

    def _layout(self, version: SchemaVersion) -> Layout:
        known = self._layouts.get(version.table)
        if known is None or known.version != version:
            readable = admitted(version, self.pipeline.lake.profile)
            zero = self.pipeline.source.epoch_dates
            schema = RowSchema.of(readable.columns, version.key, zero)
            known = self._layouts[version.table] = Layout(version, schema)
        return known


def special(note: Note, *, late: bool, keeps_state: bool) -> str | None:
    """Why Spark alone can read such a batch, or None."""
    if late:
        return "all of it came late to Spark"
    if keeps_state:
        return "Spark remembers what it has seen"
    if note.paused:
        return "a policy pauses a table"
    return "it is taken up again" if note.replay or note.ddl else None


def _fits(layout: Layout, found: TableFacts, catalog: Catalog, state: TableState | None) -> bool:
    """True when the layout is that of the schema in force at each of the changes."""
    wanted = layout.version.columns, layout.version.key
    cut = steps(found, catalog, state.position if state else None)
    return all((step.version.columns, step.version.key) == wanted for step in cut)


def _counts(found: Mapping[TableId, TableFacts]) -> Counts:
    """Of changes that were read in the driver: none of them is passed over."""
    return Counts(sum(one.changes for one in found.values()), 0, 0)
