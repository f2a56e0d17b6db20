"""Plain records read by Arrow: which topics may be, by which layout, where (``lane``), and whether what was read fits.

``arrow_reader`` reads them in the driver, ``task_reader`` in Spark's tasks; what both make is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingest.arrow.json_columns import Layout
from ingest.arrow.kept_rows import KeptRows
from ingest.arrow.layouts import Layouts, barriers, in_force
from ingest.arrow.pieces import Before
from ingest.arrow.source_rows import SourceRows
from ingest.batch import arrow_reader
from ingest.batch.odd_records import OddRecords
from ingest.batch.plain_request import PlainRequest
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest
from ingest.batch.stage_times import Stopwatch
from ingest.batch.task_reader import TaskReader
from ingest.changes.row_images import RowSchema
from ingest.kafka.lane import LaneFacts, lane, stays
from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry, Place
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.admission import admitted
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.set_aside import Spans
from ingest.schema.steps import TableFacts, steps


class PlainReader:
    """Keeps the layouts of tables from one batch to the next."""

    def __init__(self, job: ReaderJob) -> None:
        self._job = job
        self._pipeline = job.pipeline
        self._layouts: dict[TableId, Layouts] = {}
        self._tasks = TaskReader(job.log, job.epochs, job.pool)
        self._odd = OddRecords()

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
        """Free what was kept for a batch."""
        self._tasks.release()

    def _left(self, request: ReadRequest) -> dict[str, str]:
        """Topics that Spark has to read, which has all the rules, each with why."""
        note, topics = request.note, request.topics
        why = special(note, late=request.late)
        if self._pipeline.spark.lane == "columns":
            why = ""
        if why is not None:
            return dict.fromkeys(topics, why)
        waits = self._job.held.keys(note.batch_id)
        paused = {self._pipeline.topic(TableId.parse(name)) for name in note.paused}
        left = self._moved(request) if self._pipeline.dedup.keeps_state else {}
        many = {topic for topic in topics & waits.keys() if waits[topic] is None}
        many |= topics & self._job.held.read_again(note.ranges)
        left |= dict.fromkeys(many, reasons.KEY_WAITS.of())
        return left | dict.fromkeys(topics & paused, reasons.PAUSED.of())

    def _moved(self, request: ReadRequest) -> dict[str, str]:
        """Topics of several partitions of which one has had no streamed change yet: what was sent to another before may come again there,
        and Spark's state alone would know.
        """
        marks = request.previous.high_water if request.previous else {}
        places = {*marks, *request.touched}
        several = {topic for topic, partition in places if partition}
        unmarked = {
            place[0] for place in places if not (marks.get(place) and marks[place].position)
        }
        return dict.fromkeys(several & unmarked & request.topics, reasons.REMEMBERED.of())

    def _plain(
        self, request: ReadRequest, plain: set[str], left: Mapping[str, str]
    ) -> tuple[Reading, dict[str, str]]:
        """What was read of these topics, and all topics that were not, with why."""
        catalog, previous, job = request.catalog, request.previous, self._job
        layouts, others = self._known(catalog, plain, previous)
        others |= left
        for topic in self._unreadable(request.aside, previous) & layouts.keys():
            others[topic] = reasons.UNREADABLE_COLUMN.of()
            del layouts[topic]
        facts, note = self._lane_facts(request, plain), request.note
        in_driver = lane(facts) == "driver"
        befores = self._befores(request, layouts, folds=not in_driver)
        asked = PlainRequest(note.batch_id, note.ranges, befores, others, self._odd, request.most)
        if in_driver:
            read, others = arrow_reader.read(job.log, asked, job.epochs, job.pool)
        else:
            collects = job.collects and not stays(facts)
            read, others = self._tasks.read(job.session, asked, collects=collects)
        fits = {
            table
            for table, found in read.facts.items()
            # Each change was read with the layout of the schema in force at its place.
            if _fit(read.rows[table], found, catalog, _applied(table, previous))
        }
        again = {
            topic: reasons.COLUMNS_CHANGE.of()
            for topic, one in layouts.items()
            if one.table in read.facts.keys() - fits
        }
        return read.of(fits), {**others, **again}

    def _befores(
        self, request: ReadRequest, layouts: Mapping[str, Layouts], *, folds: bool
    ) -> dict[str, Before]:
        """By topic, what is known of it before it is read. ``folds``: changes are thrown away there that a newer one of their step
        covers, so that it has to be known where steps end.
        """
        places = dict[str, list[Place]]()
        for place in request.touched:
            places.setdefault(place[0], []).append(place)
        previous, found = request.previous, dict[str, Before]()
        waits = self._job.held.keys(request.note.batch_id)
        for topic, one in layouts.items():
            applied = _applied(one.table, previous)
            cuts = barriers(request.catalog, one.table, applied) if folds else ()
            found[topic] = Before.of(
                *(one, places[topic], previous, cuts, waits.get(topic) or frozenset()),
                logs=self._pipeline.logs(one.table),
            )
        return found

    def _lane_facts(self, request: ReadRequest, topics: set[str]) -> LaneFacts:
        ranges = request.note.ranges.items()
        records = sum(end - start for (topic, _), (start, end) in ranges if topic in topics)
        return LaneFacts.of(self._pipeline, records, request.expected)

    def _unreadable(self, aside: Spans, previous: Entry | None) -> set[str]:
        """Topics in which changes may still come that cannot be read."""
        found = set()
        for table, spans in aside.items():
            at = _applied(table, previous)
            if any(span.end is None or at is None or at < span.end for span in spans):
                found.add(self._pipeline.topic(table))
        return found

    def _known(
        self, catalog: Catalog, topics: set[str], previous: Entry | None
    ) -> tuple[dict[str, Layouts], dict[str, str]]:
        """By topic, the layouts of tables that Arrow can read; of all others, why they cannot."""
        found: dict[str, Layouts] = {}
        others = dict.fromkeys(topics, reasons.UNKNOWN_TABLE.of())
        current = {version.table for version in catalog.current()}
        # Where two tables share a topic, the one that is there still is the likelier one: it comes last.
        for table in sorted(catalog.versions, key=current.__contains__):
            topic = self._pipeline.topic(table)
            if topic not in topics:
                continue
            versions = in_force(catalog, table, _applied(table, previous))
            layouts = self._of(table, versions)
            if layouts is None:
                continue
            why = layouts.unreadable()
            if why is None:
                found[topic] = layouts
                others.pop(topic, None)
            else:
                found.pop(topic, None)
                others[topic] = why
        return found, others

    def _of(self, table: TableId, versions: Sequence[SchemaVersion]) -> Layouts | None:
        """Those of before, as far as they are the same: what is worked out of a layout is kept with it."""
        if not versions:
            return None
        known = self._layouts.get(table)
        if known is None or [one.version for one in known.each] != [*versions]:
            held = {one.version: one for one in known.each} if known else {}
            each = [held.get(version) or self._layout(version) for version in versions]
            known = self._layouts[table] = Layouts([one.position for one in versions], each)
        return known

    def _layout(self, version: SchemaVersion) -> Layout:
        readable = admitted(version, self._pipeline.lake.profile)
        zero = self._pipeline.source.epoch_dates
        return Layout(version, RowSchema.of(readable.columns, version.key, zero))


def _fit(
    rows: SourceRows | KeptRows, found: TableFacts, catalog: Catalog, applied: Position | None
) -> bool:
    """Where no steps can be told Spark reads the table, and it stands still by that (``StepCutter.prepare``)."""
    try:
        return rows.fit(steps(found, catalog, applied))
    except IngestError:
        return False


def special(note: Note, *, late: bool) -> str | None:
    """Why Spark alone can read such a batch, or None."""
    if late:
        return reasons.ALL_LATE.of()
    return reasons.TAKEN_UP_AGAIN.of() if note.replay or note.ddl or note.fill else None


def _applied(table: TableId, previous: Entry | None) -> Position | None:
    """The newest position of a table that the manifest has; None where it has none."""
    state = previous.tables.get(str(table)) if previous else None
    return state.position if state else None
