"""What each of Spark's tasks reads of a batch: its ranges, shared out. Facts in, shares out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingest.model.manifest import Place
from ingest.model.offset_ranges import filled, records_of

RECORDS = 10_000
"""Of a share at least, where there are more: a task reads them in some 60 ms, and takes 20 to begin."""

WAVES = 3
"""Shares for each core: what one task has less of to do than another is made up for by the next."""


@dataclass(frozen=True)
class Share:
    """Of one task: of each partition at most one half-open range."""

    ranges: Mapping[Place, tuple[int, int]]


def shared(
    ranges: Mapping[Place, tuple[int, int]], cores: int, limit: int | None = None
) -> list[Share]:
    """The ranges as shares of about the same number of records; one partition's range may be in several, in the order of its
    offsets. As many for each core, as long as each has a record, but no more than ``limit`` and two: with five for four cores, one would read two
    and the others wait.
    """
    held = filled(ranges)
    records = records_of(held)
    wanted = cores * max(1, min(WAVES, records // (RECORDS * cores)))
    if limit is not None and wanted > (room_for := max(limit, 2)):
        wanted = max(room_for // cores * cores, min(room_for, cores))
    most = max(1, min(records, wanted))
    size = -(-records // most)
    found: list[dict[Place, tuple[int, int]]] = []
    room = 0
    for place, (start, end) in sorted(held.items()):
        at = start
        while at < end:
            if not room:
                found.append({})
                room = size
            taken = min(room, end - at)
            found[-1][place] = (at, at + taken)
            at, room = at + taken, room - taken
    return [Share(one) for one in found]


def contiguous(
    ranges: Mapping[Place, tuple[int, int]], read: Mapping[Place, Sequence[tuple[int, int, int]]]
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Of each partition how far it was read without a gap, and, where that is not all of its range, the same once more. ``read``:
    start and end of each share's range of it, and how far that was read.
    """
    until = {place: start for place, (start, _) in filled(ranges).items()}
    for place, shares in read.items():
        for start, end, reached in sorted(shares):
            if until.get(place) != start:
                break
            until[place] = reached
            if reached < end:
                break
    cut = {place: at for place, at in until.items() if at < ranges[place][1]}
    return until, cut
