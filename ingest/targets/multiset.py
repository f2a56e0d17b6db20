"""The multiset: a table without a key holds each row as often as the source does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import SQL_TYPE
from ingest.targets.same_as_source import SameAsSource
from ingest.targets.target import MergePlan, Quoted, Said

META_TYPE = (
    f"struct<position: {SQL_TYPE}, op: string, committed_at: timestamp, "
    "content: string, ordinal: bigint>"
)
"""The reserved column of a multiset: also the SHA-256 of the row's content, and its ordinal."""


class Multiset(SameAsSource):
    """Rows are told apart by their content and an ordinal within it."""

    name = "multiset"
    keyed = False
    meta_type = META_TYPE

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """Every table without a key that nothing else is asked for."""
        return not keyed

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
