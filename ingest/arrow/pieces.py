"""Some records of one topic partition, as a piece of a batch: a MERGE's source rows, and what they mean for their table.

A pure function of records and layouts, so that it is the same where it runs: in threads of the driver (``arrow_reader``) or in
Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow import change_facts, record_decoder
from ingest.arrow.column_values import UnfitError
from ingest.arrow.layouts import Layouts
from ingest.arrow.record_decoder import Changes
from ingest.arrow.source_rows import SourceRows
from ingest.model.epochs import Epoch, epoch_of
from ingest.model.manifest import Entry, HighWater, Place
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.steps import TableFacts


@dataclass(frozen=True)
class Before:
    """What is known of a topic before its records are read. ``floor``: of its table, before which nothing counts any more;
    ``marks``: by partition, up to where its changes are applied; ``barriers``: DDLs that may lie among them.
    """

    layouts: Layouts
    floor: Position | None
    marks: Mapping[Place, HighWater]
    barriers: Sequence[Position] = ()

    @classmethod
    def of(
        cls,
        layouts: Layouts,
        places: Iterable[Place],
        previous: Entry | None,
        barriers: Sequence[Position] = (),
    ) -> Before:
        """As the manifest's newest row has it. ``places``: the topic's partitions that are read."""
        if previous is None:
            return cls(layouts, None, {}, barriers)
        state = previous.tables.get(str(layouts.table))
        found = {place: previous.high_water.get(place) for place in places}
        marks = {place: mark for place, mark in found.items() if mark is not None}
        return cls(layouts, state.floor if state else None, marks, barriers)


@dataclass(frozen=True)
class Piece:
    """Records of one partition that one layout reads. ``facts``: their row for ``TableFacts.combine``; ``layout``: its number in
    :class:`Layouts`.
    """

    facts: dict[str, Any]
    layout: int
    rows: pa.Table

    @property
    def truncates(self) -> list[Position]:
        """Those among them."""
        return [Position.from_mapping(place) for place in self.facts["truncates"]]


def read(
    place: Place, records: pa.Table, before: Before, epochs: Sequence[Epoch]
) -> list[Piece] | str:
    """Some records of a partition (``fetch.RECORDS``), in order; a piece for each layout that they need. A text where they are
    for Spark to read: why.
    """
    offsets = records["offset"]
    first, last = (epoch_of(epochs, place, offsets[at].as_py()) for at in (0, -1))
    try:
        if first != last:
            raise UnfitError("of two epochs")
        found = list(_decoded(records, before.layouts, first))
        for _, changes in found:
            change_facts.refuse_unnamed(changes.notes)
            change_facts.refuse_repeated(changes.notes)
            change_facts.refuse_old(changes.notes, before.marks.get(place), before.floor)
    except UnfitError as unfit:
        return str(unfit)
    return [
        Piece(
            change_facts.facts(changes.notes, place, before.layouts.each[number]),
            number,
            changes.rows,
        )
        for number, changes in found
    ]


def _decoded(records: pa.Table, layouts: Layouts, epoch: int) -> Iterator[tuple[int, Changes]]:
    """By the number of their layout. Raises :class:`UnfitError`."""
    if len(layouts.each) == 1:
        yield 0, record_decoder.decode(records, layouts.each[0], epoch)
        return
    records = record_decoder.with_values(records)
    if not records.num_rows:
        raise UnfitError("no record")
    # Their places cost a third of what reading them costs, so they are looked at by themselves only where a layout begins among them.
    ends = pa.concat_tables([records.slice(0, 1), records.slice(records.num_rows - 1)])
    first, last = _numbers(ends, layouts, epoch).to_pylist()
    if first == last:
        changes = record_decoder.decode(records, layouts.each[first], epoch)
        if not _all_within(changes.notes, layouts, first):
            raise UnfitError("its columns change in another order than its offsets")
        yield first, changes
        return
    numbers = _numbers(records, layouts, epoch)
    if not pc.all(pc.less_equal(numbers[:-1], numbers[1:])).as_py():
        # Snapshots' rows may stand among newer changes: which of them is the last would be told of each part alone.
        raise UnfitError("its columns change in another order than its offsets")
    for number in numbers.unique().to_pylist():
        part = records.filter(pc.equal(numbers, number))
        yield number, record_decoder.decode(part, layouts.each[number], epoch)


def _numbers(records: pa.Table, layouts: Layouts, epoch: int) -> pa.ChunkedArray:
    """The layout of each record. Raises :class:`UnfitError` for one of before the first."""
    places = record_decoder.places(records, epoch)
    numbers = pa.repeat(pa.scalar(-1, pa.int32()), records.num_rows)
    for start in layouts.starts:
        behind = pc.invert(change_facts.before(places, start))
        numbers = pc.add(numbers, pc.cast(behind, pa.int32()))
    if pc.min(numbers).as_py() < 0:
        raise UnfitError("older than its table's columns")
    return numbers


def _all_within(notes: pa.Table, layouts: Layouts, number: int) -> bool:
    end = layouts.end(number)
    early = pc.any(change_facts.before(notes, layouts.starts[number])).as_py()
    return not early and (end is None or bool(pc.all(change_facts.before(notes, end)).as_py()))


@dataclass
class Gathered:
    """The pieces of a batch, as they come. ``others``: topics that turned out to be Spark's, each with why; what was read of them
    is forgotten.
    """

    befores: Mapping[str, Before]
    others: dict[str, str]
    bytes: int = 0
    """Of rows that were read."""
    _pieces: dict[Place, list[Piece]] = field(default_factory=dict)
    _newest: dict[Place, dict[str, Any] | None] = field(default_factory=dict)
    """Where each partition's streamed changes were by then: a ``high_water``."""

    def add(self, place: Place, found: list[Piece] | str) -> None:
        """What was read of the records that follow the last ones of this partition."""
        topic = place[0]
        if isinstance(found, str):
            self.others.setdefault(topic, found)
            return
        for piece in found:
            if not change_facts.follows(self._newest.get(place), piece.facts):
                self.others.setdefault(topic, "sent again")
            self._newest[place] = piece.facts["high_water"] or self._newest.get(place)
            self._pieces.setdefault(place, []).append(piece)
            self.bytes += piece.rows.nbytes

    def facts(self) -> dict[TableId, TableFacts]:
        """Of tables that are not left to Spark."""
        rows = [
            reduce(change_facts.joined, [piece.facts for piece in pieces])
            for place, pieces in sorted(self._pieces.items())
            if place[0] not in self.others
        ]
        return TableFacts.combine(rows)

    def rows(self, pool: Executor) -> dict[TableId, SourceRows]:
        """Their rows, in the order of each partition, joined side by side; all pieces are let go of."""
        tables: dict[TableId, tuple[Layouts, list[Piece]]] = {}
        for place in sorted(self._pieces):
            pieces = self._pieces.pop(place)
            if place[0] not in self.others:
                layouts = self.befores[place[0]].layouts
                tables.setdefault(layouts.table, (layouts, []))[1].extend(pieces)
        return dict(zip(tables, pool.map(_joined, tables.values()), strict=True))


def _joined(of_table: tuple[Layouts, list[Piece]]) -> SourceRows:
    """All pieces of a table, which are let go of."""
    layouts, pieces = of_table
    by_layout: dict[int, list[pa.Table]] = {}
    for piece in pieces:
        by_layout.setdefault(piece.layout, []).append(piece.rows)
    pieces.clear()
    found = []
    for number in sorted(by_layout):
        whole = pa.concat_tables(by_layout.pop(number)).combine_chunks()
        found.append((layouts.each[number].version, whole))
    return SourceRows(tuple(found))
