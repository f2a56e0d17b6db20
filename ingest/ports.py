"""What the spine asks of the outside: the change log, and the schemas of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from ingest.catalog import Catalog
from ingest.manifest import Place

Ranges = Mapping[Place, tuple[int, int]]
"""Half-open Kafka offset ranges."""


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
        """Exactly the records of these ranges, with ``source.SCHEMA``."""

    def ends(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where the committed records of these topics end now."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Kafka's own ids of topics: one that was made again under its old name has another."""

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Commit the consumer group's offsets, for ordinary lag tools."""
