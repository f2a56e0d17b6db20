"""Which pipeline a lake belongs to: one alone, and nobody else may write anything there, not even a note. And by which of two
ways that one's topics are named: what waits in those of before nobody would read.

A run of another pipeline would take the lake's log for one that its own server has replaced, and begin a new epoch: all that was
read before would be of the old one, and go once a snapshot does not name it. So a lake says whose it is, in a file of its own. The
first run makes it, under the lease and before anything else. It goes wherever the lake is copied or moved.

A lake that an earlier version has filled has no such file, and one that was brought back from an old copy may have lost it. Then the
checkpoint tells, which names its pipeline, or else the topics that the manifest names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import get_args

from ingest.config.pipeline_file import Pipeline
from ingest.lake.files.storage import Files, files_at
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry
from ingest.model.names import (
    IDENTITY_FILE,
    INTERNAL_FOLDER,
    REPLACED_FILE,
    checkpoint_path,
    owner_path,
)
from ingest.model.topics import TableId, TopicNames, topic_of, topic_prefix

_FILE = "pipeline.json"


@dataclass(frozen=True)
class Owner:
    """``names``: how its topics are named; None where nothing tells."""

    pipeline: str
    names: TopicNames | None = None


def refuse_other(pipeline: Pipeline) -> None:
    """Raises :class:`IngestError` where the lake is another pipeline's (``E-START-REFUSED``), or was filled from topics that are named otherwise
    (``E-TOPIC-NAMES``). Nothing is written.
    """
    _refuse(pipeline, _noted(pipeline.lake.path) or _left(pipeline))


def claim(pipeline: Pipeline) -> None:
    """The same, under the lease and before anything else is written; from then on the lake itself says whose it is. Where nothing tells,
    that is noted of an empty one alone: tables without their manifest may be another's, who is about to bring it back. Their
    start is decided as ever, and the checkpoint that it leaves tells the next one.
    """
    lake = pipeline.lake.path
    noted = _noted(lake)
    owner = noted or _left(pipeline)
    _refuse(pipeline, owner)
    if noted is None and (owner is not None or _is_empty(lake)):
        names = pipeline.source.topic_names
        said = json.dumps({"pipeline": pipeline.name, "topic_names": names})
        if not files_at(owner_path(lake)).create(_FILE, f"{said}\n"):
            refuse_other(pipeline)  # somebody has written it just now


def by_checkpoint(checkpoint: Files) -> str | None:
    """The pipeline that a checkpoint names. None where it names none, or not whole, as a power cut may leave it."""
    try:
        replaced = checkpoint.read(REPLACED_FILE)
        if replaced is not None:
            return replaced.strip() or None
        identity = (checkpoint.read(IDENTITY_FILE) or "").split()
    except UnicodeDecodeError:
        return None
    return identity[0] if len(identity) == 3 else None


def by_topics(name: str, topics: Iterable[str]) -> str | None:
    """``name`` where any of these topics is that pipeline's, by either way of naming them; else the one that they are of; None without a topic. Pure."""
    ours = tuple(topic_prefix(name, names) for names in get_args(TopicNames))
    found = sorted(topics)
    if any(topic.startswith(ours) for topic in found):
        return name
    return found[0].partition(".")[0] if found else None


def topic_names(
    name: str, tables: Iterable[TableId], topics: Collection[str], wanted: TopicNames
) -> TopicNames | None:
    """By which way of naming them a pipeline's topics were read: the ``wanted`` one where some table's is among these by that alone, as a manifest keeps
    those of before another way was chosen; else the other; None where each is there by both, or none is. Pure.
    """
    found, ways = set[TopicNames](), get_args(TopicNames)
    for table in tables:
        mine = [one for one in ways if topic_of(name, table, one) in topics]
        found |= {*mine} if len(mine) == 1 else set()
    return wanted if wanted in found else next(iter(found), None)


def _noted(lake: str) -> Owner | None:
    """As the lake's own file has it; None where there is none, or it is none that this version reads."""
    try:
        said = json.loads(files_at(owner_path(lake)).read(_FILE) or "")
        return Owner(str(said["pipeline"]), said.get("topic_names"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _left(pipeline: Pipeline) -> Owner | None:
    """By what was left in the lake."""
    lake, newest = pipeline.lake.path, _newest(pipeline.lake.path)
    topics = {topic for topic, _ in newest.ends} if newest else set[str]()
    told = by_checkpoint(files_at(checkpoint_path(lake))) or by_topics(pipeline.name, topics)
    if told is None:
        return None
    tables = map(TableId.parse, newest.tables if newest else ())
    return Owner(told, topic_names(told, tables, topics, pipeline.source.topic_names))


def _newest(lake: str) -> Entry | None:
    """The manifest's newest row; None where it cannot be read: it may be of another format, or torn by a power cut,
    which is looked at behind this. Raises :class:`IngestError` where a store is away.
    """
    try:
        return Ledger(lake).last()
    except Exception as failure:
        if isinstance(failure, IngestError) and failure.may_pass:
            raise
        return None


def _is_empty(lake: str) -> bool:
    """Whether there is nothing but what ingest itself keeps beside tables."""
    return all(name == INTERNAL_FOLDER or name.startswith(".") for name in files_at(lake).names(""))


def _refuse(pipeline: Pipeline, owner: Owner | None) -> None:
    names = pipeline.source.topic_names
    if owner is None:
        return
    if owner.pipeline == pipeline.name:
        if owner.names in (None, names):
            return
        raise IngestError(
            "E-TOPIC-NAMES",
            f"The lake {pipeline.lake.path} is filled from topics with names of the kind {owner.names!r}, and the pipeline file says "
            f"`topic_names: {names}`.",
            means="What the connector has written and nobody has read yet lies in topics of the other names. Nothing was touched.",
            remedy=f"set `topic_names: {owner.names}` below `source` again; or begin a pipeline with another `name` and another `lake.path`, "
            "which takes all tables anew.",
        )
    raise IngestError(
        "E-START-REFUSED",
        f"The lake {pipeline.lake.path} belongs to the pipeline {owner.pipeline!r}, and the pipeline file is of {pipeline.name!r}.",
        means="Two pipelines cannot share one: each would undo what the other does. Nothing was touched.",
        remedy="choose another `lake.path`, or the pipeline file that belongs to this lake.",
    )
