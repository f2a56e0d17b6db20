"""What a flow keeps beside its checkpoint: which checkpoint that is and what it was made of; and what it says of itself while it runs. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ingest.flows.continuity import Fingerprint


@dataclass(frozen=True)
class FlowRecord:
    """``generation``: how often the flow has begun, from 1: each has a checkpoint of its own, and an id that its commits carry.
    ``tables``: names of the sinks that were begun, of those that note how far they are: Delta tables, and MySQL's; ``epochs``: by name, what each of Redis'
    had begun with last (``redis_sink.begin``), since Redis may lose it; none where an earlier ``ingest`` has not kept it.
    """

    generation: int
    checkpoint_id: str
    fingerprint: Fingerprint
    tables: tuple[str, ...] = ()
    epochs: tuple[tuple[str, int], ...] = ()

    def epoch(self, sink: str) -> int:
        """Of one of Redis; 0 where it is not known."""
        return dict(self.epochs).get(sink, 0)

    def going_on(self, fingerprint: Fingerprint) -> FlowRecord:
        """The same checkpoint, of a flow that was changed."""
        return replace(self, fingerprint=fingerprint)

    @classmethod
    def first(
        cls, fingerprint: Fingerprint, before: int = 0, epochs: tuple[tuple[str, int], ...] = ()
    ) -> FlowRecord:
        """Of a flow that begins, behind so many generations. ``epochs``: of theirs."""
        return cls(before + 1, _id(), fingerprint, epochs=epochs)


def _id() -> str:
    return uuid.uuid4().hex[:16]


@dataclass(frozen=True)
class FlowStatus:
    """A flow at its newest batch. ``state``: ``runs``, ``waits`` (for its lease), ``failed`` (and tries again), ``ended``; for who asks from outside
    also ``died`` and ``silent`` (``flow_now``); ``rows``: taken in since this run began; ``late``: dropped by Spark; ``refused``: by a sink's server, and kept; ``watermark``: ISO time, empty before the first; ``operators``: of Spark's state,
    each with rows and bytes; ``error``: the last failure's sentence.
    """

    state: str = "ended"
    batch: int = -1
    rows: int = 0
    late: int = 0
    watermark: str = ""
    seconds: float = 0.0
    restarts: int = 0
    error: str = ""
    refused: int = 0
    operators: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)

    @property
    def state_rows(self) -> int:
        """In Spark's state."""
        return sum(int(one["rows"]) for one in self.operators)

    @property
    def state_bytes(self) -> int:
        """Of it, in memory."""
        return sum(int(one["bytes"]) for one in self.operators)

    def as_json(self) -> dict[str, Any]:
        """For a file, and for ``--json``."""
        return asdict(self)
