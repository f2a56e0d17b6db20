"""Where a batch stands in its tables' topics, for their change logs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ingest.config.pipeline_file import Pipeline
from ingest.lake.manifest import next_entry
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, Place
from ingest.model.start_facts import LogHeld, Note
from ingest.model.topics import TableId


@dataclass(frozen=True)
class LogPlace:
    """Of one table. ``starts``: by partition, where the batch begins, none for one of what waited in quarantine, which is of before;
    ``held``: what the log holds behind it, the table's newest position left out.
    """

    starts: Mapping[int, int]
    held: LogHeld
    lost: tuple[Gap, ...] = ()
    """Where Kafka has lost the end of a partition."""


def log_places(
    pipeline: Pipeline,
    tables: Collection[TableId],
    note: Note,
    previous: Entry | None,
    waiting: Mapping[Place, int],
    topic_ids: Mapping[str, str],
) -> dict[TableId, LogPlace]:
    """Of these tables. ``previous``: the manifest's row before the batch; ``waiting``: where changes begin that it leaves in Kafka;
    ``topic_ids``: Kafka's ids of topics that the manifest does not name yet.
    """
    topics = {pipeline.topic(table): table for table in tables}
    starts: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    ends: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    ids = dict(topic_ids)
    if not note.replay:
        standing = {topic: str(one) for topic, one in topics.items() if str(one) != note.shows}
        waits = next_entry.waits_from(previous, waiting, standing)
        for (topic, partition), end in (previous.ends if previous else {}).items():
            if topic in topics:
                starts[topic][partition] = end
        for (topic, partition), (start, end) in note.ranges.items():
            if topic in topics:
                starts[topic][partition] = start
                ends[topic][partition] = min(end, waits.get((topic, partition), end))
    for (topic, _), mark in (previous.high_water if previous else {}).items():
        if mark.topic_id:
            ids[topic] = mark.topic_id
    gaps = previous.gaps if previous else ()
    lost = [gap for gap in gaps if reasons.END_LOST.is_in(gap.reason)]
    return {
        table: LogPlace(
            starts[topic],
            LogHeld(ids.get(topic, ""), ends[topic], batch=note.batch_id),
            tuple(gap for gap in lost if gap.topic == topic),
        )
        for topic, table in topics.items()
    }
