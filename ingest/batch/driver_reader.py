"""Plain records read in the driver, without Spark: which topics may be, by which layout, and whether what was read fits
(``arrow_reader`` reads).
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.arrow.json_columns import Layout
from ingest.batch import arrow_reader
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest
from ingest.batch.stage_times import Stopwatch
from ingest.changes.row_images import RowSchema
from ingest.model import reasons
from ingest.model.manifest import Entry, TableState
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.set_aside import Spans
from ingest.schema.steps import TableFacts, steps


class DriverReader:
    """Keeps the layouts of tables from one batch to the next."""

    def __init__(self, job: ReaderJob) -> None:
        self._job = job
        self._pipeline = job.pipeline
        self._layouts: dict[TableId, Layout] = {}

    def read(
        self, request: ReadRequest, watch: Stopwatch
    ) -> tuple[Reading | None, Mapping[str, str]]:
        """Stage: ``read``."""
        left = self._left(request)
        plain = request.topics - left.keys()
        if not plain:
            return None, left
        reading, others = self._plain(request, plain, left)
        watch.done("read")
        return reading, others

    def release(self) -> None:
        """Nothing is kept for a batch."""

    def _left(self, request: ReadRequest) -> dict[str, str]:
        """Topics that Spark has to read, which has all the rules, each with why."""
        note, topics = request.note, request.topics
        why = special(note, late=request.late, keeps_state=self._pipeline.dedup.keeps_state)
        if not self._job.collects:
            why = ""
        if why is not None:
            return dict.fromkeys(topics, why)
        waits = self._job.held.topics(note.batch_id)
        paused = {self._pipeline.topic(TableId.parse(name)) for name in note.paused}
        left = dict.fromkeys(topics & waits, reasons.KEY_WAITS.of())
        return left | dict.fromkeys(topics & paused, reasons.PAUSED.of())

    def _plain(
        self, request: ReadRequest, plain: set[str], left: Mapping[str, str]
    ) -> tuple[Reading, dict[str, str]]:
        """What was read of these topics, and all topics that were not, with why."""
        catalog, previous, job = request.catalog, request.previous, self._job
        layouts, others = self._known(catalog, plain)
        others |= left
        for topic in self._unreadable(request.aside, previous) & layouts.keys():
            others[topic] = reasons.UNREADABLE_COLUMN.of()
            del layouts[topic]
        read, others = arrow_reader.read(
            job.log,
            request.note.ranges,
            layouts,
            others,
            job.epochs,
            previous,
            job.pool,
            request.most,
        )
        states = previous.tables if previous else {}
        fits = {
            layout.version.table
            for layout in layouts.values()
            if (found := read.facts.get(layout.version.table))
            and _fits(layout, found, catalog, states.get(str(found.table)))
        }
        again = {
            topic: reasons.COLUMNS_CHANGE.of()
            for topic, layout in layouts.items()
            if layout.version.table in read.facts.keys() - fits
        }
        return read.of(fits), {**others, **again}

    def _unreadable(self, aside: Spans, previous: Entry | None) -> set[str]:
        """Topics in which changes may still come that cannot be read."""
        found = set()
        for table, spans in aside.items():
            state = previous.tables.get(str(table)) if previous else None
            at = state.position if state else None
            if any(span.end is None or at is None or at < span.end for span in spans):
                found.add(self._pipeline.topic(table))
        return found

    def _known(
        self, catalog: Catalog, topics: set[str]
    ) -> tuple[dict[str, Layout], dict[str, str]]:
        """By topic, the layouts of tables that can be read in the driver; of all others, why they cannot."""
        found: dict[str, Layout] = {}
        others = dict.fromkeys(topics, reasons.UNKNOWN_TABLE.of())
        for version in catalog.current():
            topic = self._pipeline.topic(version.table)
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
            readable = admitted(version, self._pipeline.lake.profile)
            zero = self._pipeline.source.epoch_dates
            schema = RowSchema.of(readable.columns, version.key, zero)
            known = self._layouts[version.table] = Layout(version, schema)
        return known


def special(note: Note, *, late: bool, keeps_state: bool) -> str | None:
    """Why Spark alone can read such a batch, or None."""
    if late:
        return reasons.ALL_LATE.of()
    if keeps_state:
        return reasons.REMEMBERED.of()
    return reasons.TAKEN_UP_AGAIN.of() if note.replay or note.ddl else None


def _fits(layout: Layout, found: TableFacts, catalog: Catalog, state: TableState | None) -> bool:
    """True when the layout is that of the schema in force at each of the changes."""
    wanted = layout.version.columns, layout.version.key
    cut = steps(found, catalog, state.position if state else None)
    return all((step.version.columns, step.version.key) == wanted for step in cut)
