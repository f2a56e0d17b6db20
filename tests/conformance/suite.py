"""The conformance suite: what every target must show of every history. Runs unmodified on all."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ingest.model.position import PART_WRITE, Position
from ingest.model.specification import Change, Row, as_of, change_log, history
from ingest.targets.target import Target as Kind
from tests.conformance.histories import History
from tests.conformance.shapes import found
from tests.support.change_log import folded


class Target(Protocol):
    def take(self, ends: list[int], crash: str | None = None) -> None: ...
    def settle(self) -> None: ...
    def content(self) -> Counter[Row]: ...


class Targets(Protocol):
    def take(self, ends: Mapping[int, list[int]], crash: str | None = None) -> None: ...
    def settle(self) -> None: ...
    def content(self, index: int) -> Counter[Row]: ...
    def hides(self, index: int) -> bool: ...


class Logs(Protocol):
    def log_of(self, index: int) -> list[dict[str, Any]]: ...


class Dead(Protocol):
    def dead(self, index: int) -> Counter[tuple[Row, Position]]: ...


def mirror_conforms(drawn: History, target: Target) -> None:
    """The final content is the source's, and so is every content on the way there."""
    for index, ends in enumerate(drawn.cuts):
        target.take(ends, drawn.crashes.get(index))
        if drawn.partitions == 1:
            expected = _truth_so_far(drawn, ends[0])
            if expected is not None:
                assert target.content() == expected, f"after batch {index}"
    target.settle()
    assert target.content() == drawn.final, "at the end"


def mirrors_conform(drawn: Sequence[History], target: Targets) -> None:
    """The same for many tables side by side in one lake: batch by batch, all of them. One that is taken again, and has no key, stays as it
    was until all of that is there.
    """
    for index in range(max(len(one.cuts) for one in drawn)):
        ends = {n: one.cuts[index] for n, one in enumerate(drawn) if index < len(one.cuts)}
        crashes = [drawn[n].crashes[index] for n in ends if index in drawn[n].crashes]
        target.take(ends, next(iter(crashes), None))
        for n, reached in ends.items():
            if drawn[n].partitions == 1:
                expected = _truth_so_far(drawn[n], reached[0])
                if expected is not None and not target.hides(n):
                    assert target.content(n) == expected, f"table {n} after batch {index}"
    target.settle()
    for n, one in enumerate(drawn):
        assert target.content(n) == one.final, f"table {n} at the end"


def kept_conforms(drawn: Sequence[History], kept_as: Kind, targets: Dead) -> None:
    """Rows that stand in a table and do not count are those that its target's specification keeps. Of one partition and
    one snapshot: what was there before a newer snapshot, or came late from another partition, need not be kept.
    """
    for n, one in enumerate(drawn):
        if one.partitions == 1 and len(one.snapshots) == 1:
            changes = (record.change for record in one.records[0])
            wanted = Counter(kept_as.holds(changes, one.snapshots[-1]).kept.values())
            assert targets.dead(n) == wanted, f"table {n} keeps"


def _truth_so_far(drawn: History, end: int) -> Counter[Row] | None:
    """What the source held at the newest position delivered so far; None within the snapshot."""
    delivered = [record.change for record in drawn.records[0][:end]]
    streamed = [c.position for c in delivered if c.operation != "read"]
    return drawn.truth[max(streamed)] if streamed and len(set(drawn.snapshots)) == 1 else None


def history_conforms(drawn: History) -> None:
    """At every position the history shows what the source held there; versions never overlap."""
    versions = history((r.change for part in drawn.records for r in part), drawn.snapshots[-1])
    for position, content in drawn.truth.items():
        assert Counter(as_of(versions, position).values()) == content, position
    for one, other in itertools.pairwise(versions):
        if one.key == other.key:
            assert one.until is not None
            assert one.until <= other.since


def change_log_conforms(drawn: History) -> None:
    """Every change that the source emitted, once, in its order."""
    found = change_log((r.change for part in drawn.records for r in part), drawn.snapshots[-1])
    assert sorted(found, key=_order) == sorted(drawn.emitted, key=_order)
    streamed = [change.position for change in found if change.operation != "read"]
    assert streamed == sorted(streamed)


def logs_conform(drawn: Sequence[History], targets: Logs) -> None:
    """Each change of the stream stands in the log once, with both images, and all rows of the newest snapshot; nothing else does but rows
    of snapshots that began again. Folded, it is the table. Of several partitions a change may come behind a TRUNCATE that it lies
    before: nothing is applied of it then, and it is not logged.
    """
    for n, one in enumerate(drawn):
        rows = targets.log_of(n)
        key = one.shape.key if one.shape else ("id",) * one.keyed
        assert folded(rows, key, found) == one.final, f"the log of table {n}, folded"
        said = Counter(_said(row) for row in rows if row["operation"] in _OF_A_ROW)
        reads = [c for c in one.emitted if c.operation == "read"]
        wanted = Counter(_meant(c) for c in one.emitted if c.operation not in ("truncate", "read"))
        truncates = [c.position for c in one.emitted if c.operation == "truncate"]
        logged = [
            Position.from_mapping(r["position"]) for r in rows if r["operation"] == "truncate"
        ]
        assert sorted(logged) == sorted(truncates), f"TRUNCATEs of table {n}"
        newest = max(truncates, default=None)
        if one.partitions > 1:
            reads = [c for c in reads if newest is None or c.position > newest]
            wanted = Counter(
                {
                    change: many
                    for change, many in wanted.items()
                    if change in said or newest is None or change[1] > newest
                }
            )
        assert said - Counter({c: m for c, m in said.items() if c[0] == "read"}) == wanted, n
        read = Counter({c: m for c, m in said.items() if c[0] == "read"})
        assert not Counter(map(_meant, reads)) - read, f"rows of the snapshot of table {n}"


_OF_A_ROW = ("insert", "update", "delete", "read")


def _said(row: Mapping[str, Any]) -> tuple[object, ...]:
    images = (row["before"], row["after"])
    before, after = (None if one is None else found(one) for one in images)
    return row["operation"], Position.from_mapping(row["position"]), before, after


def _meant(change: Change) -> tuple[object, ...]:
    if change.operation == "read":  # as a record of the topic has it
        return change.operation, replace(change.position, part=PART_WRITE), None, change.after
    return change.operation, change.position, change.before, change.after


def _order(change: object) -> str:
    return repr(change)
