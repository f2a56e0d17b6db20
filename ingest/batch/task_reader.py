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
from itertools import groupby
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ingest.arrow.gathered import Gathered
from ingest.arrow.kept_rows import KeptPiece, KeptRows, opened
from ingest.arrow.pieces import Before, Odd, Piece, Read
from ingest.batch import in_task, spark_failure
from ingest.batch.arrow_reader import MAX_BYTES
from ingest.batch.in_task import NOT_FETCHED, TaskJob
from ingest.batch.job_descriptions import described, named
from ingest.batch.plain_request import PlainRequest
from ingest.batch.record_reader import Reading
from ingest.batch.shares import Share, contiguous, shared
from ingest.changes.arrow_frames import mapped
from ingest.changes.kept_frames import free, keep
from ingest.kafka.ports import Log
from ingest.model import reasons
from ingest.model.epochs import Epoch
from ingest.model.manifest import Place
from ingest.model.position import Position
from ingest.model.topics import TableId

PIECE = 4 * 2**20
"""Bytes of rows for which a share is made at the least: a task hands over some MiB at a time, whatever its limit."""

AT_MOST = 1.25
"""Times its part of the limit that a task may read: what others have less of is not to end the batch. All of it comes to the driver at once, which
holds it some five times over while it is written."""

_NOWHERE = pa.table({})
"""Of rows that are kept in Spark."""


@dataclass
class TaskReader:
    """Reads for one job."""

    log: Log
    epochs: Sequence[Epoch]
    pool: Executor
    _kept: list[DataFrame] = field(default_factory=list)

    def read(
        self, session: SparkSession, request: PlainRequest, *, collects: bool
    ) -> tuple[Reading, dict[str, str]]:
        """As ``arrow_reader.read`` has it. ``collects``: whether rows are wanted in the driver, where delta-rs merges them."""
        gathered = request.gathered()
        if not request.wanted:
            return Reading(), gathered.others
        job = self._job(session, request, collects=collects)
        frame = _frame(session, job)
        if job.keeps:
            frame = keep(frame)
            self._kept.append(frame)
        words = f"batch {request.batch}: {named(request.befores)}, read by Arrow"
        try:
            with described(session.sparkContext, words):
                come = _Come.of(frame.drop("rows") if job.keeps else frame, job.shares)
        except (PythonException, Py4JJavaError) as failure:
            if spark_failure.CANCELLED in spark_failure.kinds(failure):
                raise  # so would be what Spark's columns begin
            # Spark's log says why, in words that may hold values of rows.
            return Reading(), request.all_for(reasons.NO_TASK.of())
        if come.failure:
            return Reading(), request.all_for(reasons.NOT_FETCHED.of(words=come.failure))
        until, cut = contiguous(request.wanted, come.reached())
        come.put_together(until, gathered)
        cut = request.settle(gathered, cut)
        if cut and request.most is None:
            return Reading(), request.all_for(reasons.MANY_ROWS.of())
        if job.keeps and any(topic not in gathered.others for topic, _ in cut):
            # Where reading ended may hang on what Kafka gave when, and of a share that is read twice Spark may use either. So what
            # the batch has by now is read once more, to its end.
            self.release()
            again = request.again(gathered.others, cut)
            read, others = self.read(session, again, collects=collects)
            return replace(read, cut=cut), others
        facts = gathered.facts()
        rows: Mapping[TableId, Any]
        if job.keeps:
            taken = [row for row in come.rows if row.piece and row.place[0] not in gathered.others]
            rows = _kept_rows(frame, taken, request.befores)
        else:
            del come  # each piece is let go of as it is joined
            rows = gathered.rows(self.pool)
        return replace(Reading.by_arrow(facts, rows, "tasks"), cut=cut), gathered.others

    def release(self) -> None:
        """Free what was kept for a batch."""
        for frame in self._kept:
            free(frame)
        self._kept = []

    def _job(self, session: SparkSession, request: PlainRequest, *, collects: bool) -> TaskJob:
        wanted = request.wanted
        source = self.log.source(wanted, request.keyed)
        cores = session.sparkContext.defaultParallelism
        of = partial(TaskJob, request.batch, source, request.befores, self.epochs)
        if not collects:  # it goes to Spark's disk, and has no limit (``TaskJob.keeps``)
            return of(shared(wanted, cores), None, keeps=True)
        limit = MAX_BYTES if request.most is None else request.most
        shares = shared(wanted, cores, limit // PIECE)
        return of(shares, max(int(AT_MOST * limit) // len(shares), 1))


def _frame(session: SparkSession, job: TaskJob) -> DataFrame:
    """All that comes of all shares, a partition for each; ``in_task.SCHEMA``."""
    many = len(job.shares)
    schema = from_arrow_schema(in_task.SCHEMA)
    return mapped(session.range(0, many, 1, many), partial(in_task.read, job), schema)


def _kept_rows(
    frame: DataFrame, taken: Sequence[_Row], befores: Mapping[str, Before]
) -> dict[TableId, KeptRows]:
    """By table, where its pieces are. ``taken``: all of these."""
    by_topic: dict[str, list[_Row]] = {}
    for row in taken:
        by_topic.setdefault(row.place[0], []).append(row)
    found = {}
    for topic, rows in by_topic.items():
        layouts = befores[topic].layouts
        pieces = [
            KeptPiece(one.layout, layouts.each[one.layout].version, row.spans, row.bytes, row.keys)
            for row in rows
            if (one := row.piece)
        ]
        types = {row.piece.layout: row.types for row in rows if row.piece and row.types}
        of_table = frame.filter((F.col("topic") == topic) & F.col("layout").isNotNull())
        found[layouts.table] = KeptRows(of_table.select("layout", "rows"), pieces, types)
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
    keys: tuple[int, int] | None = None

    @property
    def start(self) -> int:
        """Of a piece; -1 for an end."""
        return self.piece.start if self.piece else -1


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

    def put_together(self, until: Mapping[Place, int], gathered: Gathered) -> None:
        """What was read without a gap, and where the first odd record of each partition is."""
        whole = (row for row in self.rows if row.range[0] <= until[row.place])
        for (_, place, _), rows in groupby(whole, lambda row: (row.share, row.place, row.start)):
            for end in (same := list(rows)):
                if end.odd and end.until is not None:
                    gathered.add(place, Read([], Odd(end.until, end.odd)))
            gathered.add(place, Read([row.piece for row in same if row.piece]))


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
    piece = Piece(said["start"], json.loads(said["facts"]), said["layout"], rows)
    keys = None if said["least"] is None else (said["least"], said["greatest"])
    size = said["bytes"]
    return _Row(said["share"], place, range_, None, None, piece, spans, size, types, keys)
