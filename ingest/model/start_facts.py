"""The facts that a start is decided from, and the note by which a commit explains itself. Values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.model.manifest import Entry, Place, filled, offsets_as_json, offsets_from_json
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop


@dataclass(frozen=True)
class Note:
    """What a commit's marker stands for; stands in the commit's own metadata.

    ``ranges``: the batch's Kafka ranges that hold anything. ``schema_offset``: how much of the
    schema-change topic the batch had seen. ``cleanup``: table and position, for a batch that only
    removes what a completed snapshot did not contain. ``ddl``: tables and up to where DDLs of theirs
    are applied without any change after them. ``replay``: what waited in quarantine is taken in.
    ``paused``: DDLs that tables of the batch do not go beyond. ``drop``: what of the quarantine a person gave up.
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
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Note:
        """The inverse. Raises ``ValueError`` or ``KeyError`` for another text."""
        found = json.loads(text)
        starts = offsets_from_json(json.dumps(found["from"]))
        ends = offsets_from_json(json.dumps(found["to"]))
        cleanup = found.get("cleanup")
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
        )


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


@dataclass(frozen=True)
class Foreign:
    """A commit that is not ours and changed data, newer than what the manifest knows."""

    version: int
    operation: str
    restored_to: int | None = None


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
    """Of the manifest: the newest batch, and the newest of which a restored table still holds all."""
    lake: Sequence[LakeFacts]
    kafka: Mapping[Place, KafkaFacts]
    topic_of: Mapping[str, str]
    """Table name to its topic."""
    from_beginning: bool = False
    failed: frozenset[str] = frozenset()
    """Tables that this run has tried: what was the reason is not mended yet."""
    barred: frozenset[str] = frozenset()
    """Tables that a policy still holds before a DDL."""
    untaken: frozenset[str] = frozenset()
    """Tables of the manifest that the pipeline file does not take any more."""
    ignored: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Table name to the kinds of DDL that a policy ignores, where there are any."""

    @property
    def versions(self) -> dict[str, int]:
        """Path to version, of all that is there."""
        return {one.path: one.version for one in self.lake if one.version is not None}
