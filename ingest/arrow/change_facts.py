"""What changes that were read in the driver mean for their table: the rows that ``batch_facts.gather`` brings of
changes that Spark reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow.column_values import UnfitError
from ingest.arrow.json_columns import Layout
from ingest.arrow.record_decoder import OF_REREAD, POSITION, READ, TRUNCATE
from ingest.model import numberings
from ingest.model.manifest import HighWater, Place
from ingest.model.position import Position
from ingest.schema import steps

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
    streamed = notes.filter(pc.not_equal(notes["op"], READ))
    if not streamed.num_rows:
        return
    if pc.max(streamed["epoch"]).as_py() > mark.position.epoch:
        raise UnfitError("of a new epoch")
    if pc.any(before(streamed, mark.position, or_at=True)).as_py():
        raise UnfitError("sent again")


def refuse_repeated(notes: pa.Table) -> None:
    """Raises :class:`UnfitError` where a streamed change does not stand behind the one before it: it was sent again,
    or it is another one at the same place (``ties``), and Spark looks which. Changes of one epoch, in the order of
    their offsets.
    """
    if "r" in notes["op"].unique().to_pylist():
        notes = notes.filter(pc.not_equal(notes["op"], READ))
    pairs = len(notes) - 1
    if pairs < 1:
        return
    # One row a statement, in one file, is what there is most often, and told in a quarter of the time.
    names = ("pos",) if pc.count_distinct(notes["file"]).as_py() == 1 else ()
    for fields in (names, _FIELDS):
        places = notes.select(list(fields)).combine_chunks()
        if fields and pc.all(_grows(places.slice(0, pairs), places.slice(1), fields)).as_py():
            return
    raise UnfitError("sent again")


def follows(newest: dict[str, Any] | None, then: dict[str, Any]) -> bool:
    """True where the streamed changes of a part of a partition, as :func:`facts` gives it, stand behind those of all
    parts before it, of which ``newest`` is the last one's ``high_water``.
    """
    if newest is None or then["streamed_from"] is None:
        return True
    return _order(newest["position"]) < _order(then["streamed_from"])


def _grows(one: pa.Table, other: pa.Table, fields: Sequence[str]) -> pa.ChunkedArray:
    """True where the place in the first table is before that in the second, field by field."""
    *others, last = fields
    found = pc.less(one[last], other[last])
    for name in reversed(others):
        same = pc.and_(pc.equal(one[name], other[name]), found)
        found = pc.or_(pc.less(one[name], other[name]), same)
    return found


def refuse_unnamed(notes: pa.Table) -> None:
    """Raises :class:`UnfitError` where nobody looked which run wrote the last snapshot row, which :func:`facts` gives."""
    first = _first_read(notes.filter(pc.equal(notes["op"], READ)))
    if first.num_rows and not _last(first)["run"][0].is_valid:
        raise UnfitError("of a run that is not known")


def facts(notes: pa.Table, place: Place, layout: Layout) -> dict[str, Any]:
    """One partition's row for ``TableFacts.combine``; all of its changes are fresh."""
    table, (topic, partition) = layout.version.table, place
    streamed, reread, attempt, truncates = notes, notes.slice(0, 0), notes.slice(0, 0), []
    ops = set(notes["op"].unique().to_pylist())
    if "r" in ops:
        is_read = pc.equal(notes["op"], READ)
        streamed, read = notes.filter(pc.invert(is_read)), notes.filter(is_read)
        reread, attempt = read.filter(pc.equal(read["part"], OF_REREAD)), _first_read(read)
    if "t" in ops:
        these = streamed.filter(pc.equal(streamed["op"], TRUNCATE))
        truncates = these.group_by([*_FIELDS, "ts_us"]).aggregate([]).to_pylist()
    return {
        "database": table.database,
        "table": table.name,
        "topic": topic,
        "partition": partition,
        "changes": notes.num_rows,
        "bytes": pc.sum(notes["bytes"]).as_py(),
        "low": _place(_extreme(notes, "min")),
        "high": _place(_extreme(notes, "max")),
        "high_water": _high_water(streamed),
        "numbers": _numbers(streamed["gtid"]),
        "streamed_from": _place(streamed) if streamed.num_rows else None,
        "source_time_us": pc.max(notes["ts_us"]).as_py(),
        "truncates": truncates,
        "keys": [layout.version.key],
        "attempt": _attempt(attempt),
        "reread": _place(_extreme(reread, "min")) if reread.num_rows else None,
    }


def joined(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """One partition's row for ``TableFacts.combine``, of two whose changes follow one another."""
    water = [one["high_water"] for one in (first, then) if one["high_water"]]
    reread = [one["reread"] for one in (first, then) if one["reread"]]
    return {
        **first,
        "changes": first["changes"] + then["changes"],
        "bytes": first["bytes"] + then["bytes"],
        "streamed_from": first["streamed_from"] or then["streamed_from"],
        "low": min(first["low"], then["low"], key=_order),
        "high": max(first["high"], then["high"], key=_order),
        "high_water": max(
            water, key=lambda one: (_order(one["position"]), one["gtid"] or ""), default=None
        ),
        "source_time_us": max(
            (one["source_time_us"] for one in (first, then) if one["source_time_us"] is not None),
            default=None,
        ),
        "truncates": first["truncates"]
        + [t for t in then["truncates"] if t not in first["truncates"]],
        "numbers": numberings.newest(first["numbers"], then["numbers"]),
        "attempt": _both(first["attempt"], then["attempt"]),
        "reread": min(reread, key=_order, default=None),
    }


def _order(place: dict[str, int]) -> tuple[int, ...]:
    return tuple(place[name] for name in _FIELDS)


def before(notes: pa.Table, position: Position, *, or_at: bool = False) -> pa.ChunkedArray:
    """True for changes before a position, or at it."""
    found = pa.repeat(pa.scalar(or_at, pa.bool_()), notes.num_rows)
    for name, number in reversed(position.as_dict().items()):
        limit = pa.scalar(number, POSITION.field(name).type)
        same = pc.and_(pc.equal(notes[name], limit), found)
        found = pc.or_(pc.less(notes[name], limit), same)
    return found


def _extreme(notes: pa.Table, which: Literal["min", "max"]) -> pa.Table:
    """The rows at the least or the greatest position."""
    notes = notes.select([*_FIELDS, "gtid"])
    for name in _FIELDS:
        both = pc.min_max(notes[name])
        if both["min"] != both["max"]:
            notes = notes.filter(pc.equal(notes[name], both[which]))
    return notes


def _place(notes: pa.Table) -> dict[str, int]:
    found: dict[str, int] = notes.select(list(_FIELDS)).slice(0, 1).to_pylist()[0]
    return found


def _high_water(streamed: pa.Table) -> dict[str, Any] | None:
    if not streamed.num_rows:
        return None
    newest = _extreme(streamed, "max")
    return {"position": _place(newest), "gtid": pc.max(newest["gtid"]).as_py()}


def _numbers(gtids: pa.ChunkedArray) -> dict[str, int]:
    """As ``TableFacts.numbers`` has them. Of one numbering the longest are the newest, and of these the last."""
    ends = pc.min_max(gtids).as_py()
    if not numberings.is_one(ends["min"], ends["max"]):
        return numberings.of(*gtids.unique().to_pylist())
    lengths = pc.binary_length(gtids)
    longest = gtids.filter(pc.equal(lengths, pc.max(lengths)))
    return numberings.of(pc.max(longest).as_py())


def _attempt(read: pa.Table) -> dict[str, Any] | None:
    """Which reading the last snapshot row is of, and the lowest and the highest place of that one's rows. Of the others nobody looked
    which run wrote them; what MySQL's clock said tells them apart, since no run begins within the second of another one's reading.
    """
    if not read.num_rows:
        return None
    last = _last(read)
    run, read_at = last["run"][0].as_py(), last["ts_us"][0]
    rows = read.filter(pc.equal(read["ts_us"], read_at)) if read_at.is_valid else last
    return {
        "run": steps.reading(run, read_at.as_py()),
        "pos": _place(_extreme(rows, "min")),
        "high": _place(_extreme(rows, "max")),
    }


def _both(first: dict[str, Any] | None, then: dict[str, Any] | None) -> dict[str, Any] | None:
    """The last snapshot row's, with what came of it before."""
    if first is None or then is None or first["run"] != then["run"]:
        return then or first
    low = min(first["pos"], then["pos"], key=_order)
    return {**then, "pos": low, "high": max(first["high"], then["high"], key=_order)}


def _first_read(read: pa.Table) -> pa.Table:
    """Of a snapshot's rows those that were not taken again while the stream went on."""
    return read.filter(pc.not_equal(read["part"], OF_REREAD))


def _last(notes: pa.Table) -> pa.Table:
    return notes.filter(pc.equal(notes["offset"], pc.max(notes["offset"])))
