"""What targets that hold what the source holds now have in common: with a key the mirror, without one the multiset. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ingest.model.position import Position
from ingest.model.specification import Change, mirror
from ingest.targets.target import OLDER, Content, Fate, Said


class SameAsSource:
    """What a table is when the pipeline file says nothing of it: no setting, every change applies, every row counts."""

    default = True
    settings: Mapping[str, Any] = {}
    ignored: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    removing = frozenset("d")
    dead: frozenset[str] = frozenset()
    outlives = False
    begins = "holds what the source holds, and no more"
    ends = ""

    def unfit(self, said: Said, *, keyed: bool) -> None:
        """Every table can be one or the other."""

    def truncated(self, at: Position) -> Fate | None:
        """Rows before it are removed."""
        return Fate(f"{OLDER}{at.sql()}")

    def not_found(self, below: Position) -> Fate:
        """They are removed."""
        return Fate(f"{OLDER}{below.sql()}")

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """What MySQL itself holds."""
        return Content(mirror(delivered, snapshot))
