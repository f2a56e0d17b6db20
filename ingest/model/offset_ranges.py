"""Offsets of Kafka's partitions and the ranges between them: as Spark writes them, and against what the manifest covers. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from ingest.model.manifest import Entry, Place


def offsets_from_json(text: str) -> dict[Place, int]:
    """``{"topic": {"0": 12}}`` as Spark's Kafka source writes it."""
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def offsets_as_json(offsets: Mapping[Place, int]) -> str:
    """The same text from offsets, in order of topic."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(nested)


def ranges(before: Mapping[Place, int], after: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
    """The half-open ranges between two offset maps; a partition new in ``after`` starts at 0."""
    return {place: (before.get(place, 0), end) for place, end in after.items()}


def filled(taken: Mapping[Place, tuple[int, int]]) -> dict[Place, tuple[int, int]]:
    """Those of half-open ranges that hold anything."""
    return {place: (start, end) for place, (start, end) in taken.items() if end > start}


def left(
    newest: Entry | None, taken: Mapping[Place, tuple[int, int]]
) -> dict[Place, tuple[int, int]] | None:
    """What of these ranges is not published yet, empty for partitions of which all is. None where they begin behind what is: records
    would be missing between. New partitions begin at their first record.
    """
    ends = newest.ends if newest else {}
    if any(start > ends.get(place, 0) for place, (start, _) in taken.items()):
        return None
    begun = {place: ends.get(place, 0) for place in taken}
    return {place: (begun[place], max(begun[place], end)) for place, (_, end) in taken.items()}


def grown(newest: Entry | None, taken: Mapping[Place, tuple[int, int]]) -> set[str]:
    """Topics of which other partitions have had records and one has its first ones: a key may have moved to it."""
    ends = newest.ends if newest else {}
    known = {topic for (topic, _), end in ends.items() if end}
    return {place[0] for place in filled(taken) if place[0] in known and not ends.get(place, 0)}


def drained(
    taken: Mapping[Place, tuple[int, int]], topics: set[str], ends: Mapping[Place, int]
) -> dict[Place, tuple[int, int]]:
    """The same ranges, those of ``topics`` up to where they end."""
    return {
        place: (start, max(end, ends.get(place, end)) if place[0] in topics else end)
        for place, (start, end) in taken.items()
    }


def with_drained(
    newest: Entry | None,
    taken: Mapping[Place, tuple[int, int]],
    ends: Callable[[Sequence[str]], Mapping[Place, int]],
) -> Mapping[Place, tuple[int, int]]:
    """The same ranges, the old partitions' taken to their end where a topic has a new one.

    A key may have moved there. Whatever of it stands in its old partition was written before
    anything in the new one, so a batch that holds all of the old partitions' records holds the
    key's changes together, and their positions order them. The checkpoint is then behind the
    manifest, which the next batch notices and mends.
    """
    topics = grown(newest, taken)
    return drained(taken, topics, ends(sorted(topics))) if topics else taken


def reaching(
    newest: Entry | None, taken: Mapping[Place, tuple[int, int]], ends: Mapping[Place, int]
) -> dict[Place, tuple[int, int]]:
    """The same ranges up to where their partitions end, but for topics of which one would have its first records by that
    (:func:`grown`): in these a key may have moved, and a range that says so itself is to come first.
    """
    topics = {topic for topic, _ in taken}
    return drained(taken, topics - grown(newest, drained(taken, topics, ends)), ends)


def records_of(ranges: Mapping[Place, tuple[int, int]]) -> int:
    """How many offsets lie in these ranges."""
    return sum(end - start for start, end in ranges.values())


def shares(waiting: Mapping[Place, int], most: int) -> dict[Place, int]:
    """``most`` records shared out: whoever has less than an equal share gets all it has, the others what that leaves. Each that
    has any gets one at least.
    """
    found, left = dict[Place, int](), most
    for many, (place, has) in zip(
        range(len(waiting), 0, -1), sorted(waiting.items(), key=lambda one: one[1]), strict=True
    ):
        found[place] = min(has, max(left // many, 1))
        left -= found[place]
    return found


def part(
    waiting: Mapping[Place, tuple[int, int]],
    most: int,
    first: Mapping[Place, tuple[int, int]] | None = None,
) -> dict[Place, tuple[int, int]]:
    """The first ``most`` records of these ranges, as :func:`shares` has them. Spark rounds up what it takes of each partition, so that
    one more of each is none too many. ``first``: what of them is to be in it whole, where there is room for all of that.
    """
    if records_of(waiting) <= most + len(waiting):
        return dict(waiting)
    room = most - records_of(first or {})
    begun = {place: end for place, (_, end) in (first or {}).items()} if room > 0 else {}
    starts = {place: begun.get(place, start) for place, (start, _) in waiting.items()}
    behind = {place: end - starts[place] for place, (_, end) in waiting.items()}
    taken = shares(behind, room if begun else most)
    return {place: (start, starts[place] + taken[place]) for place, (start, _) in waiting.items()}
