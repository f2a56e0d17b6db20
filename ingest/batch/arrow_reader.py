"""Changes read in the driver, by Arrow.

Up to millions of changes, Spark needs longer to plan and compile the decoding than Arrow needs for all of it.
What is here is only the plain: tables with a key, changes that come for the first time, values that are what
Debezium writes. A topic with anything else in this batch is left to Spark, which has a reason for it, a place to
set it aside, and every rule (``envelope``, ``dedup``, ``row_images``, ``held_back``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import reduce
from threading import Event
from typing import Any

import pyarrow as pa

from ingest.arrow import change_facts, record_decoder
from ingest.arrow.column_values import UnfitError
from ingest.arrow.json_columns import Layout
from ingest.batch.record_reader import Reading
from ingest.kafka.fetch import FetchError
from ingest.kafka.ports import Log, Ranges
from ingest.model import reasons
from ingest.model.epochs import Epoch, epoch_of
from ingest.model.manifest import Entry, Place
from ingest.model.offset_ranges import filled
from ingest.model.topics import TableId
from ingest.schema.steps import TableFacts

MAX_BYTES = 2**30
"""Of one batch's typed rows; more are Spark's, which spills to disk where Python would run out of memory."""

AHEAD = 64 * 2**20
"""Bytes of records that wait to be read while more are fetched."""


def read(
    log: Log,
    ranges: Ranges,
    layouts: Mapping[str, Layout],
    others: Mapping[str, str],
    epochs: Sequence[Epoch],
    previous: Entry | None,
    pool: Executor,
    most: int | None = None,
) -> tuple[Reading, dict[str, str]]:
    """What can be read of a batch here, and the topics that are left to Spark, each with why. ``layouts``: by
    topic, of tables whose like can be read here; ``others``: of all others touched, why not. ``most``: bytes of rows
    after which no more records are taken, and the batch ends (``Reading.cut``); None: all are.
    """
    touched = filled(ranges)
    topics = {topic for topic, _ in touched}
    wanted = {place: r for place, r in touched.items() if place[0] in layouts}
    found = _Found(layouts, epochs, previous, {**others})
    if not wanted:
        return Reading(), found.others
    cut, enough = dict[Place, int](), Event()
    try:
        for records in log.bring(wanted, enough):
            found.take(records, pool)
            if found.bytes > MAX_BYTES:
                return Reading(), dict.fromkeys(topics, reasons.MANY_ROWS.of())
            if found.others.keys() >= topics:
                return Reading(), found.others
            if most is not None and found.expected >= most:
                enough.set()  # what has come of others is brought: thrown away each time, it would never be read
        if enough.is_set():
            cut = found.cut(wanted)
        found.settle()
    except FetchError as failure:
        return Reading(), dict.fromkeys(topics, reasons.NOT_FETCHED.of(words=failure))
    return replace(found.result(pool), cut=cut), found.others


@dataclass(frozen=True)
class _Piece:
    """Records of one partition that were read: its row for ``TableFacts.combine``, and a MERGE's source rows."""

    facts: dict[str, Any]
    rows: pa.Table


@dataclass(frozen=True)
class _Begun:
    """Records of one partition that are being read."""

    place: Place
    bytes: int
    future: Future[_Piece | str]


@dataclass
class _Found:
    """What was read so far; a topic that turns out to be Spark's is forgotten."""

    layouts: Mapping[str, Layout]
    epochs: Sequence[Epoch]
    previous: Entry | None
    others: dict[str, str]
    bytes: int = 0
    """Of rows that were read."""
    _of: int = 0
    """Of the records that they were read from."""
    _ends: dict[Place, int] = field(default_factory=dict)
    """Where what was taken of each partition ends."""
    _whole: set[Place] = field(default_factory=set)
    """Partitions of which no record is left."""
    _pieces: dict[Place, list[_Piece]] = field(default_factory=dict)
    _begun: deque[_Begun] = field(default_factory=deque)
    _newest: dict[Place, dict[str, Any] | None] = field(default_factory=dict)
    """Where each partition's streamed changes were by then: a ``high_water``."""

    def take(self, records: Mapping[Place, pa.Table], pool: Executor) -> None:
        """Some records of any partitions, each partition's in a thread, while the next ones are fetched."""
        for place, part in records.items():
            if not part.num_rows:
                self._whole.add(place)
            elif place[0] not in self.others:
                self._ends[place] = part["offset"][-1].as_py() + 1
                self._begun.append(_Begun(place, part.nbytes, pool.submit(self._read, place, part)))
        self.settle(AHEAD)

    def cut(self, wanted: Ranges) -> dict[Place, int]:
        """Partitions of which not all of these ranges was taken, and where it ends. A topic that turned out to be Spark's is all its."""
        ends = {place: self._ends.get(place, start) for place, (start, _) in wanted.items()}
        return {
            place: ends[place]
            for place, (_, end) in wanted.items()
            if place[0] not in self.others and place not in self._whole and ends[place] < end
        }

    def settle(self, but: int = 0) -> None:
        """Wait for what was taken, all but so many bytes of it."""
        while self._unread > but:
            one = self._begun.popleft()
            piece = one.future.result()
            if isinstance(piece, str):
                self.others[one.place[0]] = piece
                continue
            if not change_facts.follows(self._newest.get(one.place), piece.facts):
                self.others[one.place[0]] = "sent again"
            self._newest[one.place] = piece.facts["high_water"] or self._newest.get(one.place)
            self._pieces.setdefault(one.place, []).append(piece)
            self.bytes += piece.rows.nbytes
            self._of += one.bytes

    @property
    def expected(self) -> int:
        """Bytes of rows, those among them that the records taken last will be, if they are like the ones before. Rows of a
        few numbers are a tenth of their records, those of long texts nearly all of them.
        """
        rows = self.bytes / self._of if self._of else 1.0
        return self.bytes + int(rows * self._unread)

    @property
    def _unread(self) -> int:
        """Bytes of the records that are being read."""
        return sum(one.bytes for one in self._begun)

    def _read(self, place: Place, records: pa.Table) -> _Piece | str:
        layout, offsets = self.layouts[place[0]], records["offset"]
        first, last = (epoch_of(self.epochs, place, offsets[at].as_py()) for at in (0, -1))
        state = self.previous.tables.get(str(layout.version.table)) if self.previous else None
        mark = self.previous.high_water.get(place) if self.previous else None
        try:
            if first != last:
                raise UnfitError("of two epochs")
            changes = record_decoder.decode(records, layout, first)
            change_facts.refuse_unnamed(changes.notes)
            change_facts.refuse_repeated(changes.notes)
            change_facts.refuse_old(changes.notes, mark, state.floor if state else None)
        except UnfitError as unfit:
            return str(unfit)
        return _Piece(change_facts.facts(changes.notes, place, layout), changes.rows)

    def result(self, pool: Executor) -> Reading:
        """All that was read of topics that are not left to Spark."""
        tables: dict[TableId, list[_Piece]] = {}
        facts = []
        for place in sorted(self._pieces):
            pieces = self._pieces.pop(place)
            if place[0] not in self.others:
                tables.setdefault(self.layouts[place[0]].version.table, []).extend(pieces)
                facts.append(reduce(change_facts.joined, [piece.facts for piece in pieces]))
        rows = dict(zip(tables, pool.map(_rows, tables.values()), strict=True))
        return Reading.in_driver(TableFacts.combine(facts), rows)


def _rows(pieces: list[_Piece]) -> pa.Table:
    """Of all pieces, which are let go of."""
    whole = pa.concat_tables(piece.rows for piece in pieces)
    pieces.clear()
    return whole.combine_chunks()
