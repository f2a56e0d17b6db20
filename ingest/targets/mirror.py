"""The mirror: a table with a key holds what the source holds now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
from ingest.model.specification import Change, mirror
from ingest.targets.target import KEYED_META, NEWER, OLDER, Content, Fate, MergePlan, Quoted, Said

META_TYPE = KEYED_META


class Mirror:
    """The newest change of a key wins; a delete removes its row."""

    name = "mirror"
    keyed = plain = True
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
        """Every table with a key that nothing else is asked for."""
        return keyed

    def unfit(self, said: Said, *, keyed: bool) -> None:
        """Every table can be one or the other."""

    def plan(self, columns: Sequence[str], key: Sequence[str], quoted: Quoted) -> MergePlan:
        """See :func:`mirror_plan`."""
        return mirror_plan(columns, key, quoted)

    def truncated(self, at: Position) -> Fate:
        """Rows before it are removed."""
        return Fate(f"{OLDER}{at.sql()}")

    def not_found(self, below: Position) -> Fate:
        """They are removed."""
        return Fate(f"{OLDER}{below.sql()}")

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """What MySQL itself holds."""
        return Content(mirror(delivered, snapshot))


def mirror_plan(
    columns: Sequence[str], key: Sequence[str], quoted: Callable[[str], str] = quoted
) -> MergePlan:
    """Every clause is guarded by the order, deletes included: a change applies only over an older row."""
    match = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
    names = [*columns, RESERVED_COLUMN]
    return MergePlan(
        match=match,
        delete_when=f"s.{RESERVED_COLUMN}.op = 'd' AND {NEWER}",
        update_when=f"s.{RESERVED_COLUMN}.op <> 'd' AND {NEWER}",
        insert_when=f"s.{RESERVED_COLUMN}.op <> 'd'",
        assignments={quoted(name): f"s.{quoted(name)}" for name in names},
    )
