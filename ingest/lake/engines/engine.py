"""What a merge engine is: it says of facts whether it makes a MERGE, and makes it.

A new engine is a class of this form in a file of its own, and a line in ``registry``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ingest.arrow import folded_pieces, winning_rows
from ingest.arrow.kept_rows import StepPieces
from ingest.changes import dedup
from ingest.changes.arrow_frames import frame_of
from ingest.config.spark_settings import Wanted
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.engines.delta_rs_limits import is_approximate, may_prune
from ingest.lake.engines.engine_choice import Candidate, Choice, MergeFacts
from ingest.lake.engines.reached_tables import ReachedTables
from ingest.schema.evolution import Profile
from ingest.targets import mirror_rows, multiset_rows
from ingest.targets.target import Target


@dataclass(frozen=True)
class EngineJob:
    """What an engine is begun with, once in a run. ``session``: the run's own, which no commit's identity ever stands
    in. ``lake``: its path. ``wanted``, ``profile``: as the pipeline file says.
    """

    session: SparkSession
    committer: Committer
    lake: str
    wanted: Wanted
    profile: Profile

    @cached_property
    def reached(self) -> ReachedTables:
        """The lake's tables, as far as delta-rs reaches them."""
        return ReachedTables(self.lake, self.committer.term)


@dataclass(frozen=True)
class MergeSource:
    """What a step's MERGE is made from. ``changes`` makes a frame with the columns of ``row_images.typed``, none of
    them refused; where ``rows`` are in the driver already, as source rows, it is not called. ``bytes``: of these
    rows, else of the messages, whose rows would be about as large at most. ``pieces``: the changes as they lie in Spark, where Arrow has
    read them there.
    """

    changes: Callable[[], DataFrame]
    rows: pa.Table | None
    bytes: int
    pieces: StepPieces | None = None

    def winning(self, key: Mapping[str, str], session: SparkSession) -> DataFrame:
        """One source row per key. ``key``: as ``Merge.key``; ``session``: of rows that are in the driver."""
        names = tuple(key)
        if is_approximate(tuple(key.values())):
            return self._aggregated(names)
        if self.rows is not None:
            return frame_of(winning_rows.winners(self.rows, names), session)
        if self.pieces is not None and self.pieces.read <= folded_pieces.FEW:
            return folded_pieces.folded(self.pieces, names)
        return self._aggregated(names)

    def keys(self, key: Mapping[str, str]) -> tuple[int, int] | None:
        """Numbers between which the key's first column is in all of them; None where that is not known."""
        if not may_prune(tuple(key.values())):
            return None
        if self.rows is not None:
            return winning_rows.key_range(self.rows, tuple(key))
        return self.pieces.keys if self.pieces is not None else None

    def winners(self, key: tuple[str, ...]) -> pa.Table:
        """One source row per key, in the driver."""
        if self.rows is not None:
            return winning_rows.winners(self.rows, key)
        return self._aggregated(key).toArrow()

    def _aggregated(self, key: tuple[str, ...]) -> DataFrame:
        return mirror_rows.mirror_source(dedup.winners(self.changes(), key))

    @cached_property
    def net(self) -> DataFrame:
        """Of a table without a key: how often each content comes or goes (``multiset_rows.net_changes``)."""
        return multiset_rows.net_changes(dedup.once(self.changes()))


@dataclass(frozen=True)
class Merge:
    """One step's changes into its table, as one commit. ``table``: in the session of this thread, in which Spark's
    commit would carry the identity. ``columns``: of the source rows, the reserved one left out. ``key``: its columns and
    their Delta types; empty for a table without one, whose changes all count. ``replaces``: of such a table, which rows
    the same commit removes (a condition in Spark's SQL), as the changes bring them once more; empty: none.
    """

    table: SparkTable
    target: Target
    source: MergeSource
    columns: Sequence[str]
    key: Mapping[str, str]
    identity: Identity
    replaces: str = ""


class Engine(Candidate, Protocol):
    """One way to make MERGEs, begun once in a run. Its methods are called by many threads, each for another table."""

    may_do_nothing: ClassVar[bool]
    """True where a MERGE that changes no row makes no commit."""

    def __init__(self, job: EngineJob) -> None: ...

    def handle(self, table: SparkTable) -> TableHandle | None:
        """The table as this engine commits to it; None where it is out of reach, or not to be asked."""

    def look(self, table: SparkTable, facts: MergeFacts) -> MergeFacts:
        """The facts, with what this engine sees of the table at next to no cost. What it does not see stays."""

    def merge(self, merge: Merge, facts: MergeFacts) -> Choice | None:
        """Make it, as one commit on ``handle(merge.table)`` under the identity that stands there already. Returns the
        mode and why, where it was not the one that the engine is named for.
        """

    def unable(self, failure: Exception) -> str | None:
        """Why another engine has to make the MERGE that ended so; None where it is a failure of the run's."""
