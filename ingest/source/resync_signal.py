"""The signal by which Debezium is asked to read tables again: a message in a topic of the connector's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.model.topics import TableId
from ingest.schema import snapshot_select
from ingest.source.resync_request import Kind, Request
from ingest.source.snapshot_notices import TOGETHER


def put(pipeline: Pipeline, asked: Sequence[Request]) -> None:
    """Into the signal topic, those of a kind as one signal: Debezium takes its tables one after the other, and their rows
    come together.
    """
    topic = signal_topic(pipeline)
    broker.ensure_topic(pipeline, topic)
    producer = Producer(broker.connection(pipeline), logger=broker.Silent())
    for blocks in sorted({one.blocks for one in asked}, reverse=True):
        group = [one for one in asked if one.blocks == blocks]
        kind: Kind = "BLOCKING" if blocks else "INCREMENTAL"
        tables = sorted({one.collection for one in group})
        selects = {name: s for one in group if (s := _select(one)) and (name := _listed(one))}
        conditions = [{"data-collection": n, "filter": s} for n, s in selects.items()]
        data: dict[str, Any] = {"data-collections": tables, "type": kind}
        if conditions:
            data["additional-conditions"] = conditions
        name = TOGETHER.join(one.id for one in group)
        signal = {"id": name, "type": "execute-snapshot", "data": data}
        producer.produce(topic, key=pipeline.name, value=json.dumps(signal))
    producer.flush(10)


def _select(one: Request) -> str:
    """What a blocking snapshot reads of it; empty for Debezium's own statement. For a definition alone no row."""
    table = TableId.parse(one.table)
    return snapshot_select.none(table) if one.untold else one.select


def _listed(one: Request) -> str | None:
    return snapshot_select.listed(TableId.parse(one.table))


def signal_topic(pipeline: Pipeline) -> str:
    """Where the connector listens."""
    return f"{pipeline.name}-signal"


def notification_topic(pipeline: Pipeline) -> str:
    """Where the connector says how far a snapshot is."""
    return f"{pipeline.name}-notification"
