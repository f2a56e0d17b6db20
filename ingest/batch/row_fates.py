"""What becomes of a table's rows all at once: by a TRUNCATE, by a snapshot that began again or did not find them, and
where the table is kept as something else from here on. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
from ingest.schema import steps
from ingest.schema.steps import Step
from ingest.targets.target import OLDER, Fate, Target, dead_rows

_LIVE = {f"{RESERVED_COLUMN}.op": "'u'"}
"""A row that was a multiset's has the operation of the last change of its content, which may be the delete of a copy."""


@dataclass(frozen=True)
class Was:
    """A table as it stands: what it was last written as, and its key."""

    target: Target
    key: tuple[str, ...]


def another(target: Target, was: Was | None) -> bool:
    """True where the table was last written as another target (hard deletes before, soft ones now), and one of the two keeps rows that do not count."""
    if was is None or was.target.name == target.name:
        return False
    return bool(was.target.dead or target.dead)


def before(step: Step, target: Target, key: tuple[str, ...], was: Was | None) -> Fate | None:
    """What becomes of rows that are in the table, in a commit before the step's changes; None where nothing does. ``was``: None where the table is known to fit.

    Rows that do not count go with the target that knows them, and with the key by which they were told apart: under
    another one a deleted row and a live one may be the same. And where a target begins that calls rows dead by their
    operation, none of the rows that are there is.
    """
    wiped = target.truncated(step.wipe) if step.wipe and not step.void else None
    gone = list[str]()
    if step.reset:
        gone.append(up_to(step.reset))
    if was is not None and not step.void:
        dead = dead_rows(was.target)
        if dead and (another(target, was) or was.key != key):
            gone.append(dead)
    if gone:
        gone += [wiped.where] if wiped else []
        return Fate(" OR ".join(f"({one})" for one in gone))
    begins = dead_rows(target) if another(target, was) and not step.void else None
    return wiped or (Fate(begins, _LIVE) if begins else None)


def up_to(position: Position) -> str:
    """The condition for rows whose newest change does not lie behind a position."""
    return f"{RESERVED_COLUMN}.position <= {position.sql()}"


def not_found(was: Was, below: Position) -> list[Fate]:
    """What becomes of rows that a snapshot, taken at a position, did not find, a commit each.

    A row without its key is none that was deleted: of a DDL that only MySQL could follow in the key it has kept nothing
    to be told by, and the snapshot has brought it once more. So it goes where others would stay, marked.
    """
    fate = was.target.not_found(below)
    lost = " OR ".join(f"{quoted(name)} IS NULL" for name in was.key)
    if not (was.target.dead and lost):
        return [fate]
    return [Fate(f"{OLDER}{below.sql()} AND ({lost})"), fate]


def without_void(found: list[Step], target: Target) -> list[Step]:
    """The steps that have to be applied. A target that a TRUNCATE leaves something of needs all of them."""
    last = next((one.wipe for one in found if one.wipe), None)
    if last is None:
        return found
    fate = target.truncated(last)
    if fate is None:
        found = [replace(one, wipe=None) for one in found]
    return found if fate and fate.marks else steps.without_void(found)
