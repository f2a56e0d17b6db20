"""The mirror with soft deletes: a deleted row stays, with ``_ingest.op = 'd'`` and the place of its delete. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
from ingest.model.specification import Change, Row, in_order
from ingest.targets.target import (
    KEYED_META,
    NEWER,
    OLDER,
    Content,
    Fate,
    MergePlan,
    Quoted,
    Said,
    Unfit,
    last_said,
)

_DELETED = f"{RESERVED_COLUMN}['op'] = 'd'"


class SoftDeletes:
    """The newest change of a key is its row, a delete like any other. A row that was never there and is deleted stays
    as deleted, too, so that no older change can bring it back.
    """

    name = "soft_deletes"
    keyed = True
    default = False
    settings: Mapping[str, Any] = {
        "deletes": (
            Literal["hard", "soft"],
            Field(
                "hard",
                description="`soft`: a row that is deleted at the source stays in the lake as it was, with "
                "`_ingest.op = 'd'` and the position and commit time of its delete; live rows are those of "
                "`_ingest.op <> 'd'`. Only of tables with a key. Where several patterns match a table, the last "
                "one with `deletes` counts.",
            ),
        )
    }
    meta_type = KEYED_META
    ignored: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    removing: frozenset[str] = frozenset()
    dead = frozenset("d")
    outlives = False
    begins = "keeps deleted rows from now on, with `_ingest.op = 'd'`; what was deleted before is not there"
    ends = "the rows that are kept as deleted go before its next change"

    def wanted(self, said: Said, *, keyed: bool) -> bool:
        """Where the last pattern with ``deletes`` says so, and the table has a key."""
        return keyed and _soft(said)

    def unfit(self, said: Said, *, keyed: bool) -> Unfit | None:
        """A table without a key."""
        if keyed or not _soft(said):
            return None
        return Unfit(
            "`deletes: soft` needs a key, since nothing else tells a deleted row from the others that are like it",
            "give it a primary key at the source, or say `deletes: hard` of it, behind all other patterns in `tables`",
        )

    def plan(self, columns: Sequence[str], key: Sequence[str], quoted: Quoted) -> MergePlan:
        """Every winner is written, a delete as well: over an older row, or where there is none."""
        names = [*columns, RESERVED_COLUMN]
        return MergePlan(
            match=" AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key),
            delete_when="",
            update_when=NEWER,
            insert_when="true",
            assignments={quoted(name): f"s.{quoted(name)}" for name in names},
        )

    def truncated(self, at: Position) -> Fate:
        """Live rows before it are deleted there. Their commit time is not known: nothing keeps that of a TRUNCATE."""
        marks = {"position": at.sql(), "op": "'d'", "committed_at": "CAST(NULL AS TIMESTAMP)"}
        return Fate(
            f"{OLDER}{at.sql()} AND NOT ({_DELETED})",
            {f"{quoted(RESERVED_COLUMN)}.{name}": value for name, value in marks.items()},
        )

    def not_found(self, below: Position) -> Fate:
        """They are deleted there: the snapshot says that they were gone by then, and not when."""
        return self.truncated(below)

    def holds(self, delivered: Iterable[Change], snapshot: Position | None = None) -> Content:
        """What MySQL holds; and of each key that it held and holds no more the last row, with the place of its end."""
        live, kept = dict[Row, Row](), dict[Row, tuple[Row, Position]]()
        for change in in_order(delivered, snapshot):
            if change.operation == "truncate":
                kept |= {key: (row, change.position) for key, row in live.items()}
                live.clear()
                continue
            assert change.key is not None, "soft deletes need a key"
            if change.operation == "delete":
                assert change.before is not None
                live.pop(change.key, None)
                kept[change.key] = (change.before, change.position)
            else:
                assert change.after is not None
                kept.pop(change.key, None)
                live[change.key] = change.after
        return Content(Counter(live.values()), kept)


def _soft(said: Said) -> bool:
    return bool(last_said(said, "deletes", default="hard") == "soft")
