"""Up to where a batch of totals goes: one published batch of the manifest, and the versions of its tables; and how it is worked out. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class TableCut:
    """A table and its change log as a batch of the manifest has left them. ``id``, ``log_id``: Delta's own: a table that was made again has another."""

    path: str
    version: int
    id: str
    log_path: str
    log_version: int
    log_id: str


@dataclass(frozen=True)
class Cut:
    """``batch``: of the manifest; ``tables``: by input; ``made_of``: a digest of the function's query and of the totals; ``main``: the table that holds
    them, by name and Delta's id; ``main_version``: what it was before the batch; ``told``: the other sinks, which all have had the whole by then.
    """

    batch: int
    tables: Mapping[str, TableCut]
    made_of: str
    main: str
    main_version: int
    told: tuple[str, ...]

    def as_text(self) -> str:
        """For a file."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_text(cls, text: str) -> Cut:
        """The inverse."""
        said = json.loads(text)
        tables = {name: TableCut(**one) for name, one in said["tables"].items()}
        return cls(**{**said, "tables": tables, "told": tuple(said["told"])})


@dataclass(frozen=True)
class LogFacts:
    """Of a log's rows between two cuts. ``others``: operations that are no change of a row; ``bare``: changes that lack an image; ``lacks``: old days
    of it are gone, some of them behind the first cut.
    """

    changes: int = 0
    others: tuple[str, ...] = ()
    bare: int = 0
    lacks: bool = False


Way = Literal["nothing", "sums", "groups", "whole"]
"""Nothing has changed; the changes' shares are added to the groups' sums; the groups that were touched are computed again; all of them are."""


@dataclass(frozen=True)
class Decision:
    """A way, and why it is ``whole``."""

    way: Way
    why: str = ""


def decide(
    before: Cut | None,
    now: Cut,
    facts: Mapping[str, LogFacts],
    *,
    sums: bool,
    why_whole: str,
    readable: bool,
) -> Decision:
    """``before``: the cut of the batch before; ``facts``: by input; ``sums``: every value is one; ``why_whole``: why the function's query leaves
    nothing else; ``readable``: whether the tables can still be read as they were.
    """
    if before is None:
        return Decision("whole", "it is the first batch")
    if before.made_of != now.made_of:
        return Decision("whole", "the flow was changed")
    if before.main != now.main:
        return Decision("whole", "its table is another one")
    for name, table in now.tables.items():
        was = before.tables.get(name)
        if was is None or (was.id, was.log_id) != (table.id, table.log_id):
            return Decision("whole", f"the table of {name} was made again")
        if facts[name].lacks:
            return Decision(
                "whole", f"changes of {name} are gone that were not taken in (`change_log_days`)"
            )
        if others := facts[name].others:
            return Decision("whole", f"{name} has seen: {', '.join(others)}")
        if facts[name].bare:
            return Decision("whole", f"{name} has changes without an image")
    if not any(one.changes for one in facts.values()):
        return Decision("nothing")
    if why_whole:
        return Decision("whole", why_whole)
    if not readable:
        return Decision("whole", "what the tables were before is gone")
    return Decision("sums" if sums else "groups")
