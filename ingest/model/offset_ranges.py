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


def covers(newest: Entry | None, taken: Mapping[Place, tuple[int, int]]) -> bool:
    """True when every record of these ranges is published, or there is none in them."""
    ends = newest.ends if newest else {}
    return all(end <= ends.get(place, 0) for place, (_, end) in filled(taken).items())


def continues(newest: Entry | None, taken: Mapping[Place, tuple[int, int]]) -> bool:
    """True when these ranges begin exactly where the newest batch ended; new partitions at their first record."""
    ends = newest.ends if newest else {}
    return all(ends.get(place, 0) == start for place, (start, _) in taken.items())


def grown(newest: Entry | None, taken: Mapping[Place, tuple[int, int]]) -> set[str]:
    """Topics of which other partitions are known and one is new."""
    ends = newest.ends if newest else {}
    known = {topic for topic, _ in ends}
    return {topic for topic, p in taken if topic in known and (topic, p) not in ends}


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
