"""Whether topics are still those of which records were applied. One that is made again gives the same offsets to other records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.model.manifest import Entry

LOOK_EVERY = 30.0
"""Seconds. Spark itself notices a topic that ends before what it has read; one that has grown beyond that it takes for the same. A
batch keeps the id of before, so that a start finds it, too, whatever was read meanwhile."""


class TopicMadeAgainError(Exception):
    """Records of a topic were never read, and their offsets were: the run is decided anew."""


@dataclass
class TopicIdentity:
    """``ids``: Kafka's own of these topics, of those that are there."""

    ids: Callable[[Sequence[str]], Mapping[str, str]]
    _looked: float = -math.inf
    _told: set[str] = field(default_factory=set)
    """Ids of which it was said: what was decided upon them is not decided again."""

    def refuse_made_again(self, newest: Entry | None) -> None:
        """Every now and then. Raises :class:`TopicMadeAgainError`, and what Kafka raises."""
        if newest is None or time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        marks = newest.high_water.items()
        known = {topic: mark.topic_id for (topic, _), mark in marks if mark.topic_id}
        now = self.ids(sorted(known)) if known else {}
        other = {topic: id_ for topic, id_ in now.items() if id_ not in (known[topic], *self._told)}
        self._told.update(other.values())
        if other:
            raise TopicMadeAgainError(", ".join(sorted(other)))
