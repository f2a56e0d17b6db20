"""Drawn histories: what happened at the source, what Debezium makes of it, and how it arrives.

Three independent things come out of a draw. The truth is kept by executing each operation on a plain
dictionary (or counter), so the model has something to be wrong against. The changes are what Debezium
writes for those operations. The delivery repeats, interleaves and cuts them.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ingest.model.failpoints import NAMES
from ingest.model.position import Position
from ingest.model.specification import Change, Row
from tests.conformance.shapes import Contents, Shape, shape
from tests.conformance.source import Source, Truth

SHORT = 18
"""Operations of a history, at most, unless more are asked for."""


@dataclass(frozen=True)
class Record:
    """A change in a topic partition: its offset is its index there."""

    change: Change
    partition: int = 0
    transaction: int = 0


@dataclass
class History:
    """One drawn history of one table."""

    keyed: bool
    partitions: int
    snapshots: list[Position] = field(default_factory=list)
    records: list[list[Record]] = field(default_factory=list)
    """Per partition, as delivered, repetitions included."""
    cuts: list[list[int]] = field(default_factory=list)
    """Per batch, the end offset of each partition."""
    truth: Truth = field(default_factory=Truth)
    """Content after each streamed position that ends a change, and after the snapshot."""
    final: Counter[Row] = field(default_factory=Counter)
    crashes: dict[int, str] = field(default_factory=dict)
    """Batch index to the failpoint at which its first attempt dies."""
    emitted: list[Change] = field(default_factory=list)
    shape: Shape | None = None
    """None: a number ``id``, which is the key where there is one, and a text ``v``."""
    operations: int = 0
    """That changed something, in the stream."""

    def __repr__(self) -> str:
        shown = [
            f"p{r.partition} {r.change.operation} {r.change.position} "
            f"{dict(r.change.before or ())} -> {dict(r.change.after or ())}"
            for part in self.records
            for r in part
        ]
        return "\n  ".join(
            [f"History(keyed={self.keyed}, cuts={self.cuts}, crashes={self.crashes}", *shown]
        )


CRASHES = NAMES[1:-1]
"""The places of a batch that a crash in this process can reach: all between its start and Spark's own
commit."""


@st.composite
def histories(draw: Any, *, keyed: bool | None = None, crashes: bool = True) -> History:
    """A history: perhaps an interrupted snapshot, a stream, re-sends, any batch split, crashes."""
    rng = draw(st.randoms(use_true_random=False))
    return history(rng, keyed=keyed, crashes=crashes)


def history(
    rng: random.Random,
    *,
    keyed: bool | None = None,
    partitions: int | None = None,
    crashes: bool = True,
    length: int | None = None,
    batches: int = 4,
    plain: bool = False,
) -> History:
    """The same, from any source of chance. ``length``: operations of the stream, exactly so many. ``plain``: all
    that the driver reads, without re-sends from one batch to the next, of one snapshot.
    """
    is_keyed = rng.random() < 0.5 if keyed is None else keyed
    count = partitions or (rng.choice((1, 1, 3)) if is_keyed else 1)
    values = random.Random(rng.getrandbits(64))
    drawn = shape(values, keyed=is_keyed, geometry=not plain)
    many = length is not None and length > 10 * SHORT
    source = Source(Contents(values, drawn, keys=60 if many else 8, values=40 if many else 4), rng)
    found = History(is_keyed, count, records=[[] for _ in range(count)], shape=drawn)
    for _ in range(rng.randint(0, 3)):
        source.transact()
    reads = _snapshots(rng, source, found, attempts=1 if plain else rng.choice((1, 1, 2)))
    source.begin(found.snapshots[-1])
    wanted = rng.randint(1, SHORT) if length is None else length
    while source.operations < wanted:
        source.transact(wanted - source.operations)
    found.truth, found.final = source.truth, source.content()
    found.operations = source.operations
    newest = max((c.attempt for c in reads), default=0)
    found.emitted = [
        *[c for c in reads if c.attempt == newest and c.position == found.snapshots[-1]],
        *[change for change, _ in source.log],
    ]
    stream = source.log if plain else _resent(rng, source.log)
    for change, transaction in [*((c, 0) for c in reads), *stream]:
        partition = _partition(change, count)
        found.records[partition].append(Record(change, partition, transaction))
    found.cuts = _cuts(rng, [len(part) for part in found.records], batches)
    if crashes and rng.random() < 0.5:
        where = rng.randrange(len(found.cuts))
        found.crashes[where] = rng.choice(CRASHES)
    return found


def _partition(change: Change, count: int) -> int:
    """By key, as Kafka's producer does."""
    if change.key is None or count == 1:
        return 0
    return zlib.crc32(repr([value.exact for _, value in change.key]).encode()) % count


def _snapshots(rng: random.Random, source: Source, found: History, attempts: int) -> list[Change]:
    """One attempt, or one that was interrupted (the source goes on meanwhile) and a second."""
    reads: list[Change] = []
    for attempt in range(1, attempts + 1):
        source.tick()
        pinned = source.now()
        found.snapshots.append(pinned)
        rows = source.held()
        if attempt < attempts:
            rows = rows[: rng.randint(0, len(rows))]
        reads += [Change("read", pinned, key, None, image, attempt) for key, image in rows]
        if attempt < attempts:
            if rng.random() < 0.5:
                source.transact()
            else:  # nothing happens between the two: both are pinned at one position
                source.pos -= 100
    return reads


def _resent(rng: random.Random, log: list[tuple[Change, int]]) -> list[tuple[Change, int]]:
    """As a killed worker without transactions sends it: again from an earlier place, at times."""
    delivered: list[tuple[Change, int]] = []
    at = 0
    kills = rng.randint(0, 2)
    while at < len(log):
        until = rng.randint(at + 1, len(log)) if kills else len(log)
        delivered += log[at:until]
        at = until
        if kills:
            kills -= 1
            at = rng.randint(0, at)
    return delivered


def _cuts(rng: random.Random, sizes: list[int], batches: int) -> list[list[int]]:
    ends = [0] * len(sizes)
    cuts: list[list[int]] = []
    while ends != sizes:
        step = [rng.randint(end, size) for end, size in zip(ends, sizes, strict=True)]
        if step == ends or len(cuts) == batches - 1:
            step = list(sizes)
        ends = step
        cuts.append(ends)
    return cuts or [list(sizes)]
