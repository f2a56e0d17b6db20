"""The facts that a start is decided from, and the note by which a commit explains itself. Values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ingest.model.gap import Gap
from ingest.model.manifest import Entry, Place
from ingest.model.names import Marker
from ingest.model.offset_ranges import filled, offsets_as_json, offsets_from_json
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop

WITH_STATE = "deduplicated"
"""Of a query's shape (``CheckpointFacts``)."""


@dataclass(frozen=True)
class Note:
    """What a commit's marker stands for; stands in the commit's own metadata.

    ``ranges``: the batch's Kafka ranges that hold anything. ``schema_offset``: how much of the
    schema-change topic the batch had seen. ``cleanup``: table and position, for a batch that only
    removes what a completed snapshot did not contain. ``ddl``: tables and up to where DDLs of theirs
    are applied without any change after them. ``replay``: what waited in quarantine is taken in.
    ``paused``: DDLs that tables of the batch do not go beyond. ``drop``: what of the quarantine a person gave up.
    ``whole``: a table whose hidden snapshot is taken in, with all that has waited behind it (``TableState.hidden``), and the
    position before which no attempt at one counts. ``fill``: a table of which only the change log is written, with what Kafka has of
    these ranges. ``spark``: the batch of Spark's, by its number under this checkpoint, and
    which part of it this is, from 0; None for what came from no range of Spark's.
    """

    batch_id: int
    checkpoint_id: str
    ranges: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    schema_offset: int = 0
    cleanup: tuple[str, Position] | None = None
    ddl: Mapping[str, Position] = field(default_factory=dict)
    replay: bool = False
    paused: Mapping[str, Position] = field(default_factory=dict)
    drop: Drop | None = None
    whole: tuple[str, Position] | None = None
    spark: tuple[int, int] | None = None
    fill: str = ""

    def up_to(self, cut: Mapping[Place, int]) -> Note:
        """The same of a batch that ends before these offsets."""
        ranges = {
            place: (start, min(end, cut.get(place, end)))
            for place, (start, end) in self.ranges.items()
        }
        return replace(self, ranges=ranges)

    @property
    def shows(self) -> str:
        """The table whose hidden snapshot is taken in; empty for none."""
        return self.whole[0] if self.whole else ""

    def as_json(self) -> str:
        """The text of it, small: it is in every commit."""
        held = filled(self.ranges)
        starts = {place: start for place, (start, _) in held.items()}
        ends = {place: end for place, (_, end) in held.items()}
        content: dict[str, object] = {
            "batch": self.batch_id,
            "checkpoint": self.checkpoint_id,
            "from": json.loads(offsets_as_json(starts)),
            "to": json.loads(offsets_as_json(ends)),
            "schema": self.schema_offset,
        }
        if self.cleanup:
            content["cleanup"] = [self.cleanup[0], self.cleanup[1].as_dict()]
        if self.ddl:
            content["ddl"] = {name: position.as_dict() for name, position in self.ddl.items()}
        if self.replay:
            content["replay"] = True
        if self.paused:
            content["paused"] = {name: at.as_dict() for name, at in self.paused.items()}
        if self.drop:
            content["drop"] = self.drop.as_dict()
        if self.whole:
            content["whole"] = [self.whole[0], self.whole[1].as_dict()]
        if self.spark:
            content["spark"] = [*self.spark]
        if self.fill:
            content["fill"] = self.fill
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Note:
        """The inverse. Raises ``ValueError`` or ``KeyError`` for another text."""
        found = json.loads(text)
        starts = offsets_from_json(json.dumps(found["from"]))
        ends = offsets_from_json(json.dumps(found["to"]))
        cleanup, whole, spark = found.get("cleanup"), found.get("whole"), found.get("spark")
        return cls(
            found["batch"],
            found["checkpoint"],
            {place: (starts[place], end) for place, end in ends.items()},
            found["schema"],
            (cleanup[0], Position.from_mapping(cleanup[1])) if cleanup else None,
            {name: Position.from_mapping(at) for name, at in found.get("ddl", {}).items()},
            found.get("replay", False),
            {name: Position.from_mapping(at) for name, at in found.get("paused", {}).items()},
            Drop.from_mapping(found["drop"]) if "drop" in found else None,
            (whole[0], Position.from_mapping(whole[1])) if whole else None,
            (spark[0], spark[1]) if spark else None,
            found.get("fill", ""),
        )


def carrying(note: str, steps: Sequence[int]) -> str:
    """A note (:meth:`Note.as_json`) that also names the steps of its table whose changes are carried on (``schema.carried``)."""
    if not (note and steps):
        return note
    return json.dumps({**json.loads(note), "carried": [*steps]}, separators=(",", ":"))


def carried_by(note: str) -> tuple[int, ...]:
    """The inverse; empty for a note that names none."""
    return tuple(json.loads(note).get("carried", ()))


@dataclass(frozen=True)
class LogHeld:
    """What a change log holds, as its own newest commit of changes says: all of a topic's records below ``ends``, by partition, but for
    those that nothing was applied of. ``topic``: Kafka's id of that topic, empty where it was not known yet; ``high``: its table's newest
    position by then; ``batch``: the one that said so.
    """

    topic: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    high: Position | None = None
    batch: int = 0

    def and_then(self, more: LogHeld) -> LogHeld:
        """With a batch more. Offsets of another topic are not comparable with those of the old one."""
        ends = dict(self.ends) if self.is_of(more.topic) else {}
        for partition, end in more.ends.items():
            ends[partition] = max(end, ends.get(partition, 0))
        highs = [at for at in (self.high, more.high) if at]
        return LogHeld(more.topic or self.topic, ends, max(highs, default=None), more.batch)

    def ends_lower(self, lost: Sequence[Gap]) -> LogHeld:
        """As it is to be read since Kafka has lost ends of the topic, each a gap: what gets offsets from there on anew is not in the log."""
        ends = dict(self.ends)
        for gap in lost:
            if self.batch < gap.since and gap.partition in ends:
                ends[gap.partition] = min(ends[gap.partition], gap.end)
        return replace(self, ends=ends)

    def is_of(self, topic: str) -> bool:
        """Whether its offsets are that topic's, as far as is known."""
        return not (self.topic and topic) or self.topic == topic

    def written(self, note: str) -> str:
        """A note (:meth:`Note.as_json`) that also says this."""
        if not note:
            return note
        ends = {str(partition): end for partition, end in sorted(self.ends.items())}
        said = {"topic": self.topic, "ends": ends, "high": self.high and self.high.as_dict()}
        return json.dumps({**json.loads(note), "log": said}, separators=(",", ":"))

    @classmethod
    def read(cls, note: str) -> LogHeld | None:
        """The inverse; None for a text that does not say it."""
        try:
            said = json.loads(note)["log"]
            high = said["high"] and Position.from_mapping(said["high"])
            ends = {int(partition): end for partition, end in said["ends"].items()}
            return cls(said["topic"], ends, high or None, json.loads(note)["batch"])
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True)
class CheckpointFacts:
    """``id`` is None for a checkpoint that does not exist or that Spark alone has touched."""

    id: str | None = None
    pipeline: str | None = None
    shape: str = ""
    """Which stateful operators its query has: Spark cannot change them on a live checkpoint."""
    batches: int = 0
    """How many batches its offset log has begun."""
    ends: Mapping[Place, int] | None = None
    """Where its newest logged batch ends; None when there is none."""
    problem: str = ""
    """What is torn or missing in it, in words; empty when it is whole."""
    begins: Mapping[Place, int] | None = None
    """Where the batch begins with which it would go on: the newest logged one, unless that is over."""
    newest: int = -1
    """Spark's number of the newest logged one; -1 where there is none."""


@dataclass(frozen=True)
class Foreign:
    """A commit that is not ours and changed data, newer than what the manifest knows."""

    version: int
    operation: str
    restored_to: int | None = None


@dataclass(frozen=True)
class Held:
    """What a table holds, as its own log says: the batch of ours that made it so, in the commit of version ``since`` and in
    those up to ``version``, which change no row; 0 where none did, None where the log does not say any more.
    """

    version: int
    since: int
    batch: int | None = None

    @property
    def is_empty(self) -> bool:
        """True for a table that was made, and nothing more."""
        return self.batch == 0 or self.version == 0


@dataclass(frozen=True)
class LakeFacts:
    """One target of the lake (a table, or ``_ingest``'s own), as it is now."""

    name: str
    path: str
    version: int | None
    """None when there is no such table."""
    id: str = ""
    markers: Mapping[tuple[str, str], Marker] = field(default_factory=dict)
    """(checkpoint id, role) to the marker of ours, of commits that the manifest does not know at least."""
    note: Note | None = None
    """The note of our newest commit."""
    foreign: Foreign | None = None
    known: int = -1
    """Its newest version that the manifest knows; -1 for none."""
    ours: int = -1
    """Its newest version that is of a batch of ours, where somebody has restored it since; -1 where nobody has."""
    back: Held | None = None
    """What it holds, where that is not what the manifest says, but something of before: it was restored, its folder is an
    older copy, or its last commits are lost."""
    unlike: bool = False
    """Whether the version that the manifest knows is another one now: versions that were lost are made again under their
    numbers."""
    cleaned: bool = False
    """Whether one of these commits removed what a completed snapshot did not contain."""
    torn: str = ""
    """Which of its commits is cut off or empty, in words: then nothing else is known of it."""
    unreadable: str = ""
    """Why else it cannot be read, in words: the same."""

    @property
    def held(self) -> Held | None:
        """What it holds, where it went back; None where it holds what the manifest says, or more."""
        to = self.foreign.restored_to if self.foreign else None
        return self.back or (None if to is None else Held(to, to))

    @property
    def is_copy(self) -> bool:
        """True where it went back and no RESTORE says so."""
        return self.back is not None and self.foreign is None

    def has_all_of(self, entry: Entry) -> bool:
        """Of one that went back: whether it holds all of a batch. By the batch's number, too: versions that were made
        again after a table went back have the numbers of others.
        """
        held, state = self.held, entry.tables.get(self.name)
        if held is None or state is None or state.version > held.version:
            return False
        same = not (self.id and state.id) or self.id == state.id
        return same and (held.batch is None or entry.batch_id <= held.batch)


@dataclass(frozen=True)
class KafkaFacts:
    """One partition: first offset still there, and where it ends."""

    earliest: int
    end: int
    topic_id: str


@dataclass(frozen=True)
class StartFacts:
    """Everything a start is decided from."""

    pipeline: str
    shape: str
    checkpoint: CheckpointFacts
    newest: Entry | None
    history: Sequence[Entry]
    """Of the manifest: the newest batch, and for each table that went back the newest of which it still holds all, with
    the replays since."""
    lake: Sequence[LakeFacts]
    kafka: Mapping[Place, KafkaFacts]
    topic_of: Mapping[str, str]
    """Table name to its topic."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """The same of the tables that the source has, as far as the connector has told, and that the pipeline file takes."""
    pinned: Mapping[str, Position] = field(default_factory=dict)
    """Table name to the position of its newest snapshot that the connector has told of."""
    unrestorable: frozenset[tuple[str, int]] = frozenset()
    """Tables (path) and versions that they could not be brought back to."""
    from_beginning: bool = False
    failed: frozenset[str] = frozenset()
    """Tables that this run has tried: what was the reason is not mended yet."""
    barred: frozenset[str] = frozenset()
    """Tables that a policy still holds before a DDL."""
    untaken: frozenset[str] = frozenset()
    """Tables of the manifest that the pipeline file does not take any more."""
    by_hand: frozenset[str] = frozenset()
    """Tables of the manifest that only a person has taken again (``only_by_hand``)."""
    ignored: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Table name to the kinds of DDL that a policy ignores, where there are any."""
    logs: Sequence[LakeFacts] = ()
    """Change logs, each under the name of its table."""

    @property
    def deleted(self) -> set[str]:
        """Tables that the source has and the pipeline file takes, and of which a topic was read that is not there now."""
        there = {topic for topic, _ in self.kafka}
        read = {topic for topic, _ in self.newest.ends} if self.newest else set[str]()
        return {name for name, topic in self.taken.items() if topic in read - there}

    @property
    def keeps_state(self) -> bool:
        """Whether Spark remembers what it has seen."""
        return self.shape == WITH_STATE

    @property
    def versions(self) -> dict[str, int]:
        """Path to version, of all that is there."""
        every = (*self.lake, *self.logs)
        return {one.path: one.version for one in every if one.version is not None}
