"""What a sequence of changes means, said as plainly as it can be said: the executable specification.

No Spark, no cleverness: a change is applied to a dictionary or a list, one after the other, in the
order of the source's log. The same conformance suite runs on this model and on Spark and Delta; where
the two differ, the fast one is wrong.

``mirror`` is what most targets rest on (each says in ``holds`` what it makes of a log); ``history`` and ``change_log``
say what such targets are to mean. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ingest.model.position import Position

Row = tuple[tuple[str, Any], ...]
"""A row's values by column name, hashable."""

Operation = Literal["insert", "update", "delete", "truncate", "read"]


def row(**values: Any) -> Row:
    """A row from its values, columns in order of name."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True)
class Change:
    """One change of one table. ``key``: None for a table without one.

    A primary-key change is two: the delete of the old key, then the insert of the new one. A
    ``read`` is a row of a snapshot; ``attempt`` tells a snapshot that began again from the one
    before it.
    """

    operation: Operation
    position: Position
    key: Row | None = None
    before: Row | None = None
    after: Row | None = None
    attempt: int = 0


def in_order(delivered: Iterable[Change], snapshot: Position | None = None) -> list[Change]:
    """The changes in the order of the log, each once, without rows of any but the newest attempt at a snapshot.

    ``snapshot``: where the newest snapshot was pinned, which the schema-change topic says also of
    one that found no row.

    Delivery may repeat and interleave, but what a change *is* never varies: position and operation
    name it. Rows of a snapshot share one position, so each of them is itself; they come before
    whatever follows that position. Only the newest attempt at a snapshot counts.
    """
    seen = list(delivered)
    newest = max(
        ((c.position, c.attempt) for c in seen if c.operation == "read"), default=(None, 0)
    )
    pinned = max((p for p in (newest[0], snapshot) if p is not None), default=None)
    reads = [
        c
        for c in seen
        if c.operation == "read" and (c.position, c.attempt) == newest and c.position == pinned
    ]
    streamed = {c.position: c for c in seen if c.operation != "read"}
    after = [c for p, c in sorted(streamed.items()) if pinned is None or p > pinned]
    return [*reads, *after]


def mirror(delivered: Iterable[Change], snapshot: Position | None = None) -> Counter[Row]:
    """The rows of the table after all of it: what MySQL itself holds.

    A counter, since a table without a key may hold a row several times.
    """
    keyed: dict[Row, Row] = {}
    bag: Counter[Row] = Counter()
    for change in in_order(delivered, snapshot):
        if change.operation == "truncate":
            keyed.clear()
            bag.clear()
        elif change.key is not None:
            if change.operation == "delete":
                keyed.pop(change.key, None)
            else:
                assert change.after is not None
                keyed[change.key] = change.after
        else:
            if change.before is not None:
                bag[change.before] -= 1
            if change.after is not None:
                bag[change.after] += 1
    return Counter(keyed.values()) if keyed else +bag


@dataclass(frozen=True)
class Version:
    """One version of a row in a history: valid from ``since`` until ``until`` (None: still)."""

    key: Row
    values: Row
    since: Position
    until: Position | None


def history(delivered: Iterable[Change], snapshot: Position | None = None) -> list[Version]:
    """Every version that a row with a key ever had, in order of key and begin (SCD type 2).

    A version ends where its row changes, is deleted, or its table is truncated. A write that
    changes nothing begins no new version.
    """
    current: dict[Row, Version] = {}
    closed: list[Version] = []

    def close(key: Row, at: Position) -> None:
        version = current.pop(key, None)
        if version is not None:
            closed.append(Version(key, version.values, version.since, at))

    for change in in_order(delivered, snapshot):
        if change.operation == "truncate":
            for key in list(current):
                close(key, change.position)
            continue
        assert change.key is not None, "a history needs a key"
        if change.operation == "delete":
            close(change.key, change.position)
            continue
        assert change.after is not None
        held = current.get(change.key)
        if held is not None and held.values == change.after:
            continue
        close(change.key, change.position)
        current[change.key] = Version(change.key, change.after, change.position, None)
    return sorted([*closed, *current.values()], key=lambda version: (version.key, version.since))


def change_log(delivered: Iterable[Change], snapshot: Position | None = None) -> list[Change]:
    """Every change once, in the order of the log: what an append-only target holds."""
    return in_order(delivered, snapshot)


def as_of(versions: Sequence[Version], position: Position) -> Mapping[Row, Row]:
    """The rows by key that a history shows at a position."""
    return {
        version.key: version.values
        for version in versions
        if version.since <= position and (version.until is None or version.until > position)
    }
