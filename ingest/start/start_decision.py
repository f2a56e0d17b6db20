"""How may this pipeline start? Facts in, a decision out; pure.

Facts come from the checkpoint (its id, minted inside it, and its logs), from the manifest, from the
tables themselves (markers, notes and foreign commits), and from Kafka (which records are still
there, and whether a topic is still the same one). ``gather_facts`` gathers them; ``run`` acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingest.model.manifest import Entry, Gap, HighWater, Place, TableState
from ingest.model.start_facts import KafkaFacts, LakeFacts, Note, StartFacts


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
    entry, because, resync, restore = _mended(facts, facts.newest)
    changed = entry != facts.newest
    problem = _cannot_resume(facts)
    fresh = facts.checkpoint.id is not None and not facts.checkpoint.batches
    return Start(
        entry=entry if changed else None,
        resume=not changed and not problem,
        because=(*because, *([problem] if problem and not changed and not fresh else [])),
        resync=resync,
        restore=restore,
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


def _mended(
    facts: StartFacts, newest: Entry
) -> tuple[Entry, tuple[str, ...], tuple[str, ...], tuple[tuple[str, int], ...]]:
    """The manifest as it has to be: set back for restored and dropped tables, forward over gaps."""
    offsets = newest.ends
    marks, tables, gaps = dict(newest.high_water), dict(newest.tables), list(newest.gaps)
    because: list[str] = []
    resync: list[str] = []
    restore: list[tuple[str, int]] = []
    if facts.from_beginning:
        because.append("reading every topic again from its beginning")
    for lake in facts.lake:
        state = tables.get(lake.name)
        topic = facts.topic_of.get(lake.name)
        if state is None or topic is None:
            continue
        if lake.version is not None and lake.foreign is None:
            continue
        then = _restored_entry(facts.history, lake) if lake.foreign else None
        places = [place for place in offsets if place[0] == topic]
        if then is None:
            because.append(f"{lake.name} is gone from the lake; filling it again")
            del tables[lake.name]
        else:
            because.append(
                f"{lake.name} was restored to an older version; applying again what came after "
                f"batch {then.batch_id}"
            )
            tables[lake.name] = replace(
                then.tables[lake.name], version=lake.version or 0, changes=0
            )
            if lake.foreign and then.tables[lake.name].version != lake.foreign.restored_to:
                restore.append((lake.path, then.tables[lake.name].version))
        for place in places:
            offsets[place] = then.ends.get(place, 0) if then else 0
            marks[place] = then.high_water.get(place, HighWater()) if then else HighWater()
    _release(facts, newest, offsets, marks, tables, gaps, because, resync)
    if not facts.from_beginning:
        _mark_gaps(facts, newest, offsets, marks, gaps, because, resync)
    else:
        offsets = {
            place: facts.kafka[place].earliest if place in facts.kafka else 0 for place in offsets
        }
    entry = replace(
        newest,
        offsets={place: (end, end) for place, end in offsets.items()},
        high_water=marks,
        tables=tables,
        gaps=tuple(gaps),
    )
    same = (
        offsets == newest.ends
        and marks == dict(newest.high_water)
        and tables == dict(newest.tables)
        and tuple(gaps) == newest.gaps
    )
    if same and not facts.from_beginning:
        entry = newest
    return entry, tuple(because), tuple(resync), tuple(restore)


def _release(
    facts: StartFacts,
    newest: Entry,
    offsets: dict[Place, int],
    marks: dict[Place, HighWater],
    tables: dict[str, TableState],
    gaps: list[Gap],
    because: list[str],
    resync: list[str],
) -> None:
    """Let go on what a policy held or left out, and no longer does."""
    for name, held in tables.items():
        state = held  # as it will be
        topic, ignored = facts.topic_of.get(name, ""), facts.ignored.get(name, ())
        if state.paused and name not in facts.barred:
            because.append(f"{name}: going on with what waited behind {state.paused_by[:100]!r}")
            state = replace(state, paused=None, paused_by="")
            for place in [place for place in offsets if place[0] == topic]:
                offsets[place] = min(offsets[place], marks.get(place, HighWater()).offset)
        if state.left_out and "add_column" not in ignored:
            columns = ", ".join(map(repr, state.left_out))
            reason = f"the columns {columns} were left out of the lake until now"
            at = offsets.get((topic, 0), 0)
            gaps.append(Gap(name, topic, 0, at, at, reason, newest.batch_id + 1))
            because.append(f"{name}: {reason}; taking the table again")
            resync.append(name)
            state = replace(state, left_out=())
        if state.kept and "drop_column" not in ignored:
            columns = ", ".join(map(repr, state.kept))
            because.append(f"{name}: the columns {columns}, kept until now, go")
            state = replace(state, kept=())
        tables[name] = state


def _restored_entry(history: Sequence[Entry], lake: LakeFacts) -> Entry | None:
    """The newest batch of which a restored table still holds all."""
    assert lake.foreign is not None
    to = lake.foreign.restored_to
    found = [
        entry
        for entry in history
        if lake.name in entry.tables and to is not None and entry.tables[lake.name].version <= to
    ]
    return max(found, key=lambda entry: entry.batch_id, default=None)


def _mark_gaps(
    facts: StartFacts,
    newest: Entry,
    offsets: dict[Place, int],
    marks: dict[Place, HighWater],
    gaps: list[Gap],
    because: list[str],
    resync: list[str],
) -> None:
    names = {topic: name for name, topic in facts.topic_of.items()}
    for place, at in sorted(offsets.items()):
        mark = marks.get(place, HighWater())
        loss = _loss(facts.kafka.get(place), at, mark)
        if loss is None:
            continue
        table = names.get(place[0], place[0])
        offsets[place] = loss.onward
        # Positions stay: what is sent again is still recognised. Offsets of another topic are not
        # comparable with those of the old one.
        if loss.another_topic is not None:
            marks[place] = replace(mark, offset=loss.onward, topic_id=loss.another_topic)
        gaps.append(
            Gap(table, place[0], place[1], at, loss.onward, loss.reason, newest.batch_id + 1)
        )
        because.append(f"{table}: {loss.reason}; taking the table again")
        if table not in resync:
            resync.append(table)


@dataclass(frozen=True)
class _Loss:
    """Records that are gone: why, and where the partition goes on. ``another_topic``: the id of the
    topic that stands there now (empty for none), when it is not the one that was read.
    """

    reason: str
    onward: int
    another_topic: str | None = None


def _loss(now: KafkaFacts | None, at: int, mark: HighWater) -> _Loss | None:
    if now is None:
        return _Loss("the topic was deleted", 0, another_topic="")
    if mark.topic_id and now.topic_id and mark.topic_id != now.topic_id:
        return _Loss("the topic was deleted and made again", 0, another_topic=now.topic_id)
    if now.end < at:
        return _Loss("the topic ends before what was applied: its end was lost", now.end)
    if now.earliest > at:
        return _Loss("Kafka removed records before they were applied (retention)", now.earliest)
    return None


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
