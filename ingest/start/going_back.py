"""A table that does not hold what the manifest says: where it goes on from, by what it does hold. Pure.

It may have been restored, its folder may be an older copy, its last commits may be lost, or it is gone. What it holds all
of is a batch of the manifest, so its topic is read again from where that batch ended.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.model import reasons
from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.position import PART_REREAD
from ingest.model.start_facts import LakeFacts, StartFacts
from ingest.start.decided import Decided, gap_of


def as_it_holds(facts: StartFacts, decided: Decided, lake: LakeFacts, topic: str) -> Decided:
    """Of a table that went back or is gone, or that the manifest has forgotten and that is there again."""
    held = lake.held
    if held is None:
        return _filled_again(facts, decided, lake, topic, "is gone from the lake")
    then = entry_held(facts, lake)
    if then is not None and (lake.path, then.tables[lake.name].version) not in facts.unrestorable:
        return _set_back(facts, decided, lake, topic, then)
    if held.is_empty:
        return _filled_again(facts, decided, lake, topic, "went back to before its first batch")
    return taken_again(facts, decided, lake, topic)


def entry_held(facts: StartFacts, lake: LakeFacts) -> Entry | None:
    """The newest batch of which a table that went back still holds all. None for one that holds a batch which the
    manifest does not know, as it is older itself.
    """
    held = lake.held
    if held is None or facts.newest is None or (held.batch or 0) > facts.newest.batch_id:
        return None
    found = [entry for entry in facts.history if lake.has_all_of(entry)]
    return max(found, key=lambda entry: entry.batch_id, default=None)


def taken_again(facts: StartFacts, decided: Decided, lake: LakeFacts, topic: str) -> Decided:
    """It holds what no batch of the manifest does, and stays as it is until the source has been read."""
    state = decided.tables.get(lake.name, TableState(lake.path, 0, id=lake.id))
    decided = decided.with_table(lake.name, replace(state, version=lake.version or 0, changes=0))
    reason = reasons.UNKNOWN_BATCH
    if any(g.is_open and g.table == lake.name and reason.is_in(g.reason) for g in decided.gaps):
        return decided
    return _with_gap(facts, decided, lake, topic, reason)


def _filled_again(
    facts: StartFacts, decided: Decided, lake: LakeFacts, topic: str, why: str
) -> Decided:
    places = decided.of_topic(topic)
    filled = (
        decided.without_table(lake.name)
        .since(f"{lake.name} {why}; filling it again")
        .reading_from(dict.fromkeys(places, 0))
        .with_marks(dict.fromkeys(places, HighWater()))
    )
    state = decided.tables.get(lake.name)
    # Rows that a snapshot did not find come with those before it, and nothing says again that they are to go.
    cleaned = state is not None and state.snapshot and state.snapshot.part == PART_REREAD
    if cleaned or any(g.table == lake.name and not g.is_open for g in decided.gaps):
        filled = _with_gap(facts, filled, lake, topic, reasons.WENT_BACK)
    return filled


def _set_back(
    facts: StartFacts, decided: Decided, lake: LakeFacts, topic: str, then: Entry
) -> Decided:
    """To ``then``, the newest batch of which the table still holds all."""
    held = lake.held
    assert held is not None
    places = {*decided.of_topic(topic), *(place for place in then.offsets if place[0] == topic)}
    state, version = then.tables[lake.name], lake.version or 0
    between = not held.since <= state.version <= held.version
    how = (
        "is older than the manifest says (its folder is an older copy, or its last commits are lost)"
        if lake.is_copy
        else "was restored to an older version"
    )
    back = (
        # Between two published versions it is brought to the lower one once the manifest says so: by a commit more. Were it
        # brought there first, its version could be the one that it lost, and nobody would know any more.
        decided.with_table(lake.name, replace(state, version=version + between, changes=0))
        .since(f"{lake.name} {how}; applying again what came after batch {then.batch_id}")
        .reading_from({place: then.ends.get(place, 0) for place in places})
        .with_marks({place: then.high_water.get(place, HighWater()) for place in places})
    )
    if between:
        back = replace(back, restore=(*back.restore, (lake.path, state.version)))
    if _comes_not_again(facts, lake, then):
        back = _with_gap(facts, back, lake, topic, reasons.WENT_BACK)
    return back


def _comes_not_again(facts: StartFacts, lake: LakeFacts, then: Entry) -> bool:
    """Whether something came to the table after ``then`` that its topic does not hold behind it: rows that were removed
    since a snapshot did not find them, or changes that had waited in quarantine. Or was undone with its commits.
    """
    assert facts.newest is not None
    now = facts.newest.tables.get(lake.name)
    settled = now is None or now.snapshot != then.tables[lake.name].snapshot
    replayed = any(
        entry.kind == "replay"
        and entry.batch_id > then.batch_id
        and lake.name in entry.tables
        and entry.tables[lake.name].changes
        for entry in facts.history
    )
    return settled or replayed or lake.cleaned


def _with_gap(
    facts: StartFacts, decided: Decided, lake: LakeFacts, topic: str, reason: reasons.Reason
) -> Decided:
    at = decided.offsets.get((topic, 0), 0)
    gap = gap_of(facts, decided, lake.name, (topic, 0), reason.says, end=at)
    return decided.taking_again([gap])
