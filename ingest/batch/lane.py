"""Where a batch's plain changes are read: in the driver, or in Spark's tasks. Facts in, a choice out. Pure.

A rule of meaning, not of speed: what is small and fresh is the driver's, which begins without a job; volume is Spark's, whose tasks
are on as many machines as there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingest.config.spark_settings import Lane


@dataclass(frozen=True)
class LaneFacts:
    """Of one batch. ``wanted``, ``most_records``, ``most_bytes``: as the pipeline file says; ``one_machine``: Spark's tasks run in the
    driver's own process, and the lake is on its disk; ``bytes``: of the rows, as far as the batches before tell.
    """

    wanted: Lane
    one_machine: bool
    records: int
    bytes: int
    most_records: int
    most_bytes: int


def lane(facts: LaneFacts) -> Literal["spark", "driver"]:
    """The driver's only where all is on one machine and the batch is small."""
    if facts.wanted in ("spark", "driver"):
        return facts.wanted
    small = facts.records <= facts.most_records and facts.bytes <= facts.most_bytes
    return "driver" if facts.one_machine and small else "spark"
