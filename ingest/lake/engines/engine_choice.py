"""Which engine makes a table's MERGE: Spark, or delta-rs in the driver. Facts in, a choice out; pure.

The result is the same; delta-rs is faster wherever one machine holds the rows (docs/performance.md). Spark
scales out, reaches object stores, and knows every table feature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from ingest.config.pipeline_file import Wanted
from ingest.lake.files.location import delta_rs_folder
from ingest.model.topics import TableId
from ingest.schema.evolution import Profile

Engine = Literal["spark", "delta-rs", "deletion-vectors"]

MAX_BYTES = 256 * 2**20
"""Of messages whose rows pass through the driver's memory at once, about as large again there."""

MAX_BYTES_WITHOUT_KEY = 8 * 2**20
"""The same for a table without a key, whose rows are numbered one by one."""

MAX_TABLE = 4 * 2**30
"""Bytes of a table's files, which a MERGE on random keys reads all of."""

FITS = "it fits into one machine's memory"

WRITABLE = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "columnMapping", "deletionVectors"}
)
"""Table features that delta-rs was seen to write right (test_delta_rs). Type widening it refuses."""

_APPROXIMATE = ("float", "double")
"""As a key: to delta-rs the zero below zero is another number than zero, to MySQL and Spark it is not."""


@dataclass(frozen=True)
class MergeFacts:
    """One table's MERGE in one batch. ``reachable``: by delta-rs. ``bytes_of_changes``: their JSON. ``key``:
    Delta types of the key, empty for a table without one. ``table_rows``: as its files say.
    """

    reachable: bool
    features: frozenset[str] = frozenset()
    table_bytes: int = 0
    bytes_of_changes: int = 0
    key: tuple[str, ...] = ()
    table_rows: int = 0


@dataclass(frozen=True)
class Choice:
    """Which engine, and why, in words."""

    engine: Engine
    because: str

    def __str__(self) -> str:
        return f"{self.engine}: {self.because}"


def collects(wanted: Wanted, lake: str) -> bool:
    """Whether changes are wanted in the driver, where delta-rs merges them. ``lake``: its path."""
    return wanted != "spark" and delta_rs_folder(lake) is not None


def read_in_driver(
    wanted: Wanted,
    captured: Iterable[TableId],
    *,
    lake: str,
    state: bool,
    keyed: Collection[TableId],
) -> frozenset[TableId]:
    """The captured tables whose plain changes are read in the driver; all others are Spark's to compute. ``state``:
    Spark remembers what it has seen; ``keyed``: tables that have a key; the
    others as :func:`collects` has them.
    """
    if state or not collects(wanted, lake):
        return frozenset()
    return frozenset(table for table in captured if table in keyed)


def choose(wanted: Wanted, facts: MergeFacts) -> Choice:
    """The engine of one MERGE. What delta-rs cannot write, Spark writes whatever is wanted."""
    unknown = sorted(facts.features - WRITABLE)
    if wanted == "spark":
        return Choice("spark", "the pipeline file says so")
    if not facts.reachable:
        return Choice(
            "spark",
            "it is not in a local folder with a plain name, or delta-rs does not read its log",
        )
    if unknown:
        return Choice("spark", f"delta-rs does not write {', '.join(unknown)}")
    if any(kind in _APPROXIMATE for kind in facts.key):
        return Choice("spark", "a key column is a floating-point number")
    if wanted != "auto":
        return Choice("delta-rs", "the pipeline file says so")
    if facts.bytes_of_changes > MAX_BYTES:
        return Choice("spark", f"{facts.bytes_of_changes / 2**20:,.0f} MiB of changes in one batch")
    if not facts.key and facts.bytes_of_changes > MAX_BYTES_WITHOUT_KEY:
        return Choice("spark", "it has no key, and a batch brings many changes")
    if facts.table_bytes > MAX_TABLE:
        return Choice("spark", f"the table has {facts.table_bytes / 2**30:,.1f} GiB")
    return Choice("delta-rs", FITS)


COULD_NOT = "delta-rs could not"
"""Begins the reason where delta-rs refused a MERGE; its own words follow, which may hold values of rows."""

_ORDERED = ("tinyint", "smallint", "int", "bigint")


def may_prune(key: tuple[str, ...]) -> bool:
    """True when files can be passed over by the range of the key. Only whole numbers: ranges of texts are
    cut short in a file's statistics.
    """
    return bool(key) and all(kind in _ORDERED for kind in key)


MARKS_PAY = 2_000_000
"""Rows that a MERGE would write anew, in some half a second for each million; to mark rows among them it reads
keys, in a tenth of that. Below it, what marks cost those who read the table counts more: Spark takes half as long
again to scan files that have any (`bench.layout`)."""

MAX_MARKED = 20_000
"""Changes that are looked up one by one."""

MAX_MARKS = 16_384
"""Deleted rows in one file, at most two bytes each, in each commit that marks more of them. A file with more is
written anew."""

_MARKABLE = (*_ORDERED, "string")


def may_mark(wanted: Wanted, facts: MergeFacts, profile: Profile) -> bool:
    """True when a MERGE may mark rows as deleted instead of writing their files anew. Not every reader knows
    deletion vectors, so ``profile: compat`` has none (docs/readers.md).
    """
    known = bool(facts.key) and all(kind in _MARKABLE for kind in facts.key)
    if wanted == "deletion-vectors":
        return known
    return wanted == "auto" and profile != "compat" and known and facts.table_rows >= MARKS_PAY


def marks_pay(touched_rows: int, changes: int) -> bool:
    """True when marking costs less than writing files with so many rows anew."""
    return touched_rows >= MARKS_PAY and changes <= MAX_MARKED
