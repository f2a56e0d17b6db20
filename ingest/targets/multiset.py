"""The multiset: a table without a key holds each row as often as the source does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import SQL_TYPE, Position
from ingest.model.specification import Change, mirror
from ingest.targets.target import OLDER, Content, Fate, MergePlan, Quoted, Said

META_TYPE = (
    f"struct<position: {SQL_TYPE}, op: string, committed_at: timestamp, "
    "content: string, ordinal: bigint>"
)
"""The reserved column of a multiset: also the SHA-256 of the row's content, and its ordinal."""


class Multiset:
    """Rows are told apart by their content and an ordinal within it."""

    name = "multiset"
    keyed = False
    plain = True
    settings: Mapping[str, Any] = {}
    meta_type = META_TYPE
    ignored: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    removing = frozenset("d")
    dead: frozenset[str] = frozenset()
    outlives = False
    begins = "holds what the source holds, and no more"
    ends = ""

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """Every table without a key that nothing else is asked for."""
        return not keyed

    def unfit(self, said: Said, *, keyed: bool) -> None:
        """Every table can be one or the other."""

    def plan(self, columns: Sequence[str], key: Sequence[str], quoted: Quoted) -> MergePlan:
        """(content, ordinal) matches."""
        (op,) = key
        meta = RESERVED_COLUMN
        return MergePlan(
            match=f"t.{meta}.content = s.{meta}.content AND t.{meta}.ordinal = s.{meta}.ordinal",
            delete_when=f"s.{quoted(op)} = 'd'",
            update_when="",
            insert_when=f"s.{quoted(op)} = 'c'",
            assignments={quoted(name): f"s.{quoted(name)}" for name in [*columns, meta]},
        )

    def truncated(self, at: Position) -> Fate | None:
        """Rows before it are removed."""
        return Fate(f"{OLDER}{at.sql()}")

    def not_found(self, below: Position) -> Fate:
        """They are removed."""
        return Fate(f"{OLDER}{below.sql()}")

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """What MySQL itself holds."""
        return Content(mirror(delivered, snapshot))
