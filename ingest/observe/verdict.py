"""What an audit found, as values: per table, per key, and the verdict over all. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

BucketSums = Mapping[int, tuple[int, int, int]]
"""Bucket to (rows, sum of first hash halves, sum of second hash halves)."""

MOST_EXAMPLES = 20
"""Of a table, so many differences are named."""

Found = Literal["missing in the lake", "only in the lake", "differs"]


@dataclass(frozen=True)
class Difference:
    """One key whose rows are not the same on both sides."""

    key: str
    found: Found


@dataclass(frozen=True)
class TableResult:
    """One table. ``differences`` counts keys (rows, for a table without a key)."""

    name: str
    source_rows: int
    lake_rows: int
    differences: int
    examples: tuple[Difference, ...] = ()
    at_least: bool = False
    """True when so much differs that counting stopped."""
    kept: int = 0
    """Rows that only the lake has, which is as it should be: the pipeline file has them stay."""
    note: str = ""
    """What a policy of the pipeline file has to do with it, or the source's no longer capturing it."""
    keeps: str = "`append_only`"
    """The setting by which the rows of ``kept`` stay."""
    remedy: str = ""
    """What ends the difference, where that is no resync."""


Outcome = Literal["equal", "different", "moving", "behind"]


@dataclass(frozen=True)
class Verdict:
    """An audit's result. ``reason`` says why nothing could be compared, when nothing could."""

    outcome: Outcome
    tables: tuple[TableResult, ...]
    position: str = ""
    reason: str = ""

    @property
    def equal(self) -> bool:
        """True only when every table was compared at one position and nothing differs."""
        return self.outcome == "equal"

    def as_json(self) -> dict[str, object]:
        """The stable shape of ``ingest audit --json``."""
        return {
            "equal": self.equal,
            "outcome": self.outcome,
            "position": self.position,
            "reason": self.reason,
            "tables": [
                {
                    "name": table.name,
                    "source_rows": table.source_rows,
                    "lake_rows": table.lake_rows,
                    "differences": table.differences,
                    "at_least": table.at_least,
                    "kept": table.kept,
                    "note": table.note,
                    "remedy": table.remedy,
                    "examples": [{"key": d.key, "found": d.found} for d in table.examples],
                }
                for table in self.tables
            ],
        }


def compared(tables: tuple[TableResult, ...], position: str) -> Verdict:
    """The verdict over tables that were all compared at this position."""
    differs = any(table.differences for table in tables)
    return Verdict("different" if differs else "equal", tables, position)


def differing_buckets(source: BucketSums, lake: BucketSums) -> list[int]:
    """Buckets whose row count or hash sums are not the same."""
    return sorted(b for b in {*source, *lake} if source.get(b) != lake.get(b))


def compare_rows(
    source: Iterable[tuple[str, str]], lake: Iterable[tuple[str, str]]
) -> list[Difference]:
    """Compare (key, row hash) pairs as multisets; one difference per key and copy."""
    ours, theirs = Counter(source), Counter(lake)
    missing = Counter(key for key, _ in (ours - theirs).elements())
    extra = Counter(key for key, _ in (theirs - ours).elements())
    found: list[Difference] = []
    for key in sorted({*missing, *extra}):
        both = min(missing[key], extra[key])
        found += [Difference(key, "differs")] * both
        found += [Difference(key, "missing in the lake")] * (missing[key] - both)
        found += [Difference(key, "only in the lake")] * (extra[key] - both)
    return found
