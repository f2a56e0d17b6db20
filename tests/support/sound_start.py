"""Facts of a start at which all is sound; what a test is about it changes."""

from dataclasses import replace
from datetime import datetime, timezone

from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.start_facts import (
    CheckpointFacts,
    KafkaFacts,
    LakeFacts,
    Note,
    StartFacts,
)

PLACE, IDLE = ("p.d.t", 0), ("p.d.idle", 0)


TABLE = TableState("/l/d/t", 7, position=Position(0, 1, 7), id="t-id")


def entry(batch_id=3, ends=(9, 4), version=7, **more):
    fields = {
        "batch_id": batch_id,
        "checkpoint_id": "abc",
        "offsets": {PLACE: (ends[0] - 4, ends[0]), IDLE: (ends[1], ends[1])},
        "high_water": {PLACE: HighWater(ends[0], Position(0, 1, 7), "uuid:5", "T")},
        "tables": {"d.t": replace(TABLE, version=version)},
        "changes": 4,
        "rejects": 0,
        "position": Position(0, 1, 7),
        "source_time": None,
        "schema_offset": 2,
        "started_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "seconds": 1.0,
    }
    return Entry(**(fields | more))


SOUND = CheckpointFacts("abc", "p", "stateless", 3, {PLACE: 9, IDLE: 4})


GONE = CheckpointFacts()


THERE = LakeFacts("d.t", "/l/d/t", 7, "t-id", {("abc", "mirror"): Marker(1, 3, 2)})


def facts(**more):
    fields = {
        "pipeline": "p",
        "shape": "stateless",
        "checkpoint": SOUND,
        "newest": entry(),
        "history": [entry(), entry(2, (5, 4), 5)],
        "lake": [THERE],
        "kafka": {PLACE: KafkaFacts(0, 20, "T"), IDLE: KafkaFacts(0, 4, "I")},
        "topic_of": {"d.t": "p.d.t"},
    }
    return StartFacts(**(fields | more))


NOTE = Note(4, "abc", {PLACE: (9, 12)}, 2)


AHEAD = replace(THERE, version=8, markers={("abc", "mirror"): Marker(1, 4, 2)}, note=NOTE)
