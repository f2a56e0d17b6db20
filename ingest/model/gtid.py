"""Sets of MySQL transaction identifiers, and whether one contains another. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class GtidSet:
    """A GTID set such as ``uuid:1-5:8,uuid2:1``, normalised: sorted, disjoint, closed intervals.

    A server numbers the transactions of each tag from 1 on, so they are kept apart: ``uuid:tag``.
    """

    intervals: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read MySQL's text form; whitespace and newlines are allowed. Raises ``ValueError``."""
        found: dict[str, list[tuple[int, int]]] = {}
        for part in text.replace("\n", "").replace(" ", "").split(","):
            if not part:
                continue
            source, *ranges = part.split(":")
            if not ranges:
                raise ValueError(f"not a GTID set: {text!r}")
            numbering = source.lower()
            for item in ranges:
                if not item[
                    :1
                ].isdigit():  # a tag (MySQL 8.3+), of all ranges behind it: uuid:1-5:tag:1-3
                    if not item:
                        raise ValueError(f"not a GTID set: {text!r}")
                    numbering = f"{source.lower()}:{item.lower()}"
                    continue
                first, _, last = item.partition("-")
                found.setdefault(numbering, []).append((int(first), int(last or first)))
        return cls(tuple((uuid, _merged(found[uuid])) for uuid in sorted(found)))

    def __iter__(self) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
        return iter(self.intervals)

    def contains(self, other: GtidSet) -> bool:
        """True when every transaction of ``other`` is in this set."""
        mine = dict(self.intervals)
        return all(
            any(low <= first and last <= high for low, high in mine.get(uuid, ()))
            for uuid, ranges in other
            for first, last in ranges
        )

    def count(self) -> int:
        """How many transactions the set names."""
        return sum(last - first + 1 for _, ranges in self for first, last in ranges)

    def minus_count(self, other: GtidSet) -> int:
        """How many transactions of this set ``other`` lacks."""
        theirs = dict(other.intervals)
        overlap = sum(
            max(0, min(last, high) - max(first, low) + 1)
            for uuid, ranges in self
            for first, last in ranges
            for low, high in theirs.get(uuid, ())
        )
        return self.count() - overlap

    def __str__(self) -> str:
        return ",".join(
            ":".join([uuid, *(f"{a}-{b}" if a != b else str(a) for a, b in ranges)])
            for uuid, ranges in self
        )


def numbered(gtid: str) -> tuple[str, int] | None:
    """The numbering that one transaction's GTID belongs to and its number there: ``uuid:9`` is the ninth of
    ``uuid``, ``uuid:tag:9`` (MySQL 8.3+) the ninth of ``uuid:tag``. None for what is no GTID, such as an empty text.
    """
    numbering, _, number = gtid.rpartition(":")
    return (numbering, int(number)) if numbering and number.isdigit() else None


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
