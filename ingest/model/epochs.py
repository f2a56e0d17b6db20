"""Epochs of the source's log: where one log was replaced by another. Pure.

Positions compare inside one log only. When another server takes over, or the log is reset, file
numbers may start low again; from a known Kafka offset on, changes then belong to the next epoch,
which orders after everything before it. The boundary is drawn while the connector stands still, so nothing
of the old log comes behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ingest.model.manifest import Entry, HighWater, Place
from ingest.model.offset_ranges import offsets_as_json, offsets_from_json
from ingest.model.start_facts import KafkaFacts


@dataclass(frozen=True)
class Moved:
    """Where an epoch begins in a partition, before that was put right. ``start``: what it was; ``batch``: the newest of the manifest by then. What waits in quarantine since such
    a batch or one before it has its offset by that, and not by what the boundary is now (``envelope.changes``).
    """

    place: Place
    start: int
    batch: int


@dataclass(frozen=True)
class Epoch:
    """One log. ``starts``: first offset of it per partition; a partition not named is all its own.

    ``number`` is 0 for the first log, whose ``starts`` are empty. ``server``: MySQL's server_uuid.
    """

    number: int
    server: str
    reason: str
    starts: Mapping[Place, int]
    continues: bool = True
    """Transactions are numbered on from the log before (a server took over), so one that was seen
    there is known by its number. False when numbering, too, may begin anew (the log was reset)."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """Kafka's ids of the topics whose offsets ``starts`` are, as far as they are known."""
    moved: tuple[Moved, ...] = ()
    """Boundaries of before, oldest first."""

    def as_json(self) -> str:
        """The text of its file. Earlier versions know no other fields, so ``topics`` and ``moved`` are not in it."""
        apart = ("starts", "topics", "moved")
        fields = {n: value for n, value in vars(self).items() if n not in apart}
        return json.dumps({**fields, "starts": json.loads(offsets_as_json(self.starts))})

    @classmethod
    def from_json(cls, text: str) -> Epoch:
        """The inverse. Raises ``ValueError`` for a torn text."""
        found = json.loads(text)
        starts = offsets_from_json(json.dumps(found["starts"]))
        return cls(**{**found, "starts": starts})


def epoch_of(epochs: Sequence[Epoch], place: Place, offset: int) -> int:
    """The epoch of one record."""
    return max(
        (epoch.number for epoch in epochs if offset >= epoch.starts.get(place, 0)), default=0
    )


def newest_number(epochs: Sequence[Epoch]) -> int:
    """The epoch that is being written now."""
    return max((epoch.number for epoch in epochs), default=0)


def newest_restart(epochs: Sequence[Epoch]) -> int:
    """The newest epoch whose transaction numbers may have begun anew; 0 for the first."""
    return max((epoch.number for epoch in epochs if not epoch.continues), default=0)


def following(
    epochs: Sequence[Epoch],
    server: str,
    reason: str,
    ends: Mapping[Place, int],
    *,
    continues: bool = True,
    topics: Mapping[str, str] | None = None,
) -> Epoch:
    """The next epoch, beginning where Kafka's partitions end now."""
    if not epochs:
        return Epoch(0, server, reason, {}, continues)
    number = newest_number(epochs) + 1
    return Epoch(number, server, reason, dict(ends), continues, dict(topics or {}))


def after_losses(
    epochs: Sequence[Epoch], newest: Entry | None, kafka: Mapping[Place, KafkaFacts]
) -> list[Epoch]:
    """The same, where Kafka gives offsets anew that were given before: in a topic that was deleted or made again all that
    comes is of the newest log, and so is what comes behind an end that was lost. ``newest``: of the manifest, as it says
    which topics those were that are gone.
    """
    read = newest.ends if newest else {}
    marks = newest.high_water if newest else {}

    def start(epoch: Epoch, place: Place, at: int) -> int:
        now = kafka.get(place)
        if now is None:  # or a topic that holds no table
            return 0 if place in read else at
        then = epoch.topics.get(place[0]) or marks.get(place, HighWater()).topic_id
        if then and now.topic_id and then != now.topic_id:
            return 0
        return min(at, now.end)  # where it began it ended, and no end ever goes back

    def right(epoch: Epoch) -> Epoch:
        starts = {place: start(epoch, place, at) for place, at in epoch.starts.items()}
        batch = newest.batch_id if newest else 0
        moved = [Moved(one, at, batch) for one, at in epoch.starts.items() if starts[one] != at]
        return replace(epoch, starts=starts, moved=(*epoch.moved, *moved)) if moved else epoch

    return [right(one) for one in epochs]
