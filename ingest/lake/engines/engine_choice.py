"""Which engine makes a table's MERGE: the first of the registry that can. Facts in, a choice out. Pure.

The result is the same; delta-rs is faster wherever one machine holds the rows (docs/performance.md). Spark
scales out, reaches HDFS, and knows every table feature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ingest.config.spark_settings import Wanted
from ingest.model import reasons
from ingest.model.location import delta_rs_place
from ingest.model.topics import TableId
from ingest.schema.evolution import Profile


@dataclass(frozen=True)
class MergeFacts:
    """One table's MERGE in one batch. ``wanted``, ``profile``: as the pipeline file says. ``reachable``: by delta-rs.
    ``bytes_of_changes``: as ``MergeSource`` has them. ``key``: Delta types of the key, empty for a table without one. ``table_rows``: as
    its files say. ``replaces``: whether rows of before go in the same commit. ``stays``: the changes are with Spark's tasks.
    """

    wanted: Wanted
    profile: Profile
    reachable: bool = False
    features: frozenset[str] = frozenset()
    table_bytes: int = 0
    bytes_of_changes: int = 0
    key: tuple[str, ...] = ()
    table_rows: int = 0
    replaces: bool = False
    stays: bool = False


@dataclass(frozen=True)
class Choice:
    """Which engine, or which of its modes, and why, in words (``reasons.MERGED_BY``)."""

    engine: str
    because: str

    def __str__(self) -> str:
        return f"{self.engine}: {self.because}"


class Candidate(Protocol):
    """An engine, as far as it can be chosen."""

    name: ClassVar[str]
    """As the pipeline file, the manifest and ``ingest plan`` say it."""

    fits: ClassVar[str]
    """Why it is taken where it can and nobody asked for it."""

    @staticmethod
    def can(facts: MergeFacts) -> str | None:
        """None where it makes such a MERGE; else why not: it cannot, should not, or another one is asked for."""


def choose(engines: Sequence[type[Candidate]], facts: MergeFacts) -> Choice:
    """The first of these that can. Where others were passed over, the reason is theirs. Raises ``LookupError`` where
    none can: the registry's last one always can.
    """
    passed = list[str]()
    for engine in engines:
        refusal = engine.can(facts)
        if refusal is None:
            fits = engine.fits if facts.wanted == "auto" else reasons.ASKED_FOR.of()
            return Choice(engine.name, "; ".join(dict.fromkeys(passed)) or fits)
        passed.append(refusal)
    raise LookupError("; ".join(passed))


def collects(wanted: Wanted, lake: str) -> bool:
    """Whether changes are wanted in the driver, where delta-rs merges them. ``lake``: its path."""
    return wanted != "spark" and delta_rs_place(lake) is not None


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
