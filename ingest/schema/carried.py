"""Changes carried over a DDL: where the statement says what it made of each row, a batch's changes of before it are applied with those
behind it. Pure.

MySQL changed the rows that stood in its table. A row whose change waits in the same batch is one of them, so what the DDL made of it
can be made of the change, and the table gets one commit of rows where it would have got two: for thirty DDLs, one instead of thirty-one.
What stands in the lake by then gets its values as before (``batch/table_columns``).

Who finishes a batch of which somebody has made commits carries as that one did, or nothing had been carried: a change that the table has is
not newer than itself. The other way round the DDLs' commits stand before the rows of the steps before them, which would be taken for
there, too; so each commit names the steps that were carried, and the table stands still where that is not so (``table_applier``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ingest.schema import evolution
from ingest.schema.evolution import InPlace, Profile
from ingest.schema.mysql_types import column_type
from ingest.schema.steps import Step


@dataclass(frozen=True)
class CarriedColumn:
    """A column behind a DDL, and what it holds in a row of before: what ``origin`` did, the column that it was then, in a type that holds
    all of its values; or, where that is None, as it is new, ``text`` brought to its Delta type (None: NULL).
    """

    name: str
    delta: str
    origin: str | None = None
    text: str | None = None


Carry = tuple[CarriedColumn, ...]
"""What a DDL makes of a row: all columns behind it, in the source's order."""


def between(steps: Sequence[Step], profile: Profile) -> list[Carry | None]:
    """Of a table's steps with a key, for each but the last: what the DDL behind it makes of its changes; None where they stay a step of
    their own.
    """
    return [_over(one, after, profile) for one, after in pairwise(steps)]


def by(plan: InPlace) -> Carry:
    """What a change in place makes of a row that stands there."""
    texts = dict(plan.defaults)
    return tuple(
        CarriedColumn(field.name, field.delta, field.origin, texts.get(field.name))
        for field in plan.columns
    )


def _over(step: Step, after: Step, profile: Profile) -> Carry | None:
    """Only what leaves each value as it is, or adds one that the statement names: neither what only MySQL knows, nor a policy that keeps
    columns or leaves some out, nor anything that removes rows.
    """
    was, now = step.version, after.version
    removes = step.void or after.void or after.wipe or after.reset or after.moved
    if removes or after.previous is None or was.key != now.key or not now.key:
        return None
    if any(one.left_out or one.kept for one in (was, now)):
        return None
    held = evolution.held_by(was, multiset=False)
    plan = evolution.plan(held, now, was.columns, profile=profile)
    if plan.unknown or isinstance(plan, evolution.Rewrite):
        return None
    if isinstance(plan, evolution.Nothing):
        carry = tuple(
            CarriedColumn(column.name, column_type(column).delta, column.name)
            for column in now.followed
        )
    else:
        carry = by(plan)
    # Another column may have got the key's name: rows are told apart by the one that they had.
    same = {one.name for one in carry if one.origin == one.name}
    return carry if same.issuperset(now.key) else None
