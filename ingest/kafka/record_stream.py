"""The Kafka stream of a pipeline: all data topics by one pattern; data loss is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes.envelope import ENVELOPE, PLACE
from ingest.config.pipeline_file import Pipeline
from ingest.kafka import client_settings
from ingest.kafka.ports import RUN_HEADER
from ingest.model.manifest import Place
from ingest.model.offset_ranges import filled, offsets_as_json
from ingest.model.topics import topic_pattern

SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "run string"
)
"""A record; ``run`` is the connector run that wrote it, from its header."""


def records(session: SparkSession, pipeline: Pipeline, starting_offsets: str | None) -> DataFrame:
    """The stream, with :data:`SCHEMA`; with state the ``PLACE`` of what it has not seen before.

    ``starting_offsets`` (Spark's JSON) counts only while the checkpoint is new; a topic that
    appears later is read from its beginning. Only committed transactions are seen, and an offset
    that Kafka no longer has stops the query instead of being skipped.
    """
    options = {
        **reader_options(pipeline),
        "subscribePattern": topic_pattern(pipeline.name, pipeline.source.topic_names),
        "startingOffsets": starting_offsets or "earliest",
        "maxOffsetsPerTrigger": str(pipeline.spark.max_changes_per_batch),
    }
    stream = _columns(session.readStream.format("kafka").options(**options).load())
    return unseen(stream, pipeline.dedup.delay) if pipeline.dedup.keeps_state else stream


def range_(
    pipeline: Pipeline, session: SparkSession, ranges: Mapping[Place, tuple[int, int]]
) -> DataFrame:
    """Exactly the records of these half-open ranges, with :data:`SCHEMA`, as a batch."""
    held = filled(ranges)
    if not held:
        return session.createDataFrame([], SCHEMA)
    assigned: dict[str, list[int]] = {}
    for topic, partition in sorted(held):
        assigned.setdefault(topic, []).append(partition)
    options = {
        **reader_options(pipeline),
        "assign": json.dumps(assigned),
        "startingOffsets": offsets_as_json({place: start for place, (start, _) in held.items()}),
        "endingOffsets": offsets_as_json({place: end for place, (_, end) in held.items()}),
    }
    return _columns(session.read.format("kafka").options(**options).load())


def unseen(stream: DataFrame, delay: str) -> DataFrame:
    """The ``PLACE`` of records whose change has not come before, within ``delay``, by Spark's state store.

    Only identities and places go to the tasks that hold the state, not the records: these are fetched from Kafka once
    more.

    The event time is the batch's own, which Spark logs with the batch. The source's time would be a
    trap: the watermark is one maximum over all topics, so the changes of a topic that lags would
    be "late" and vanish. With the batch's own time nothing is late unless this machine's clock is
    set back by more than ``delay``; that is seen in the offset log, and the batch is read again
    without the state (``micro_batch``), so nothing is lost then, either.
    """
    return (
        stream.withColumn("_seen_at", F.current_timestamp())
        .withWatermark("_seen_at", delay)
        .withColumn("_identity", identity())
        .select(*PLACE, "_seen_at", "_identity")
        .dropDuplicatesWithinWatermark(["_identity"])
        .select(*PLACE)
    )


def identity() -> Column:
    """What makes a streamed change itself: topic, binlog file, position, row and operation.

    Snapshot rows share one position, and unreadable records have none: those are themselves by
    topic, partition and offset, so never a repetition.
    """
    envelope = F.from_json(F.col("value").cast("string"), ENVELOPE)
    source, op = envelope["source"], envelope["op"]
    change = F.concat_ws(
        "/", "topic", source["file"], source["pos"], F.coalesce(source["row"], F.lit(0)), op
    )
    record = F.concat_ws("/", "topic", "partition", "offset")
    streamed = (op != "r") & source["file"].isNotNull() & source["pos"].isNotNull()
    # The text itself and no hash of it: two changes that shared a hash would lose one.
    return F.when(streamed, F.concat_ws("/", change, source["gtid"])).otherwise(record)


def _columns(loaded: DataFrame) -> DataFrame:
    ours = F.filter("headers", lambda header: header["key"] == RUN_HEADER)
    run = F.get(ours, F.lit(0))["value"].cast("string").alias("run")
    return loaded.select("topic", "partition", "offset", "timestamp", "key", "value", run)


def reader_options(pipeline: Pipeline) -> dict[str, str]:
    """Of a reader of the pipeline's Kafka, in Spark's words."""
    return {
        **client_options(pipeline),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        # A new table's topic is picked up within this time.
        "kafka.metadata.max.age.ms": "5000",
        # A range often ends in transaction markers, which are not records: the reader asks for what
        # comes behind them, and the broker would hold the answer back for 500 ms per partition.
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.partition.fetch.bytes": "33554432",
        "kafka.fetch.max.bytes": "67108864",
        **_properties(pipeline),
    }


def client_options(pipeline: Pipeline) -> dict[str, str]:
    """Of any client of the pipeline's Kafka, in Spark's words."""
    return {"kafka.bootstrap.servers": pipeline.kafka.bootstrap_servers, **_properties(pipeline)}


def _properties(pipeline: Pipeline) -> dict[str, str]:
    said = {**client_settings.of_java(pipeline.kafka), **pipeline.kafka.properties}
    return {f"kafka.{key}": value for key, value in said.items()}
