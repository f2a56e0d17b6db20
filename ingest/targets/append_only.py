"""The log: a table without a key keeps each row that was ever inserted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from ingest.model import reasons
from ingest.model.position import Position
from ingest.model.specification import Change, in_order
from ingest.targets.multiset import Multiset
from ingest.targets.target import Content, Said, last_said


class AppendOnly(Multiset):
    """A multiset whose rows stay when they are deleted or truncated at the source; an update is refused."""

    name = "append_only"
    default = False
    settings: Mapping[str, Any] = {
        "append_only": (
            bool,
            Field(
                False,
                description="Of a table without a key: the lake keeps every row that was ever inserted. Deletes and "
                "truncates at the source leave the lake's rows where they are; an update, which a log cannot "
                "have, is quarantined. Where several patterns match a table, the last one with `append_only` counts.",
            ),
        )
    }
    ignored = frozenset("d")
    refused: Mapping[str, str] = {"u": reasons.UPDATE_OF_A_LOG.says}
    outlives = True
    begins = "keeps rows from now on that the source deletes"
    ends = "rows that the source no longer has stay until `ingest resync` of the table, and the audit names them"

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """Where the last pattern with ``append_only`` says so; of a table with a key it means nothing."""
        return not keyed and bool(last_said(said, "append_only", default=False))

    def truncated(self, at: Position) -> None:
        """Nothing."""

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """Every row that was inserted, as often as it was."""
        inserted = [
            change.after
            for change in in_order(delivered, snapshot)
            if change.operation in ("insert", "read") and change.after is not None
        ]
        return Content(Counter(inserted))
