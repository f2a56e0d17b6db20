"""May this pipeline start, and from where? Facts in, a decision out; pure.

Facts come from the checkpoint (its id, minted inside it) and from the manifest (the newest batch).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.manifest import Entry


@dataclass(frozen=True)
class CheckpointFacts:
    """``id`` is None for a checkpoint that does not exist or that Spark alone has touched."""

    id: str | None
    pipeline: str | None
    batches: int
    """How many batches its offset log has begun."""


@dataclass(frozen=True)
class Create:
    """Nothing is there: mint an id, start at the earliest offsets."""


@dataclass(frozen=True)
class Resume:
    """Checkpoint and manifest belong together: Spark goes on, replaying a torn batch if any."""

    checkpoint_id: str


@dataclass(frozen=True)
class Rebuild:
    """The checkpoint is gone: mint a new id, start where the manifest's newest batch ended."""

    starting_offsets: str


@dataclass(frozen=True)
class Refuse:
    """Going on could lose or repeat changes."""

    reason: str
    remedy: str


Decision = Create | Resume | Rebuild | Refuse


def decide(
    pipeline: str,
    checkpoint: CheckpointFacts,
    newest: Entry | None,
    multisets: Mapping[str, int],
) -> Decision:
    """The one place that says how a run begins.

    ``multisets``: name of each table without a key to its newest Delta version.
    """
    if checkpoint.id is None and checkpoint.batches:
        return Refuse(
            "the checkpoint folder belongs to another streaming job (it has batches, but not the "
            "identity that ingest writes into its own)",
            "choose another `lake.path`, or move that folder away",
        )
    if checkpoint.pipeline is not None and checkpoint.pipeline != pipeline:
        return Refuse(
            f"the lake belongs to the pipeline {checkpoint.pipeline!r}",
            "choose another `lake.path`; two pipelines cannot share one",
        )
    if checkpoint.id is None:
        if newest is None:
            return Create()
        # A torn batch is applied again under a new identity. Rows with a key are guarded by their
        # own positions; a multiset would count its changes twice.
        torn = [
            name
            for name, version in multisets.items()
            if name not in newest.tables or version != newest.tables[name].version
        ]
        if torn:
            published = newest.tables.get(torn[0])
            return Refuse(
                f"the checkpoint is gone while a batch was being applied, and {torn[0]}, which has "
                "no key, already holds part of it",
                f"RESTORE TABLE that table TO VERSION AS OF {published.version if published else 0}"
                ", then run again",
            )
        return Rebuild(starting_offsets(newest))
    if newest is not None and newest.checkpoint_id != checkpoint.id:
        return Refuse(
            "the newest batch in the manifest was written under another checkpoint",
            "if the checkpoint was restored from a copy, delete it: the manifest knows where to "
            "resume",
        )
    return Resume(checkpoint.id)


def starting_offsets(entry: Entry) -> str:
    """Where each partition goes on, as Spark's ``startingOffsets``."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), (_, end) in sorted(entry.offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = end
    return json.dumps(nested)
