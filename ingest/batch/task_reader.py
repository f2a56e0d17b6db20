"""Plain records read in Spark's tasks: each fetches its share from Kafka, decodes it by Arrow and keeps the newest change per key.

One job reads all tables of a batch. What comes to the driver is facts and, where delta-rs commits, the rows that are left; of
the records themselves it sees none. Where Spark commits, the rows stay where they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ingest.arrow.pieces import Before, Gathered, Piece
from ingest.batch import in_task
from ingest.batch.arrow_reader import MAX_BYTES
from ingest.batch.in_task import NOT_FETCHED, TaskJob
from ingest.batch.record_reader import Reading
from ingest.batch.shares import Share, contiguous, shared
from ingest.changes.arrow_frames import mapped
from ingest.changes.kept_frames import free, keep
from ingest.changes.kept_rows import KeptPiece, KeptRows, opened
from ingest.kafka.ports import Log, Ranges
from ingest.model import reasons
from ingest.model.epochs import Epoch
from ingest.model.manifest import Place
from ingest.model.offset_ranges import filled
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId

PIECE = 4 * 2**20
"""Bytes of rows for which a share is made at the least: a task hands over some MiB at a time, whatever its limit."""

AT_MOST = 2
"""Times its part of the limit that a task may read: what others have less of is not to end the batch."""

_NOWHERE = pa.table({})
"""Of rows that are kept in Spark."""


@dataclass
class TaskReader:
    """Reads for one job. ``collects``: whether rows are wanted in the driver, where delta-rs merges them."""

    log: Log
    epochs: Sequence[Epoch]
    pool: Executor
    collects: bool
    _kept: list[DataFrame] = field(default_factory=list)

    def read(
        self,
        session: SparkSession,
        note: Note,
        befores: Mapping[str, Before],
        others: Mapping[str, str],
        most: int | None = None,
    ) -> tuple[Reading, dict[str, str]]:
        """As ``arrow_reader.read`` has it, of the batch of this note."""
        touched = filled(note.ranges)
        topics = {topic for topic, _ in touched}
        wanted = {place: r for place, r in touched.items() if place[0] in befores}
        if not wanted:
            return Reading(), {**others}
        job = self._job(session, note, wanted, befores, most)
        frame = _frame(session, job)
        if job.keeps:
            frame = keep(frame)
            self._kept.append(frame)
        try:
            come = _Come.of(frame.drop("rows") if job.keeps else frame, job.shares)
        except (PythonException, Py4JJavaError):
            # Spark's log says why, in words that may hold values of rows.
            return Reading(), dict.fromkeys(topics, reasons.NO_TASK.of())
        if come.failure:
            why = reasons.NOT_FETCHED.of(words=come.failure)
            return Reading(), dict.fromkeys(topics, why)
        until, cut = contiguous(wanted, come.reached())
        gathered = Gathered(befores, {**others})
        read = come.up_to(until)
        del come
        for row in read:
            gathered.add(row.place, [row.piece] if row.piece else row.odd or [])
        cut = {place: at for place, at in cut.items() if place[0] not in gathered.others}
        if cut and most is None:
            return Reading(), dict.fromkeys(topics, reasons.MANY_ROWS.of())
        facts = gathered.facts()
        rows: Mapping[TableId, Any]
        if job.keeps:
            taken = [row for row in read if row.place[0] not in gathered.others and row.piece]
            rows = _kept_rows(frame, taken, befores)
        else:
            del read  # each piece is let go of as it is joined
            rows = gathered.rows(self.pool)
        return replace(Reading.by_arrow(facts, rows, "tasks"), cut=cut), gathered.others

    def release(self) -> None:
        """Free what was kept for a batch."""
        for frame in self._kept:
            free(frame)
        self._kept = []

    def _job(
        self,
        session: SparkSession,
        note: Note,
        wanted: Ranges,
        befores: Mapping[str, Before],
        most: int | None,
    ) -> TaskJob:
        batch, source = note.batch_id, self.log.source(wanted)
        cores = session.sparkContext.defaultParallelism
        if not self.collects:  # it goes to Spark's disk, and has no limit (``TaskJob.keeps``)
            shares = shared(wanted, cores)
            return TaskJob(batch, source, befores, self.epochs, shares, None, keeps=True)
        limit = MAX_BYTES if most is None else most
        shares = shared(wanted, cores, limit // PIECE)
        each = max(AT_MOST * limit // len(shares), 1)
        return TaskJob(batch, source, befores, self.epochs, shares, each)


def _frame(session: SparkSession, job: TaskJob) -> DataFrame:
    """All that comes of all shares, a partition for each; ``in_task.SCHEMA``."""
    many = len(job.shares)
    schema = from_arrow_schema(in_task.SCHEMA)
    return mapped(session.range(0, many, 1, many), partial(in_task.read, job), schema)


def _kept_rows(
    frame: DataFrame, taken: Sequence[_Row], befores: Mapping[str, Before]
) -> dict[TableId, KeptRows]:
    """By table, where its pieces are. ``taken``: those that were read of it."""
    by_topic: dict[str, list[_Row]] = {}
    for row in taken:
        by_topic.setdefault(row.place[0], []).append(row)
    found = {}
    for topic, rows in by_topic.items():
        layouts = befores[topic].layouts
        pieces = [
            KeptPiece(one.layout, layouts.each[one.layout].version, row.spans, row.bytes)
            for row in rows
            if (one := row.piece)
        ]
        schemas = {row.piece.layout: from_arrow_schema(row.types) for row in rows if row.piece}
        mine = (F.col("topic") == topic) & F.col("layout").isNotNull()
        # A share may have parts of several partitions; those behind one that was not read to its end were read for nothing.
        parts = {(row.place[1], row.share) for row in rows}
        mine &= F.struct("partition", "share").isin(
            [F.struct(*map(F.lit, one)) for one in sorted(parts)]
        )
        of_table = frame.filter(mine).select("layout", "rows")
        found[layouts.table] = KeptRows(of_table, pieces, schemas)
    return found


@dataclass(frozen=True)
class _Row:
    """One row of ``in_task.SCHEMA``: of a piece, or of the end of a share's part of a partition. ``range``: that part."""

    share: int
    place: Place
    range: tuple[int, int]
    until: int | None
    odd: str | None
    piece: Piece | None = None
    spans: Sequence[tuple[Position, Position]] = ()
    bytes: int = 0
    types: pa.Schema | None = None


@dataclass(frozen=True)
class _Come:
    """What came of all shares, in their order."""

    rows: Sequence[_Row]

    @classmethod
    def of(cls, frame: DataFrame, shares: Sequence[Share]) -> _Come:
        """From ``in_task.SCHEMA``, with or without rows. Raises ``LookupError`` where a share is missing or came twice."""
        table = frame.toArrow()
        said = table.select([name for name in table.column_names if name != "rows"]).to_pylist()
        bodies: list[Any] = [None] * len(said)
        if "rows" in table.column_names:
            bodies = [body for chunk in table["rows"].chunks for body in chunk]
        rows = [_row(one, body, shares) for one, body in zip(said, bodies, strict=True)]
        ends = [(row.share, row.place) for row in rows if row.until is not None]
        wanted = {(number, place) for number, one in enumerate(shares) for place in one.ranges}
        if len(ends) != len(wanted) or {*ends} != wanted:
            raise LookupError("Spark's tasks have not read each share once")
        return cls(rows)

    @property
    def failure(self) -> str:
        """Why some share could not be fetched; empty where all could."""
        failed = (row.odd for row in self.rows if row.odd and row.odd.startswith(NOT_FETCHED))
        return next(failed, "").removeprefix(NOT_FETCHED)

    def reached(self) -> dict[Place, list[tuple[int, int, int]]]:
        """As :func:`contiguous` wants it."""
        found: dict[Place, list[tuple[int, int, int]]] = {}
        for row in self.rows:
            if row.until is not None:
                found.setdefault(row.place, []).append((*row.range, row.until))
        return found

    def up_to(self, until: Mapping[Place, int]) -> list[_Row]:
        """What was read without a gap."""
        return [row for row in self.rows if row.range[0] <= until[row.place]]


def _row(said: Mapping[str, Any], body: pa.Scalar | None, shares: Sequence[Share]) -> _Row:
    place = said["topic"], said["partition"]
    range_ = shares[said["share"]].ranges[place]
    if said["layout"] is None:
        return _Row(said["share"], place, range_, said["until"], said["odd"])
    rows = _NOWHERE if body is None else opened(body.as_buffer())
    spans = [
        (Position.parse(first), Position.parse(last)) for first, last in json.loads(said["spans"])
    ]
    types = pa.ipc.read_schema(pa.py_buffer(said["types"]))
    piece = Piece(json.loads(said["facts"]), said["layout"], rows)
    return _Row(said["share"], place, range_, None, None, piece, spans, said["bytes"], types)
