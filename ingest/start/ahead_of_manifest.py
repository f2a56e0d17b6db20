"""Tables that hold commits which the manifest has no row of. Pure.

Mostly they are of one batch that was torn, which is finished. Where they are of more than one, the manifest is an older
copy than the tables; and where a table beside them went back or is gone, to finish the batch would hide that. Then
what they hold beyond the manifest is undone: each goes back to its version that the manifest knows, and what came after it is
read again from Kafka, under numbers and a checkpoint id that no commit has.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.model.manifest import Place
from ingest.model.names import INTERNAL_FOLDER
from ingest.model.start_facts import LakeFacts, Note, StartFacts


def published(facts: StartFacts) -> int:
    """The manifest's newest batch; 0 before the first."""
    return facts.newest.batch_id if facts.newest else 0


def is_ahead(facts: StartFacts, lake: LakeFacts) -> bool:
    """True for a table with a commit of ours beyond the manifest."""
    return any(marker.batch > published(facts) for marker in lake.markers.values())


def ahead(facts: StartFacts) -> list[LakeFacts]:
    """All of these, the quarantine included."""
    return [lake for lake in facts.lake if is_ahead(facts, lake)]


def logs_ahead(facts: StartFacts) -> list[LakeFacts]:
    """Change logs with a commit of ours beyond the manifest. What such a one holds more stays, whatever becomes of the tables."""
    return [log for log in facts.logs if is_ahead(facts, log)]


def newest_batch(facts: StartFacts) -> int:
    """The highest number of a batch that any table has a commit of, as far as that was looked for: of all commits beyond
    the manifest, and of what tables hold that went back. 0 without one.
    """
    every = (*facts.lake, *facts.logs)
    beyond = [marker.batch for lake in every for marker in lake.markers.values()]
    back = [lake.held.batch or 0 for lake in facts.lake if lake.held is not None]
    return max([*beyond, *back], default=0)


def may_be_finished(facts: StartFacts, torn: Sequence[LakeFacts]) -> Note | None:
    """The note of the one batch that all of these are of, where the rest of it can be applied: no other table went back,
    and Kafka has the batch's records. None otherwise.
    """
    notes = [lake.note for lake in torn if lake.note is not None]
    if (
        not notes
        or any(note.batch_id != published(facts) + 1 for note in notes)
        or lost(facts, notes[0])
    ):
        return None
    states = facts.newest.tables if facts.newest else {}
    known = {name for name, state in states.items() if not state.was_never_made}
    went = any(lake.is_copy or (lake.version is None and lake.name in known) for lake in facts.lake)
    stuck = any(place in facts.unrestorable for place in restored_meanwhile(facts, torn))
    return None if went or stuck else notes[0]


def lost(facts: StartFacts, note: Note) -> list[Place]:
    """Where Kafka no longer has what a batch took and is to be read again for it: nothing, of one that has filled a change log."""
    if note.fill:
        return []
    return [place for place, (start, _) in note.ranges.items() if _is_lost(facts, place, start)]


def _is_lost(facts: StartFacts, place: Place, start: int) -> bool:
    now = facts.kafka.get(place)
    return now is None or now.earliest > start or now.end < start


def restored_meanwhile(facts: StartFacts, torn: Sequence[LakeFacts]) -> tuple[tuple[str, int], ...]:
    """Tables (path) that were restored in the middle of a torn batch, and what they held before: they are brought back
    first, as what is finished now would hide that it ever happened.
    """
    known = facts.newest.tables if facts.newest else {}
    mine = [lake for lake in facts.lake if lake in torn or lake.name in known]
    mine += [log for log in facts.logs if log in torn]
    return tuple(
        (lake.path, lake.ours if lake.ours >= 0 else lake.foreign.version - 1)
        for lake in mine
        if lake.foreign
    )


def to_undo(facts: StartFacts, beyond: Sequence[LakeFacts]) -> tuple[tuple[str, int], ...]:
    """Tables (path) and the version that each has to go back to, of those that have not yet."""
    left = [lake for lake in beyond if not _is_undone(facts, lake)]
    return tuple((one.path, _known(facts, one)) for one in left if _can_go_back(facts, one))


def half_applied(facts: StartFacts) -> tuple[tuple[str, int], ...]:
    """Tables (path) that stand still and hold commits of ours behind what is published of them, and the version to go back
    to: they could not be looked at when their batch was finished without them, and its number says nothing any more.
    """
    states = facts.newest.tables if facts.newest else {}
    return tuple(
        (lake.path, state.version)
        for lake in facts.lake
        if (state := states.get(lake.name)) is not None
        and state.stopped
        and lake.note is not None
        and lake.foreign is None
        and state.version < (lake.version or 0)
        and (lake.path, state.version) not in facts.unrestorable
    )


def cannot_be_undone(facts: StartFacts, beyond: Sequence[LakeFacts]) -> LakeFacts | None:
    """One of those that nothing can bring back; a table that the manifest knows is taken again instead."""
    known = facts.newest.tables if facts.newest else {}
    for lake in beyond:
        stays = not _is_undone(facts, lake) and not _can_go_back(facts, lake)
        if stays and lake.name not in known:
            return lake
    return None


def is_quarantine(lake: LakeFacts) -> bool:
    """True for the one target that is no table of the source's."""
    return lake.name.startswith(f"{INTERNAL_FOLDER}/")


def _known(facts: StartFacts, lake: LakeFacts) -> int:
    """The version to go back to. Of a table that the manifest does not know: as it was made."""
    state = facts.newest.tables.get(lake.name) if facts.newest else None
    return state.version if state else max(lake.known, 0)


def _is_undone(facts: StartFacts, lake: LakeFacts) -> bool:
    to = lake.foreign.restored_to if lake.foreign else None
    return to is not None and to <= _known(facts, lake)


def _can_go_back(facts: StartFacts, lake: LakeFacts) -> bool:
    """Whether that version is there, and is the one that the manifest means."""
    return not lake.unlike and (lake.path, _known(facts, lake)) not in facts.unrestorable
