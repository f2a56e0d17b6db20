"""What the spine asks of the outside: the change log, the schemas of its tables, and MySQL's own log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from threading import Event as Sign
from typing import Protocol

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame

from ingest.model.manifest import Place
from ingest.model.position import Position
from ingest.model.position_ties import Event
from ingest.schema.catalog import Catalog

Ranges = Mapping[Place, tuple[int, int]]
"""Half-open Kafka offset ranges."""


RecordSource = Callable[[Ranges, Sign], Iterator[Mapping[Place, pa.Table]]]
"""Brings the records of ranges as ``Log.bring`` does, in whatever process: it can be sent to one."""

RUN_HEADER = "__debezium.context.runId"
"""The header of a record that names the connector run that wrote it."""

RECORDS_PER_PART = 10_000
"""What one task decodes in some tenth of a second: 8 to 15 µs of CPU a change."""


def parts(ranges: Ranges, context: SparkContext) -> int:
    """Into how many Spark partitions a batch goes. Kafka's own are one per topic or more, and every table
    looks through all of them: a hundred tables would be ten thousand tasks, most of them empty.
    """
    records = sum(end - start for start, end in ranges.values())
    return max(1, min(context.defaultParallelism * 2, records // RECORDS_PER_PART))


class Schemas(Protocol):
    """The schema-change topic, followed."""

    catalog: Catalog
    offset: int

    def read_to_end(self) -> None:
        """Take in everything committed to the topic so far."""


class Log(Protocol):
    """The change log that batches are ranges of: Kafka, and Spark's own note of each range."""

    def taken(self, spark_batch: int) -> tuple[Ranges, bool]:
        """The ranges of Spark's batch, and whether Spark's watermark called them late."""

    def read(self, ranges: Ranges) -> DataFrame:
        """Exactly the records of these ranges, with ``record_stream.SCHEMA``."""

    def bring(
        self, ranges: Ranges, enough: Sign, keyed: Collection[str] = ()
    ) -> Iterator[Mapping[Place, pa.Table]]:
        """The same to the driver, some at a time: ``offset bigint, value binary, run string``, and ``key binary`` of the topics
        of ``keyed``. Raises ``FetchError``. ``run`` may be left out but for snapshots' rows. A partition's table without rows says that no
        record is left of its range, as where it ends in transaction markers. ``enough``: once it is set, what has come
        of any partition is brought, and no more.
        """

    def source(self, ranges: Ranges, keyed: Collection[str] = ()) -> RecordSource:
        """What brings any part of these ranges inside Spark's tasks, as :meth:`bring` does."""

    def ends(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where the committed records of these topics end now."""

    def begins(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where the records of these topics begin that Kafka still has."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Kafka's own ids of topics: one that was made again under its old name has another."""

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Commit the consumer group's offsets, for ordinary lag tools."""


class Binlog(Protocol):
    """MySQL's own log."""

    def events(self, places: Collection[Position]) -> Mapping[Position, Event]:
        """What stands at these places, those left out of which MySQL no longer has the log. Raises ``IngestError``
        where the server is away.
        """
