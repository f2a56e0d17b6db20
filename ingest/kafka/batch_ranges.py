"""The change log as batches see it: Spark's note of each range, and Kafka, which holds the records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from threading import Event

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker, fetch, record_stream
from ingest.kafka.fetch import InWorker
from ingest.kafka.ports import Ranges, RecordSource
from ingest.kafka.prefetch import Ahead
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.model import offset_log, offset_ranges
from ingest.model.manifest import Place


class KafkaLog:
    """The ``ports.Log`` of a real run. ``checkpoint``: Spark's checkpoint folder; ``ahead``: what brings records to
    the driver, which outlives it.
    """

    def __init__(
        self, session: SparkSession, pipeline: Pipeline, checkpoint: HadoopFiles, ahead: Ahead
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._group = broker.GroupOffsets(pipeline)
        self._ahead = ahead

    def taken(self, spark_batch: int) -> tuple[Ranges, bool]:
        """The exact ranges of Spark's batch, from its own write-ahead log."""
        text = self._checkpoint.read(f"offsets/{spark_batch}") or ""
        after = offset_log.offsets_from_log(text)
        late = self._pipeline.dedup.keeps_state and offset_log.is_behind_its_watermark(text)
        return offset_ranges.ranges(self._before(spark_batch), after), late

    def _before(self, spark_batch: int) -> dict[Place, int]:
        before = self._checkpoint.read(f"offsets/{spark_batch - 1}") if spark_batch else None
        if before is not None:
            return offset_log.offsets_from_log(before)
        # Where the very first batch began: the Kafka source's own note ("v1", then the offsets).
        first = (self._checkpoint.read("sources/0/0") or "v1\n{}").partition("\n")[2]
        return offset_ranges.offsets_from_json(first)

    def read(self, ranges: Ranges) -> DataFrame:
        """Exactly the records of these ranges."""
        return record_stream.range_(self._pipeline, self._session, ranges)

    def bring(
        self, ranges: Ranges, enough: Event, keyed: Collection[str] = ()
    ) -> Iterator[Mapping[Place, pa.Table]]:
        """The same, to the driver."""
        return self._ahead.records(ranges, enough, keyed)

    def source(self, ranges: Ranges, keyed: Collection[str] = ()) -> RecordSource:
        """By a connection of each worker's own."""
        del ranges
        return InWorker(fetch.settings(self._pipeline), tuple(keyed))

    def ends(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where the committed records of these topics end now."""
        return broker.end_offsets(self._pipeline, topics)

    def begins(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where the records of these topics begin that Kafka still has."""
        return broker.first_offsets(self._pipeline, topics)

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Kafka's own ids of topics."""
        return broker.topic_ids(self._pipeline, topics)

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Commit the consumer group's offsets: a batch is over."""
        self._ahead.forget()
        self._group.commit(ends)

    def close(self) -> None:
        """Leave Kafka."""
        self._group.close()
