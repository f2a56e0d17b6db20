"""Rows of the manifest that hold only what differs from the row before, and what they mean. Pure.

A whole row says everything of every table and partition, and grows with them. Most rows are parts: they hold the tables,
ranges, marks and gaps that differ from the row before, as that stands once nothing moves any more (ranges empty, no changes).
A part names the whole row that it rests upon, which is at most :data:`EVERY` rows back, and the row before it. So the newest
state is read from a bounded number of rows, and a row that is missing between is noticed.

What a part cannot say is said by a whole row: a table or partition that is gone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, Place, TableState

EVERY = 50
"""One row in so many is whole. For a thousand tables it takes as much as a hundred parts; more of them would have to be read
by whoever asks for the newest state."""

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True)
class Last:
    """A row that the next one may rest upon: what it says with all before it, its whole row, and how many parts that has so
    far, this one included.
    """

    entry: Entry
    base: int
    parts: int = 0


def row(entry: Entry, last: Last | None, total: int) -> tuple[dict[str, Any], Last]:
    """A batch's row in the shape of ``manifest.SCHEMA``, and what the next one may rest upon. ``last``: the row before; None
    where that is not certain. ``total``: changes of all batches up to this one.
    """
    # What a start sets back is whole: an older version must not meet a part before the lake says that it has a newer format.
    may_be_part = last is not None and entry.kind != "rewind" and last.parts + 1 < EVERY
    if last is None or not may_be_part or _lacks(entry, last.entry):
        none = {"base": None, "follows": None, "gaps_gone": None, "gaps_at": None}
        return {**entry.as_row(), **none, "total_changes": total}, Last(entry, entry.batch_id)
    before = last.entry
    gone, at = _steps(before.gaps, entry.gaps)
    part = replace(
        entry,
        offsets=_differing({p: (end, end) for p, end in before.ends.items()}, entry.offsets),
        high_water=_differing(before.high_water, entry.high_water),
        tables=_differing({n: _still(state) for n, state in before.tables.items()}, entry.tables),
        gaps=tuple(entry.gaps[one] for one in at),
    )
    more = {"base": last.base, "follows": before.batch_id, "gaps_gone": gone, "gaps_at": at}
    return {**part.as_row(), **more, "total_changes": total}, Last(entry, last.base, last.parts + 1)


class Fold:
    """Rows taken in one after the other: what the last one of them says, with those it rests upon."""

    def __init__(self) -> None:
        self.newest: Entry | None = None
        """The last row, and of a part what it alone holds."""
        self._base = 0
        self._offsets = dict[Place, tuple[int, int]]()
        self._marks = dict[Place, HighWater]()
        self._tables = dict[str, TableState]()
        self._gaps: tuple[Gap, ...] = ()

    def goes_on_with(self, row: Mapping[str, Any]) -> bool:
        """Whether this row, as Spark or Arrow gives it, can be taken in: a whole one always, a part after the row that it
        follows. Of another term is one that followed a row of the same number, before the manifest was restored.
        """
        if row.get("base") is None:
            return True
        newest = self.newest
        return newest is not None and (self._base, newest.batch_id, newest.term) == (
            row["base"],
            row["follows"],
            row["term"],
        )

    def take(self, row: Mapping[str, Any]) -> None:
        """The next row, with which it goes on."""
        assert self.goes_on_with(row)
        found = Entry.from_row(row)
        if row.get("base") is None:
            self._base, self._gaps = found.batch_id, found.gaps
            self._offsets, self._marks, self._tables = {}, {}, {}
        else:
            self._come_to_rest()
            self._gaps = _stepped(self._gaps, row["gaps_gone"], row["gaps_at"], found.gaps)
        self._offsets |= found.offsets
        self._marks |= found.high_water
        self._tables |= found.tables
        self.newest = found

    def entry(self) -> Entry:
        """The batch of the last row."""
        assert self.newest is not None
        return replace(
            self.newest,
            offsets=dict(sorted(self._offsets.items())),
            high_water=dict(sorted(self._marks.items())),
            tables=dict(sorted(self._tables.items())),
            gaps=self._gaps,
        )

    def _come_to_rest(self) -> None:
        """What the last row's batch moved; all else rests already."""
        assert self.newest is not None
        for place, (_, end) in self.newest.offsets.items():
            self._offsets[place] = (end, end)
        for name, state in self.newest.tables.items():
            self._tables[name] = _still(state)


def _still(state: TableState) -> TableState:
    """A table once a batch that does not touch it is applied."""
    return replace(state, changes=0) if state.changes else state


def _lacks(entry: Entry, before: Entry) -> bool:
    """True where something is gone."""
    return not (
        before.offsets.keys() <= entry.offsets.keys()
        and before.high_water.keys() <= entry.high_water.keys()
        and before.tables.keys() <= entry.tables.keys()
    )


def _differing(before: Mapping[_K, _V], now: Mapping[_K, _V]) -> dict[_K, _V]:
    return {key: value for key, value in now.items() if key not in before or before[key] != value}


def _steps(before: Sequence[Gap], now: Sequence[Gap]) -> tuple[list[int], list[int]]:
    """From one list of gaps to the other: which places of the first do not stay, and at which of the second others stand.
    What stays keeps its order; not always the most that could, which costs a few bytes.
    """
    if before == now:
        return [], []
    places = defaultdict[Gap, deque[int]](deque)
    for place, gap in enumerate(before):
        places[gap].append(place)
    stays, at, upto = set[int](), list[int](), -1
    for place, gap in enumerate(now):
        known = places.get(gap, ())
        while known and known[0] <= upto:
            known.popleft()
        if known:
            upto = known[0]
            stays.add(upto)
        else:
            at.append(place)
    return [place for place in range(len(before)) if place not in stays], at


def _stepped(
    before: Sequence[Gap], gone: Iterable[int] | None, at: Iterable[int] | None, new: Iterable[Gap]
) -> tuple[Gap, ...]:
    """The second list from the first."""
    left = set(gone or ())
    if not left and not at:
        return tuple(before)
    found = [gap for place, gap in enumerate(before) if place not in left]
    for place, gap in zip(at or (), new, strict=True):  # ascending, so each finds its place
        found.insert(place, gap)
    return tuple(found)
