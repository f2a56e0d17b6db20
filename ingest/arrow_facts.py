"""What changes that were read in the driver mean for their table: the rows that ``facts.gather`` brings of
changes that Spark reads. Pure.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow_records import POSITION, Layout
from ingest.arrow_values import UnfitError
from ingest.manifest import HighWater, Place
from ingest.position import Position

_FIELDS = tuple(field.name for field in POSITION)


def refuse_old(notes: pa.Table, mark: HighWater | None, floor: Position | None) -> None:
    """Raises :class:`UnfitError` where some change may have come before (``dedup.marked``): Spark knows by
    which rule. ``mark``: of their topic partition; ``floor``: of their table.
    """
    if floor and pc.any(before(notes, floor)).as_py():
        raise UnfitError("older than its table")
    if mark is None:
        return
    if pc.min(notes["offset"]).as_py() < mark.offset:
        raise UnfitError("sent again")
    if mark.position is None:
        return
    streamed = notes.filter(pc.not_equal(notes["op"], "r"))
    if not streamed.num_rows:
        return
    if pc.max(streamed["epoch"]).as_py() > mark.position.epoch:
        raise UnfitError("of a new epoch")
    if pc.any(before(streamed, mark.position, or_at=True)).as_py():
        raise UnfitError("sent again")


def facts(notes: pa.Table, place: Place, layout: Layout) -> dict[str, Any]:
    """One partition's row for ``TableFacts.combine``; all of its changes are fresh."""
    table, (topic, partition) = layout.version.table, place
    is_read = pc.equal(notes["op"], "r")
    streamed, read = notes.filter(pc.invert(is_read)), notes.filter(is_read)
    is_again = pc.fill_null(pc.equal(read["snapshot"], "incremental"), False)
    reread, attempt = read.filter(is_again), read.filter(pc.invert(is_again))
    truncates = streamed.filter(pc.equal(streamed["op"], "t")).group_by(list(_FIELDS))
    return {
        "database": table.database,
        "table": table.name,
        "topic": topic,
        "partition": partition,
        "changes": notes.num_rows,
        "bytes": pc.sum(notes["bytes"]).as_py(),
        "low": _least(notes),
        "high": _place(_greatest(notes)),
        "high_water": _high_water(streamed),
        "source_time_us": pc.max(notes["ts_us"]).as_py(),
        "truncates": truncates.aggregate([]).to_pylist(),
        "keys": [layout.version.key],
        "attempt": _attempt(attempt),
        "reread": _least(reread) if reread.num_rows else None,
    }


def before(notes: pa.Table, position: Position, *, or_at: bool = False) -> pa.ChunkedArray:
    """True for changes before a position, or at it."""
    found = pa.repeat(pa.scalar(or_at), notes.num_rows)
    for name, limit in reversed(position.as_dict().items()):
        same = pc.and_(pc.equal(notes[name], limit), found)
        found = pc.or_(pc.less(notes[name], limit), same)
    return found


def _least(notes: pa.Table) -> dict[str, int]:
    for name in _FIELDS:
        notes = notes.filter(pc.equal(notes[name], pc.min(notes[name])))
    return _place(notes)


def _greatest(notes: pa.Table) -> pa.Table:
    for name in _FIELDS:
        notes = notes.filter(pc.equal(notes[name], pc.max(notes[name])))
    return notes


def _place(notes: pa.Table) -> dict[str, int]:
    found: dict[str, int] = notes.select(list(_FIELDS)).slice(0, 1).to_pylist()[0]
    return found


def _high_water(streamed: pa.Table) -> dict[str, Any] | None:
    if not streamed.num_rows:
        return None
    newest = _greatest(streamed)
    return {"position": _place(newest), "gtid": pc.max(newest["gtid"]).as_py()}


def _attempt(read: pa.Table) -> dict[str, Any] | None:
    """The last snapshot row's connector run and position."""
    if not read.num_rows:
        return None
    last = read.filter(pc.equal(read["offset"], pc.max(read["offset"])))
    return {"run": last["run"][0].as_py(), "pos": _place(last)}
