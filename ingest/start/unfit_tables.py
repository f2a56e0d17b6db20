"""Tables of the lake that a start cannot go on with, each with why and what helps; it goes on without them. Pure.

Somebody else's rows, a commit that is cut off, another table under its name, what cannot be read: each is one table's trouble.
So that table stands still, as after a part of a batch that could not be applied (``batch.side_by_side``): it stays as it is
found, its changes wait in Kafka, and each start looks again. Where that is no help (nothing else is left, or it is what all tables
rest upon), the start is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.model import reasons
from ingest.model.start_facts import LakeFacts, StartFacts
from ingest.start import ahead_of_manifest


@dataclass(frozen=True)
class Unfit:
    """One of them: why, and what helps, each without a full stop."""

    reason: str
    remedy: str
    stands: bool = True
    """Whether the others may go on: not where their next batch would hide what is the matter."""

    @property
    def stopped(self) -> str:
        """What the manifest says of a table that stands still by it."""
        return reasons.UNFIT.of(words=f"{self.reason}. What helps: {self.remedy}")


def found(facts: StartFacts) -> dict[str, Unfit]:
    """By the name of the table, or of what is ours beside them."""
    known = facts.newest.tables if facts.newest else {}
    # Of one that the manifest does not know, only its own part of a batch fails.
    each = {log.name: _unfit_log(log) for log in facts.logs if log.name in known}
    each |= {lake.name: _unfit(facts, lake) or each.get(lake.name) for lake in facts.lake}
    return {name: unfit for name, unfit in each.items() if unfit is not None}


def may_stand_still(facts: StartFacts, unfit: Mapping[str, Unfit]) -> bool:
    """Whether the others can go on: there are some, and of each of these the manifest knows where it goes on once it is
    mended.
    """
    known = facts.newest.tables if facts.newest else {}
    return unfit.keys() < known.keys() and all(one.stands for one in unfit.values())


def _unfit(facts: StartFacts, lake: LakeFacts) -> Unfit | None:
    """In the order in which they hide one another."""
    return _torn(lake) or _of_another_writer(facts, lake) or _unexplained(facts, lake)


def _unfit_log(log: LakeFacts) -> Unfit | None:
    """Of a table by its change log: it would miss what the table gets meanwhile."""
    what = f"the change log of {log.name}"
    away = f"move {log.path} away; the next run begins a new one"
    if log.unreadable or log.torn:
        return Unfit(f"{what} cannot be read ({log.unreadable or log.torn})", away)
    if log.foreign and log.foreign.restored_to is None:
        at = log.foreign.version - 1
        return Unfit(
            f"{what} was changed by another writer ({log.foreign.operation}, version {log.foreign.version})",
            f"RESTORE TABLE delta.`{log.path}` TO VERSION AS OF {at}, then run again; and keep other writers out",
        )
    return None


def _torn(lake: LakeFacts) -> Unfit | None:
    if lake.unreadable:
        return Unfit(
            f"{lake.name} cannot be read ({lake.unreadable})",
            f"mend that in {lake.path} and run again; or move it away: the next run fills a new one from Kafka, or takes "
            "the table again where Kafka no longer has all of it",
        )
    if not lake.torn:
        return None
    return Unfit(
        f"{lake.name} has a commit that is no whole one ({lake.torn}), as after a power cut or in a copy that was "
        "made of a running lake; what was in it is not known",
        f"move {lake.path} away; the next run fills a new one from Kafka, or takes the table again where Kafka no "
        "longer has all of it",
    )


def _of_another_writer(facts: StartFacts, lake: LakeFacts) -> Unfit | None:
    state = facts.newest.tables.get(lake.name) if facts.newest else None
    if lake.foreign and lake.foreign.restored_to is None:
        known = min(state.version if state else lake.foreign.version, lake.foreign.version - 1)
        return Unfit(
            f"{lake.name} was changed by another writer ({lake.foreign.operation}, version "
            f"{lake.foreign.version}; ours is version {known})",
            f"RESTORE TABLE delta.`{lake.path}` TO VERSION AS OF {known}, then run again: what "
            "came after is applied again from Kafka; and keep other writers out",
        )
    if state and state.id and lake.version is not None and lake.id != state.id:
        return Unfit(
            f"{lake.name} is another table than the one the manifest knows (Delta id {lake.id} "
            f"instead of {state.id}): it was cloned, copied or made again",
            f"move {lake.path} away; the next run fills a new one from Kafka, or takes the "
            "table again where Kafka no longer has all of it",
        )
    return None


def _unexplained(facts: StartFacts, lake: LakeFacts) -> Unfit | None:
    if not ahead_of_manifest.is_ahead(facts, lake) or lake.note is not None:
        return None
    return Unfit(
        f"{lake.name} holds a commit beyond batch {ahead_of_manifest.published(facts)}, the manifest's newest, "
        "that does not say what it is",
        f"RESTORE TABLE delta.`{lake.path}` to its version before that, then run again",
        stands=False,
    )
