"""How may this pipeline start? Facts in, a decision out; pure.

Facts come from the checkpoint (its id, minted inside it, and its logs), from the manifest, from the
tables themselves (markers, notes and foreign commits), and from Kafka (which records are still
there, and whether a topic is still the same one). ``gather_facts`` gathers them; ``run`` acts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.model.manifest import Entry, Place
from ingest.model.start_facts import Note, StartFacts
from ingest.start.where_to_go_on import where_to_go_on


@dataclass(frozen=True)
class Start:
    """What to do, in this order: finish a torn batch, set topics back or forward, then stream.

    ``finish``: the batch of which some tables hold their part and the manifest has no row.
    ``entry``: the manifest as it is to be before streaming, None when it is right as it stands.
    ``resume``: Spark's checkpoint goes on; else a new one starts where the manifest says.
    ``because``: sentences for a person. ``resync``: tables to take again, each with its gap.
    """

    finish: Note | None = None
    entry: Entry | None = None
    resume: bool = False
    because: tuple[str, ...] = ()
    resync: tuple[str, ...] = ()
    restore: tuple[tuple[str, int], ...] = ()
    """Tables (path) to bring to a published version first: they stand between two."""


@dataclass(frozen=True)
class Refuse:
    """Going on could lose or repeat changes."""

    reason: str
    remedy: str


Decision = Start | Refuse


def decide(facts: StartFacts) -> Decision:
    """The one place that says how a run begins."""
    refusal = _stranger(facts) or _other_writer(facts)
    if refusal:
        return refusal
    torn = _torn(facts)
    if isinstance(torn, Refuse):
        return torn
    if torn is not None:
        # A table that was restored in the middle of it is brought back first: what is finished now
        # would hide that it ever happened.
        undo = tuple((lake.path, lake.foreign.version - 1) for lake in facts.lake if lake.foreign)
        if undo:
            return Start(restore=undo, because=("undoing a RESTORE in the middle of a batch",))
        # Finished first, under its own identity and ranges; then the rest is decided anew.
        lost = [place for place, (start, _) in torn.ranges.items() if _is_lost(facts, place, start)]
        if not lost:
            return Start(finish=torn, because=(f"finishing batch {torn.batch_id}, which was torn",))
    if facts.newest is None:
        return _first(facts)
    decided = where_to_go_on(facts, facts.newest)
    entry = decided.as_entry(facts.newest)
    # Who asks for the beginning gets a row that says so, also where every topic stands there already.
    changed = entry != facts.newest if facts.from_beginning else decided.changes(facts.newest)
    problem = _cannot_resume(facts)
    fresh = facts.checkpoint.id is not None and not facts.checkpoint.batches
    return Start(
        entry=entry if changed else None,
        resume=not changed and not problem,
        because=(*decided.because, *([problem] if problem and not changed and not fresh else [])),
        resync=decided.resync,
        restore=decided.restore,
    )


def _stranger(facts: StartFacts) -> Refuse | None:
    checkpoint = facts.checkpoint
    if checkpoint.id is None and checkpoint.batches:
        return Refuse(
            "the checkpoint folder belongs to another streaming job (it has batches, but not the "
            "identity that ingest writes into its own)",
            "choose another `lake.path`, or move that folder away",
        )
    if checkpoint.pipeline is not None and checkpoint.pipeline != facts.pipeline:
        return Refuse(
            f"the lake belongs to the pipeline {checkpoint.pipeline!r}",
            "choose another `lake.path`; two pipelines cannot share one",
        )
    if facts.newest is None:
        beyond = [
            (lake.name, marker.batch)
            for lake in facts.lake
            for marker in lake.markers.values()
            # Thousands of DDLs in the first batch take further numbers; its note says whose they are.
            if marker.batch > 1 and (lake.note is None or lake.note.batch_id > 1)
        ]
        if beyond:
            name, batch = beyond[0]
            return Refuse(
                f"{name} holds batch {batch} of this pipeline, but the manifest is gone, so nobody "
                "knows what the other tables hold",
                "bring `_ingest/manifest` back from a copy, or start over in another `lake.path`",
            )
    return None


def _other_writer(facts: StartFacts) -> Refuse | None:
    for lake in facts.lake:
        if lake.foreign and lake.foreign.restored_to is None:
            state = facts.newest.tables.get(lake.name) if facts.newest else None
            known = state.version if state else lake.foreign.version - 1
            return Refuse(
                f"{lake.name} was changed by another writer ({lake.foreign.operation}, version "
                f"{lake.foreign.version}; ours is version {known})",
                f"RESTORE TABLE delta.`{lake.path}` TO VERSION AS OF {known}, then run again: what "
                "came after is applied again from Kafka; and keep other writers out",
            )
        state = facts.newest.tables.get(lake.name) if facts.newest else None
        if state and state.id and lake.version is not None and lake.id != state.id:
            return Refuse(
                f"{lake.name} is another table than the one the manifest knows (Delta id {lake.id} "
                f"instead of {state.id}): it was cloned, copied or made again",
                f"move {lake.path} away; the next run fills a new one from Kafka, or takes the "
                "table again where Kafka no longer has all of it",
            )
    return None


def _torn(facts: StartFacts) -> Note | Refuse | None:
    """The one batch beyond the manifest, from the notes of the tables that hold part of it."""
    published = facts.newest.batch_id if facts.newest else 0
    ahead = [
        lake
        for lake in facts.lake
        if any(marker.batch > published for marker in lake.markers.values())
    ]
    if not ahead:
        return None
    for lake in ahead:
        if lake.note is None or lake.note.batch_id != published + 1:
            return Refuse(
                f"{lake.name} holds a commit beyond batch {published}, the manifest's newest, that "
                "does not say what it is",
                f"RESTORE TABLE delta.`{lake.path}` to its version before that, then run again",
            )
    return ahead[0].note


def _is_lost(facts: StartFacts, place: Place, start: int) -> bool:
    now = facts.kafka.get(place)
    return now is None or now.earliest > start or now.end < start


def _first(facts: StartFacts) -> Start:
    if (
        facts.checkpoint.id
        and not facts.checkpoint.problem
        and facts.shape == facts.checkpoint.shape
    ):
        return Start(resume=True)
    return Start()


def _cannot_resume(facts: StartFacts) -> str:
    """Why Spark's checkpoint cannot go on, in words; empty when it can."""
    checkpoint, newest = facts.checkpoint, facts.newest
    assert newest is not None
    if checkpoint.id is None:
        return "the checkpoint is gone; resuming from the manifest"
    if checkpoint.problem:
        return f"the checkpoint cannot be used ({checkpoint.problem}); resuming from the manifest"
    if checkpoint.id != newest.checkpoint_id:
        return "the checkpoint is not the one the manifest knows; resuming from the manifest"
    if checkpoint.shape != facts.shape:
        return "`dedup` has changed, so the stream's state starts anew; resuming from the manifest"
    ends = checkpoint.ends or {}
    behind = [place for place, end in newest.ends.items() if ends.get(place, 0) < end]
    if behind:
        return "the checkpoint is older than the manifest; resuming from the manifest"
    return ""
