"""The Kafka stream of a pipeline: all data topics by one pattern; data loss is an error."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from ingest.config import Pipeline
from ingest.topics import topic_pattern


def records(session: SparkSession, pipeline: Pipeline, starting_offsets: str | None) -> DataFrame:
    """The stream: ``topic, partition, offset, timestamp, key binary, value binary``.

    ``starting_offsets`` (Spark's JSON) counts only while the checkpoint is new; a topic that
    appears later is read from its beginning. Only committed transactions are seen, and an offset
    that Kafka no longer has stops the query instead of being skipped.
    """
    options = {
        "kafka.bootstrap.servers": pipeline.kafka.bootstrap_servers,
        "subscribePattern": topic_pattern(pipeline.name),
        "startingOffsets": starting_offsets or "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(pipeline.spark.max_changes_per_batch),
        "kafka.isolation.level": "read_committed",
        # A new table's topic is picked up within this time.
        "kafka.metadata.max.age.ms": "5000",
        # A range often ends in transaction markers, which are not records: the reader asks for what
        # comes behind them, and the broker would hold the answer back for 500 ms per partition.
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.partition.fetch.bytes": "33554432",
        "kafka.fetch.max.bytes": "67108864",
        **{f"kafka.{key}": value for key, value in pipeline.kafka.properties.items()},
    }
    stream = session.readStream.format("kafka").options(**options).load()
    return stream.select("topic", "partition", "offset", "timestamp", "key", "value")
