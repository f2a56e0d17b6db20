"""What delta-rs can merge, what it should, and in which of its two modes. Facts in, an answer out. Pure."""

from __future__ import annotations

from ingest.lake.engines.engine_choice import MergeFacts
from ingest.model import reasons

COPY_ON_WRITE = "delta-rs"
MERGE_ON_READ = "deletion-vectors"
"""Its modes, as the pipeline file and the manifest name them. The first is the engine's name, too."""

MAX_BYTES = 256 * 2**20
"""Of rows that pass through the driver's memory at once, or of their messages where they are not there yet."""

MAX_BYTES_WITHOUT_KEY = 8 * 2**20
"""The same for a table without a key, whose rows are numbered one by one."""

MAX_TABLE = 4 * 2**30
"""Bytes of a table's files, which a MERGE on random keys reads all of."""

WRITABLE = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "columnMapping", "deletionVectors"}
)
"""Table features that delta-rs was seen to write right (tests/spark/lake/test_delta_rs_table.py). Type widening it refuses."""

_APPROXIMATE = ("float", "double")
"""As a key: to delta-rs and Arrow the zero below zero is another number than zero, to MySQL and Spark it is not."""


def refusal(facts: MergeFacts) -> str | None:
    """Why delta-rs does not make a MERGE, or None. What it cannot write it does not write, whatever is wanted; what
    is only large it does where it is asked for.
    """
    unknown = sorted(facts.features - WRITABLE)
    if facts.wanted not in ("auto", COPY_ON_WRITE, MERGE_ON_READ):
        return reasons.ASKED_FOR.of()
    if not facts.reachable:
        return reasons.OUT_OF_REACH.of()
    if unknown:
        return reasons.UNKNOWN_FEATURE.of(features=", ".join(unknown))
    if is_approximate(facts.key):
        return reasons.FLOAT_KEY.of()
    if facts.replaces:
        return reasons.TAKEN_AGAIN.of()
    if facts.wanted != "auto":
        return None
    if facts.stays:
        return reasons.WITH_TASKS.of()
    if facts.bytes_of_changes > MAX_BYTES:
        return reasons.LARGE_BATCH.of(size=f"{facts.bytes_of_changes / 2**20:,.0f}")
    if not facts.key and facts.bytes_of_changes > MAX_BYTES_WITHOUT_KEY:
        return reasons.LARGE_WITHOUT_KEY.of()
    if facts.table_bytes > MAX_TABLE:
        return reasons.LARGE_TABLE.of(size=f"{facts.table_bytes / 2**30:,.1f}")
    return None


def is_approximate(key: tuple[str, ...]) -> bool:
    """True for a key whose equality only Spark knows as MySQL does."""
    return any(kind in _APPROXIMATE for kind in key)


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


def may_mark(facts: MergeFacts) -> bool:
    """True when a MERGE may mark rows as deleted instead of writing their files anew. Not every reader knows
    deletion vectors, so ``profile: compat`` has none (docs/readers.md).
    """
    known = bool(facts.key) and all(kind in _MARKABLE for kind in facts.key)
    if facts.wanted == MERGE_ON_READ:
        return known
    may = facts.wanted == "auto" and facts.profile != "compat"
    return may and known and facts.table_rows >= MARKS_PAY


def marks_pay(touched_rows: int, changes: int) -> bool:
    """True when marking costs less than writing files with so many rows anew."""
    return touched_rows >= MARKS_PAY and changes <= MAX_MARKED
