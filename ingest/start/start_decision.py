"""How may this pipeline start? Facts in, a decision out; pure.

Facts come from the checkpoint (its id, minted inside it, and its logs), from the manifest, from the
tables themselves (markers, notes and foreign commits), and from Kafka (which records are still
there, and whether a topic is still the same one). ``gather_facts`` gathers them; ``run`` acts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ingest.lake.manifest import next_entry
from ingest.model.manifest import Entry
from ingest.model.start_facts import LakeFacts, Note, StartFacts
from ingest.start import ahead_of_manifest, unfit_tables
from ingest.start.where_to_go_on import where_to_go_on

NONE_ASIDE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Start:
    """What to do, in this order: finish a torn batch, set topics back or forward, bring tables back, then stream.

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
    """Tables (path) to bring to a published version, one commit each: they stand between two, or hold what the manifest
    does not know. ``entry`` says already that they are there. Then it is decided anew."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Tables that nothing is done to until they are mended, each with why, as the manifest has it."""


@dataclass(frozen=True)
class Refuse:
    """Going on could lose or repeat changes."""

    reason: str
    remedy: str


Decision = Start | Refuse


def decide(facts: StartFacts) -> Decision:
    """The one place that says how a run begins."""
    if refusal := _stranger(facts):
        return refusal
    unfit = unfit_tables.found(facts)
    if not unfit:
        return _decided(facts)
    if not unfit_tables.may_stand_still(facts, unfit):
        first = next(iter(unfit.values()))
        return Refuse(first.reason, first.remedy)
    return _without(facts, {name: one.stopped for name, one in unfit.items()})


def _without(facts: StartFacts, aside: Mapping[str, str]) -> Decision:
    """As if these tables were not looked at: they stay as they are, and are not tried again before they are mended."""
    left = [lake for lake in facts.lake if lake.name not in aside]
    logs = [log for log in facts.logs if log.name not in aside]
    used = ahead_of_manifest.newest_batch(facts)
    fit = replace(facts, lake=left, logs=logs, failed=facts.failed | set(aside))
    decided = _decided(fit, aside, used)
    return replace(decided, aside=aside) if isinstance(decided, Start) else decided


def _decided(facts: StartFacts, aside: Mapping[str, str] = NONE_ASIDE, used: int = 0) -> Decision:
    """Of tables that can be gone on with. ``used``: the highest number of a batch that others have a commit of."""
    half = ahead_of_manifest.half_applied(facts)
    if half:
        return Start(restore=half, because=("undoing what was begun of a table that stands still",))
    beyond, logs = ahead_of_manifest.ahead(facts), ahead_of_manifest.logs_ahead(facts)
    if beyond or logs:
        both = [*beyond, *logs]
        torn = ahead_of_manifest.may_be_finished(facts, both)
        if torn:
            return _finishing(facts, both, torn)
        if beyond and (first := _undoing(facts, beyond)) is not None:
            return first
    if facts.newest is None:
        return _first(facts)
    decided = where_to_go_on(facts, facts.newest)
    for name, why in aside.items():
        decided = decided.standing_still(name, why)
    decided = replace(decided, batch=max(decided.batch, used + 1))
    entry = decided.as_entry(facts.newest)
    # Who asks for the beginning gets a row that says so, also where every topic stands there already.
    changed = facts.from_beginning or decided.changes(facts.newest)
    problem = _cannot_resume(facts, facts.newest)
    fresh = facts.checkpoint.id is not None and not facts.checkpoint.batches
    return Start(
        entry=entry if changed else None,
        resume=not changed and not problem,
        because=(*decided.because, *([problem] if problem and not changed and not fresh else [])),
        resync=decided.resync,
        restore=decided.restore,
    )


def _finishing(facts: StartFacts, beyond: Sequence[LakeFacts], torn: Note) -> Start:
    """Finished first, under its own identity and ranges; then the rest is decided anew."""
    undo = ahead_of_manifest.restored_meanwhile(facts, beyond)
    if undo:
        return Start(restore=undo, because=("undoing a RESTORE in the middle of a batch",))
    return Start(finish=torn, because=(f"finishing batch {torn.batch_id}, which was torn",))


def _undoing(facts: StartFacts, beyond: Sequence[LakeFacts]) -> Start | Refuse | None:
    """What is beyond the manifest goes; None once it has, or where its tables are taken again."""
    newest, known = ahead_of_manifest.newest_batch(facts), ahead_of_manifest.published(facts)
    older = any(lake.note and lake.note.batch_id > known + 1 for lake in beyond)
    why = (
        f"the manifest is older than the tables (its newest batch is {known}, they hold some up to {newest}): it is a copy "
        "from a backup, or of a running lake"
        if older
        else f"batch {newest} was torn and cannot be finished"
    )
    stuck = ahead_of_manifest.cannot_be_undone(facts, beyond)
    if stuck is not None:
        return Refuse(
            f"{why}, and {stuck.name} cannot be brought back to what it held before",
            "bring `_ingest` and the tables back from one copy, or start over in another `lake.path`"
            if ahead_of_manifest.is_quarantine(stuck)
            else f"move {stuck.path} away; the next run fills a new one from Kafka",
        )
    undo = ahead_of_manifest.to_undo(facts, beyond)
    said = f"{why}; setting the tables back to batch {known}, what came after it is read again"
    return Start(restore=undo, because=(said,)) if undo else None


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


def _first(facts: StartFacts) -> Start:
    """Before the manifest's first row. It begins with one of gaps, where a topic's beginning is gone already."""
    nothing = next_entry.before_the_first(facts.checkpoint.id or "")
    decided = where_to_go_on(facts, nothing)
    if decided.changes(nothing):
        entry, because = decided.as_entry(nothing), decided.because
        return Start(entry=entry, because=because, resync=decided.resync)
    return Start(resume=not _cannot_resume(facts, nothing))


def _cannot_resume(facts: StartFacts, newest: Entry) -> str:
    """Why Spark's checkpoint cannot go on, in words; empty when it can."""
    checkpoint = facts.checkpoint
    if checkpoint.id is None:
        return "the checkpoint is gone; resuming from the manifest"
    if checkpoint.problem:
        return f"the checkpoint cannot be used ({checkpoint.problem}); resuming from the manifest"
    if checkpoint.id != newest.checkpoint_id:
        return "the checkpoint is not the one the manifest knows; resuming from the manifest"
    if checkpoint.shape != facts.shape:
        return "`dedup` has changed, so the stream's state starts anew; resuming from the manifest"
    ends, begins = checkpoint.ends or {}, checkpoint.begins or {}
    if newest.spark_batch is None or facts.keeps_state:
        is_older = any(ends.get(place, 0) < end for place, end in newest.ends.items())
    else:  # a part of one of Spark's batches may reach beyond its range (``batch.parts``)
        is_older = checkpoint.newest < newest.spark_batch
    if is_older:
        return "the checkpoint is older than the manifest; resuming from the manifest"
    if any(newest.ends.get(place, 0) < at for place, at in begins.items()):
        return "the checkpoint is ahead of the manifest; resuming from the manifest"
    return ""
