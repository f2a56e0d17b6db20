"""Some records of one topic partition, as a piece of a batch: a MERGE's source rows, and what they mean for their table.

A pure function of records and layouts, so that it is the same where it runs: in threads of the driver (``arrow_reader``) or in
Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow import change_facts, record_decoder
from ingest.arrow.column_values import UnfitError
from ingest.arrow.layouts import Layouts
from ingest.arrow.record_decoder import Changes
from ingest.model import reasons
from ingest.model.epochs import Epoch, epoch_of
from ingest.model.manifest import Entry, HighWater, Place
from ingest.model.position import Position


@dataclass(frozen=True)
class Before:
    """What is known of a topic before its records are read. ``floor``: of its table, before which nothing counts any more;
    ``marks``: by partition, up to where its changes are applied; ``barriers``: DDLs that may lie among them; ``waits``: keys that wait
    in quarantine, as Kafka has them.
    """

    layouts: Layouts
    floor: Position | None
    marks: Mapping[Place, HighWater]
    barriers: Sequence[Position] = ()
    waits: frozenset[bytes] = frozenset()
    logs: bool = False
    """Whether the table has a change log, which wants each change, with the row before it (``record_decoder.LOGGED``)."""

    @classmethod
    def of(
        cls,
        layouts: Layouts,
        places: Iterable[Place],
        previous: Entry | None,
        barriers: Sequence[Position] = (),
        waits: frozenset[bytes] = frozenset(),
        *,
        logs: bool = False,
    ) -> Before:
        """As the manifest's newest row has it. ``places``: the topic's partitions that are read."""
        if previous is None:
            return cls(layouts, None, {}, barriers, waits, logs)
        state = previous.tables.get(str(layouts.table))
        found = {place: previous.high_water.get(place) for place in places}
        marks = {place: mark for place, mark in found.items() if mark is not None}
        return cls(layouts, state.floor if state else None, marks, barriers, waits, logs)


@dataclass(frozen=True)
class Piece:
    """Records of one partition that one layout reads. ``start``: the offset of the first of these records, or of those that they came
    with; ``facts``: their row for ``TableFacts.combine``; ``layout``: its number in :class:`Layouts`.
    """

    start: int
    facts: dict[str, Any]
    layout: int
    rows: pa.Table

    @property
    def truncates(self) -> list[Position]:
        """Those among them."""
        return [Position.from_mapping(place) for place in self.facts["truncates"]]


@dataclass(frozen=True)
class Odd:
    """A record that Arrow does not read. All before it, by ``offset``, are read; ``why``."""

    offset: int
    why: str


@dataclass(frozen=True)
class Read:
    """Of some records of one partition: those before ``odd``, or all."""

    pieces: list[Piece]
    odd: Odd | None = None


def read(place: Place, records: pa.Table, before: Before, epochs: Sequence[Epoch]) -> Read:
    """Some records of a partition (``fetch.RECORDS``, and ``key`` where one waits), in order; a piece for each layout that they need, up to
    the first record that is for Spark to read.
    """
    waits = _waiting(records, before.waits)
    some = records if waits is None else records.slice(0, waits)
    try:
        odd = None if waits is None else Odd(_offset(records, waits), reasons.KEY_WAITS.of())
        return Read(_pieces(place, some, before, epochs), odd)
    except UnfitError as unfit:
        why = str(unfit)
    first = _first_odd(place, some, before, epochs)
    for many in (first, _looked_up(some, first)):
        with suppress(UnfitError):
            found = _pieces(place, some.slice(0, many), before, epochs)
            return Read(found, Odd(_offset(some, many), why))
    return Read([], Odd(_offset(some, 0), why))


def _waiting(records: pa.Table, waits: frozenset[bytes]) -> int | None:
    """The number of the first record of a key that waits."""
    if not waits:
        return None
    held = pa.array([*waits], pa.binary())
    found = pc.index(pc.is_in(records["key"], held), pa.scalar(True, pa.bool_())).as_py()
    return None if found < 0 else int(found)


def _offset(records: pa.Table, number: int) -> int:
    return int(records["offset"][number].as_py())


def _first_odd(place: Place, records: pa.Table, before: Before, epochs: Sequence[Epoch]) -> int:
    """Of records that do not fit, the number of one up to which they are likely to. Each half that is tried is half of the last one, so
    that all of it costs no more than to read them once.
    """
    start, end = 0, records.num_rows
    while end - start > 1:
        middle = (start + end) // 2
        first = max(start - 1, 0)  # with the one before, since their order counts
        try:
            _changes(place, records.slice(first, middle - first), before, epochs)
            start = middle
        except UnfitError:
            end = middle
    return start


def _looked_up(records: pa.Table, most: int) -> int:
    """How many of the first ``most`` end with a snapshot's row of which somebody has looked which run wrote it (``fetch.RECORDS``)."""
    runs = records["run"].slice(0, most).is_valid().to_pylist()
    return next((number + 1 for number in reversed(range(most)) if runs[number]), 0)


def _pieces(
    place: Place, records: pa.Table, before: Before, epochs: Sequence[Epoch]
) -> list[Piece]:
    """Raises :class:`UnfitError`."""
    if not records.num_rows:
        return []
    found = _changes(place, records, before, epochs)
    for _, changes in found:
        change_facts.refuse_unnamed(changes.notes)
    start = _offset(records, 0)
    return [
        Piece(
            start,
            change_facts.facts(changes.notes, place, before.layouts.each[number]),
            number,
            changes.rows,
        )
        for number, changes in found
    ]


def _changes(
    place: Place, records: pa.Table, before: Before, epochs: Sequence[Epoch]
) -> list[tuple[int, Changes]]:
    """By the number of their layout. Raises :class:`UnfitError`."""
    first, last = (epoch_of(epochs, place, _offset(records, at)) for at in (0, -1))
    if first != last:
        raise UnfitError("of two epochs")
    logged = place[1] if before.logs else None
    found = list(_decoded(records, before.layouts, first, logged=logged))
    for _, changes in found:
        change_facts.refuse_repeated(changes.notes)
        change_facts.refuse_old(changes.notes, before.marks.get(place), before.floor)
    return found


def _decoded(
    records: pa.Table, layouts: Layouts, epoch: int, *, logged: int | None
) -> Iterator[tuple[int, Changes]]:
    """By the number of their layout. Raises :class:`UnfitError`."""
    if len(layouts.each) == 1:
        yield 0, record_decoder.decode(records, layouts.each[0], epoch, logged=logged)
        return
    records = record_decoder.with_values(records)
    if not records.num_rows:
        raise UnfitError("no record")
    # Their places cost a third of what reading them costs, so they are looked at by themselves only where a layout begins among them.
    ends = pa.concat_tables([records.slice(0, 1), records.slice(records.num_rows - 1)])
    first, last = _numbers(ends, layouts, epoch).to_pylist()
    if first == last:
        changes = record_decoder.decode(records, layouts.each[first], epoch, logged=logged)
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
        yield number, record_decoder.decode(part, layouts.each[number], epoch, logged=logged)


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
