"""Where a batch's plain changes are read: in the driver, or in Spark's tasks. Facts in, a choice out. Pure.

A rule of meaning, not of speed: what is small and fresh is the driver's, which begins without a job; volume is Spark's, whose tasks
are on as many machines as there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingest.config.pipeline_file import Pipeline
from ingest.config.spark_settings import Lane
from ingest.model.location import within_reach


@dataclass(frozen=True)
class LaneFacts:
    """Of one batch. ``wanted``, ``most_records``, ``most_bytes``: as the pipeline file says; ``one_machine``: Spark's tasks run in the
    driver's own process, and the lake is on its disk or in an object store, where delta-rs commits what the driver reads; ``state``: Spark remembers what has come; ``bytes``: of the rows, as far as
    the batches before tell.
    """

    wanted: Lane
    one_machine: bool
    state: bool
    records: int
    bytes: int
    most_records: int
    most_bytes: int

    @property
    def small(self) -> bool:
        """As much as the driver takes."""
        return self.records <= self.most_records and self.bytes <= self.most_bytes

    @classmethod
    def of(cls, pipeline: Pipeline, records: int, size: int) -> LaneFacts:
        """Of a batch of so many records, whose rows have so many bytes."""
        spark = pipeline.spark
        return cls(
            spark.lane,
            one_machine=not spark.on_cluster and within_reach(pipeline.lake.path),
            state=pipeline.dedup.keeps_state,
            records=records,
            bytes=size,
            most_records=spark.driver_max.changes,
            most_bytes=spark.driver_max.megabytes * 2**20,
        )


def lane(facts: LaneFacts) -> Literal["spark", "driver"]:
    """The driver's only where all is on one machine, the batch is small, and Spark has no state to look at."""
    if facts.wanted in ("spark", "driver"):
        return facts.wanted
    return "driver" if facts.one_machine and facts.small and not facts.state else "spark"


def stays(facts: LaneFacts) -> bool:
    """Whether rows that Spark's tasks read stay with them until Spark merges them: on a cluster, so that the driver's part of a batch does not
    grow with it. What is small comes to the driver, where delta-rs commits it sooner.
    """
    return not facts.one_machine and not facts.small
