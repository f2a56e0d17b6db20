"""Drawn histories of the manifest: what batch after batch says, each from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from ingest.lake.manifest import next_entry
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.position import Position

KINDS = ("batch", "batch", "batch", "cleanup", "rewind", "replay", "drop")


def first() -> Entry:
    """An empty lake's first batch."""
    return replace(
        next_entry.before_the_first("c"),
        batch_id=1,
        started_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        seconds=0.5,
        term=1,
        code_version="x",
    )


def _state(draw: Random, number: int, before: TableState | None) -> TableState:
    at = Position(0, 1, number)
    state = before or TableState("/l/d/t", 0, id="i")
    return replace(
        state,
        version=state.version + draw.randint(-1, 2),
        changes=draw.randint(0, 3),
        position=at,
        paused=draw.choice([None, at]),
        left_out=draw.choice([(), ("a", "b")]),
        engine=draw.choice(["spark", "delta-rs: few rows"]),
    )


def _gaps(draw: Random, number: int, gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Some closed, some forgotten, some told apart by nothing, some new."""
    found = list[Gap]()
    for gap in gaps:
        what = draw.random()
        if what < 0.15:
            found.append(replace(gap, resync=Position(0, 1, number)))
        elif what > 0.1:
            found.append(gap)
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        new = Gap(f"d.t{draw.randint(0, 4)}", "p.d.t", 0, 1, 2, "retention", number)
        found.insert(draw.randint(0, len(found)), new)
    return tuple(found)


def following(draw: Random, before: Entry) -> Entry:
    """Any batch after this one: tables and partitions appear, change, and sometimes vanish."""
    number = before.batch_id + draw.choice([1, 1, 1, 3])
    kind: Any = draw.choice(KINDS)
    entry = before.without_changes(kind, number, before.term + draw.choice([0, 0, 0, 0, 1]))
    offsets, marks, tables = dict(entry.offsets), dict(entry.high_water), dict(entry.tables)
    for _ in range(draw.randint(0, 3)):
        place = (f"p.d.t{draw.randint(0, 5)}", draw.randint(0, 1))
        start = offsets.get(place, (0, 0))[1]
        offsets[place] = (start, start + draw.randint(0, 4))
        marks[place] = HighWater(start, Position(0, 1, number), f"u:{number}", "id")
        name = f"d.t{draw.randint(0, 5)}"
        tables[name] = _state(draw, number, tables.get(name))
    for held in (offsets, marks, tables):
        if held and draw.random() < 0.05:
            held.pop(draw.choice(sorted(held)))  # type: ignore[call-overload]
    return replace(
        entry,
        offsets=offsets,
        high_water=marks,
        tables=tables,
        gaps=_gaps(draw, number, before.gaps) if draw.random() < 0.4 else before.gaps,
        changes=draw.randint(0, 9),
        position=Position(0, 1, number),
        schema_offset=number,
        started_at=before.started_at + timedelta(hours=1),
        stages={"read": 0.25, "apply": 0.5} if draw.random() < 0.5 else {},
    )


def history(draw: Random, count: int) -> list[Entry]:
    """So many batches."""
    found = [first()]
    while len(found) < count:
        found.append(following(draw, found[-1]))
    return found
