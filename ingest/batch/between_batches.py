"""Upkeep of the tables that a run has written to: between its batches, and behind the last one where it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.maintenance.schedule import Maintenance

ORDER_FOR = 5.0
"""Seconds behind the last batch of a run that ends."""


class Writes(Protocol):
    """Who writes tables."""

    @property
    def opened(self) -> Sequence[DeltaRsTable]:
        """Those that delta-rs writes."""

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """By path, how often others were written to."""


@dataclass(frozen=True)
class BetweenBatches:
    """``maintenance``: what is due; ``writers``: of which tables."""

    maintenance: Maintenance
    writers: Sequence[Writes]

    def one(self) -> bool:
        """One thing at most, so that no change waits long; whether there was one."""
        opened = [table for one in self.writers for table in one.opened]
        left = {path: count for one in self.writers for path, count in one.left_to_spark.items()}
        return self.maintenance.between_batches(opened, left)

    def all_due(self, stopped: Callable[[], bool]) -> None:
        """All that is due, for some seconds at most: of a run that ends, since it has few batches to do it between, and the next may
        come in an hour.
        """
        until = time.monotonic() + ORDER_FOR
        while time.monotonic() < until and not stopped() and self.one():
            pass
