"""Drawn histories: what happened at the source, what Debezium makes of it, and how it arrives.

Three independent things come out of a draw. The truth is kept by executing each operation on a plain
dictionary (or counter), so the model has something to be wrong against. The changes are what Debezium
writes for those operations. The delivery repeats, interleaves and cuts them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ingest.changelog import Change, Row, row
from ingest.failpoints import NAMES
from ingest.position import PART_DELETE, PART_WRITE, Position

KEYS = range(1, 6)
VALUES = "abc"


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
    truth: dict[Position, Counter[Row]] = field(default_factory=dict)
    """Content after each streamed position that ends a change, and after the snapshot."""
    final: Counter[Row] = field(default_factory=Counter)
    crashes: dict[int, str] = field(default_factory=dict)
    """Batch index to the failpoint at which its first attempt dies."""
    emitted: list[Change] = field(default_factory=list)

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


class Source:
    """The table, and the log that writing to it leaves."""

    def __init__(self, *, keyed: bool) -> None:
        self.keyed = keyed
        self.rows: dict[int, str] = {}
        self.bag: Counter[tuple[int, str]] = Counter()
        self.file, self.pos, self.transaction = 1, 4, 0
        self.log: list[tuple[Change, int]] = []
        self.truth: dict[Position, Counter[Row]] = {}

    def content(self) -> Counter[Row]:
        if self.keyed:
            return Counter(row(id=k, v=v) for k, v in self.rows.items())
        return Counter({row(id=k, v=v): n for (k, v), n in self.bag.items() if n})

    def now(self) -> Position:
        return Position(0, self.file, self.pos, 0, 0)

    def tick(self, *, rotate: bool = False) -> None:
        self.pos += 100
        if rotate:
            self.file, self.pos = self.file + 1, 4

    def write(self, operation: str, before: Any, after: Any, line: int = 0) -> None:
        part = PART_DELETE if operation == "delete" else PART_WRITE
        position = Position(0, self.file, self.pos, line, part)
        images = [
            None if image is None else row(id=image[0], v=image[1]) for image in (before, after)
        ]
        key = None
        if self.keyed and operation != "truncate":
            key = row(id=(after or before)[0])
        change = Change(operation, position, key, images[0], images[1])  # type: ignore[arg-type]
        self.log.append((change, self.transaction))
        self.truth[position] = self.content()

    # --- statements; each keeps the truth first and then says what Debezium writes of it ---------

    def put(self, key: int, value: str) -> None:
        """INSERT … ON DUPLICATE KEY UPDATE; REPLACE on a key hit is the same single update."""
        held = self.rows.get(key)
        if held == value:
            return  # MySQL writes nothing for an update that changes nothing
        self.rows[key] = value
        self.tick()
        before = None if held is None else (key, held)
        self.write("insert" if held is None else "update", before, (key, value))

    def remove(self, key: int) -> None:
        if key in self.rows:
            value = self.rows.pop(key)
            self.tick()
            self.write("delete", (key, value), None)

    def rename(self, old: int, new: int, line: int = 0) -> None:
        """A primary-key change: two records that share their position but for the part."""
        value = self.rows.pop(old)
        if line == 0:
            self.tick()
        self.write("delete", (old, value), None, line)
        self.rows[new] = value
        self.write("insert", None, (new, value), line)

    def shift(self) -> None:
        """Every key one up, the highest first, in one statement."""
        for line, key in enumerate(sorted(self.rows, reverse=True)):
            self.rename(key, key + 1, line)

    def swap(self, one: int, other: int) -> None:
        """Two keys change places by way of a third, inside one transaction."""
        self.rename(one, 99)
        self.rename(other, one)
        self.rename(99, other)

    def truncate(self) -> None:
        self.rows.clear()
        self.bag.clear()
        self.tick()
        self.write("truncate", None, None)

    def add_copy(self, key: int, value: str) -> None:
        self.bag[(key, value)] += 1
        self.tick()
        self.write("insert", None, (key, value))

    def remove_copy(self, key: int, value: str) -> None:
        if self.bag[(key, value)]:
            self.bag[(key, value)] -= 1
            self.tick()
            self.write("delete", (key, value), None)

    def change_copy(self, key: int, value: str, new: str) -> None:
        if self.bag[(key, value)] and new != value:
            self.bag[(key, value)] -= 1
            self.bag[(key, new)] += 1
            self.tick()
            self.write("update", (key, value), (key, new))


KEYED = ("put", "put", "put", "remove", "rename", "shift", "swap", "truncate", "back", "rotate")
BAG = ("add_copy", "add_copy", "add_copy", "remove_copy", "change_copy", "truncate", "rotate")
CRASHES = NAMES[1:-1]
"""The places of a batch that a crash in this process can reach: all between its start and Spark's own
commit."""


def _operate(draw: Any, source: Source) -> None:
    kind = draw(st.sampled_from(KEYED if source.keyed else BAG))
    key, value = draw(st.sampled_from(KEYS)), draw(st.sampled_from(VALUES))
    if kind in ("put", "add_copy", "remove_copy"):
        getattr(source, kind)(key, value)
    elif kind == "remove":
        source.remove(key)
    elif kind == "change_copy":
        source.change_copy(key, value, draw(st.sampled_from(VALUES)))
    elif kind == "truncate":
        source.truncate()
    elif kind == "rotate":
        source.tick(rotate=True)
    elif kind == "shift":
        source.shift()
    elif kind == "back":
        source.remove(key)
        source.put(key, value)
    elif kind in ("rename", "swap"):
        held = sorted(source.rows)
        if kind == "swap" and len(held) > 1:
            source.swap(held[0], held[-1])
        elif held and key not in source.rows:
            source.rename(held[0], key)


def _transact(draw: Any, source: Source) -> None:
    source.transaction += 1
    for _ in range(draw(st.integers(1, 3))):
        _operate(draw, source)


@st.composite
def histories(
    draw: Any, *, keyed: bool | None = None, partitions: int | None = None, crashes: bool = True
) -> History:
    """A history: perhaps an interrupted snapshot, a stream, re-sends, any batch split, crashes."""
    is_keyed = draw(st.booleans()) if keyed is None else keyed
    count = partitions or (draw(st.sampled_from((1, 1, 3))) if is_keyed else 1)
    source = Source(keyed=is_keyed)
    found = History(is_keyed, count, records=[[] for _ in range(count)])
    for _ in range(draw(st.integers(0, 3))):
        _transact(draw, source)
    reads = _snapshots(draw, source, found)
    source.log.clear()
    source.truth = {found.snapshots[-1]: source.content()}
    for _ in range(draw(st.integers(1, 6))):
        _transact(draw, source)
    found.truth, found.final = source.truth, source.content()
    newest = max((c.attempt for c in reads), default=0)
    found.emitted = [
        *[c for c in reads if c.attempt == newest and c.position == found.snapshots[-1]],
        *[change for change, _ in source.log],
    ]
    stream = _resent(draw, source.log)
    for change, transaction in [*((c, 0) for c in reads), *stream]:
        partition = 0 if change.key is None else dict(change.key)["id"] % count
        found.records[partition].append(Record(change, partition, transaction))
    found.cuts = _cuts(draw, [len(part) for part in found.records])
    if crashes and draw(st.booleans()):
        where = draw(st.integers(0, len(found.cuts) - 1))
        found.crashes[where] = draw(st.sampled_from(CRASHES))
    return found


def _snapshots(draw: Any, source: Source, found: History) -> list[Change]:
    """One attempt, or one that was interrupted (the source goes on meanwhile) and a second."""
    reads: list[Change] = []
    attempts = draw(st.sampled_from((1, 1, 2)))
    for attempt in range(1, attempts + 1):
        source.tick()
        pinned = source.now()
        found.snapshots.append(pinned)
        rows = sorted(source.content().elements())
        if attempt < attempts:
            rows = rows[: draw(st.integers(0, len(rows)))]
        for values in rows:
            key = row(id=dict(values)["id"]) if source.keyed else None
            reads.append(Change("read", pinned, key, None, values, attempt))
        if attempt < attempts:
            if draw(st.booleans()):
                _transact(draw, source)
            else:  # nothing happens between the two: both are pinned at one position
                source.pos -= 100
    return reads


def _resent(draw: Any, log: list[tuple[Change, int]]) -> list[tuple[Change, int]]:
    """As a killed worker without transactions sends it: again from an earlier place, at times."""
    delivered: list[tuple[Change, int]] = []
    at = 0
    kills = draw(st.integers(0, 2))
    while at < len(log):
        until = draw(st.integers(at + 1, len(log))) if kills else len(log)
        delivered += log[at:until]
        at = until
        if kills:
            kills -= 1
            at = draw(st.integers(0, at))
    return delivered


def _cuts(draw: Any, sizes: list[int]) -> list[list[int]]:
    ends = [0] * len(sizes)
    cuts: list[list[int]] = []
    while ends != sizes:
        step = [draw(st.integers(end, size)) for end, size in zip(ends, sizes, strict=True)]
        if step == ends or len(cuts) == 3:
            step = list(sizes)
        ends = step
        cuts.append(ends)
    return cuts or [list(sizes)]
