"""What a target says of itself: the settings it takes, the rows it holds, and what a change does to them.

All else asks it by way of ``registry``: the pipeline file for its settings, the engines for its MERGE, ``ingest plan``
for its sentences, the audit for the rows that count, and the conformance suite for what a table must hold. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingest.model.errors import IngestError
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import SQL_TYPE, Position
from ingest.model.specification import Change, Row

Said = Sequence[Mapping[str, Any]]
"""What the pipeline file says of a table: of each pattern that matches it, in the file's order, the settings it names."""


def last_said(said: Said, setting: str, default: Any) -> Any:
    """What counts of a setting: what the last pattern says that names it."""
    return next((one[setting] for one in reversed(said) if setting in one), default)


Quoted = Callable[[str], str]
"""How an engine quotes names."""

KEYED_META = f"struct<position: {SQL_TYPE}, op: string, committed_at: timestamp>"
"""The type of the reserved column of a table with a key: place, operation and commit time of a row's newest change."""

OLDER = f"{RESERVED_COLUMN}.position < "
"""Begins the condition for rows whose newest change lies before a position."""

NEWER = f"s.{RESERVED_COLUMN}.position > t.{RESERVED_COLUMN}.position"
"""The guard of every clause of a MERGE by key: a change applies only over an older row."""


@dataclass(frozen=True)
class MergePlan:
    """Conditions and assignments for ``DeltaTable.merge`` with the aliases ``t`` and ``s``. Without a condition
    to delete or to update, that clause is left out.

    Assignments are explicit, so a generated or extra column of the target never fails the MERGE.
    """

    match: str
    delete_when: str
    update_when: str
    insert_when: str
    assignments: dict[str, str]


@dataclass(frozen=True)
class Fate:
    """What becomes of rows all at once: those of ``where`` (a condition in Spark's SQL) are removed, or, with ``marks``,
    stay and get these values (a column to an expression).
    """

    where: str
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """What a table must hold after a log. ``live``: its rows, and how often each is there. ``kept``: rows that stand in
    the table and do not count, by key, each with the position that says why.
    """

    live: Counter[Row]
    kept: Mapping[Row, tuple[Row, Position]] = field(default_factory=dict)


@dataclass(frozen=True)
class Unfit:
    """Why a table cannot be what the pipeline file asks for, and what to do about it."""

    why: str
    remedy: str

    def refusal(self, table: str) -> IngestError:
        """Why a batch's changes of the table cannot be applied; it stands still before them."""
        return IngestError(
            "E-TABLE-TARGET",
            f"{table} cannot be kept as the pipeline file says: {self.why}.",
            means="The batch was not applied and stays in Kafka.",
            remedy=self.remedy,
        )


class Target(Protocol):
    """One way to keep a source's table in the lake."""

    @property
    def name(self) -> str:
        """As a table's properties and ``ingest plan`` say it."""

    @property
    def keyed(self) -> bool:
        """True for tables with a key: one winning change for each. False: every change counts."""

    @property
    def default(self) -> bool:
        """True for what a table is when the pipeline file says nothing of it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings of a table in the pipeline file: name to (type, pydantic's ``Field``)."""

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """True where the pipeline file asks for it, and the table can be it. ``keyed``: the table has a key."""

    def unfit(self, said: Said, *, keyed: bool) -> Unfit | None:
        """Where the pipeline file asks for it, and the table cannot be it."""

    @property
    def meta_type(self) -> str:
        """Delta's type of the reserved column."""

    @property
    def ignored(self) -> frozenset[str]:
        """Operations that change nothing in it."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Operations that it cannot have, each with the reason for which the change is quarantined."""

    @property
    def removing(self) -> frozenset[str]:
        """Operations after which no row stands, as a winner and in ``plan``."""

    @property
    def dead(self) -> frozenset[str]:
        """Operations of rows that stand in the table and do not count: to a reader, to the audit, to the suite."""

    @property
    def outlives(self) -> bool:
        """True where rows stay, and count, that the source no longer has. Only a person may have such a table taken
        again, which replaces them.
        """

    def plan(self, columns: Sequence[str], key: Sequence[str], quoted: Quoted) -> MergePlan:
        """Its MERGE. ``key``: the columns that match; of a table without one, the column that says whether a row
        is to be inserted (``c``) or deleted (``d``).
        """

    def truncated(self, at: Position) -> Fate | None:
        """What a TRUNCATE or DROP at a position makes of the rows; None: nothing."""

    def not_found(self, below: Position) -> Fate:
        """What becomes of rows that a snapshot, taken at a position, did not find."""

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """What a table must hold after these changes, delivered in any order and any number of times. ``snapshot``: see
        ``specification.in_order``.
        """

    @property
    def begins(self) -> str:
        """What this target makes of a table that was another one, as a sentence for ``ingest plan``."""

    @property
    def ends(self) -> str:
        """What becomes of what only this target keeps, once another one takes its place; empty: nothing."""


def dead_rows(target: Target) -> str | None:
    """The condition for rows that stand in a table and do not count, as Spark and delta-rs both read it."""
    if not target.dead:
        return None
    operations = ", ".join(f"'{one}'" for one in sorted(target.dead))
    return f"{RESERVED_COLUMN}['op'] IN ({operations})"


def live_rows(target: Target) -> str:
    """The condition for rows that count."""
    dead = dead_rows(target)
    return f"NOT ({dead})" if dead else "true"
