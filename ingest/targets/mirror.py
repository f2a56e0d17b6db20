"""The mirror: a table with a key holds what the source holds now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.targets.same_as_source import SameAsSource
from ingest.targets.target import KEYED_META, NEWER, MergePlan, Quoted, Said

META_TYPE = KEYED_META


class Mirror(SameAsSource):
    """The newest change of a key wins; a delete removes its row."""

    name = "mirror"
    keyed = True
    meta_type = META_TYPE

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """Every table with a key that nothing else is asked for."""
        return keyed

    def plan(self, columns: Sequence[str], key: Sequence[str], quoted: Quoted) -> MergePlan:
        """See :func:`mirror_plan`."""
        return mirror_plan(columns, key, quoted)


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
