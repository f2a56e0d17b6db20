"""A flow's Delta tables kept in order behind its batches: small files put together, old versions removed, the log kept short.

As the mirrors' job does for its tables (``maintenance/schedule``), under the flow's own lease, and by delta-rs: what is committed is on the
disk before. A table that delta-rs does not write (its columns are mapped, say) is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import DeltaRsTable, is_read, unread
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.delta_rs_limits import WRITABLE
from ingest.maintenance.schedule import Maintenance
from ingest.maintenance.upkeep import Upkeep


@dataclass
class FlowUpkeep:
    """Of one run of a flow. ``committer``: by the flow's lease."""

    pipeline: Pipeline
    flow: str
    committer: Committer
    _opened: dict[str, DeltaRsTable] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    """By path: the version that was looked at last."""

    def behind_batch(self, session: SparkSession, paths: Iterable[str]) -> tuple[Upkeep, ...]:
        """Do what is due for one of these tables at most; returns what was done. Raises :class:`LeaseLostError`."""
        ready = [found for path in paths if (found := self._ready(session, path))]
        self._maintenance.between_batches(ready)
        return self._maintenance.done()

    def _ready(self, session: SparkSession, path: str) -> DeltaRsTable | None:
        if path not in self._opened:
            table = SparkTable(session, path)
            found = unread(table, self.pipeline.lake.path, self.committer.term, self.flow)
            if found is None or not table.exists():
                return None
            self._opened[path] = found
        direct = self._opened[path]
        if not is_read(direct) or not direct.features() <= WRITABLE:
            return None
        version = direct.state.version
        if self._seen.get(path) != version:
            direct.was_merged_into()
            self._seen[path] = version
        return direct

    @cached_property
    def _maintenance(self) -> Maintenance:
        lake = self.pipeline.lake
        return Maintenance(
            lake.path,
            lake.history_hours,
            lake.history_versions,
            self.committer,
            self.pipeline.name,
            flow=self.flow,
        )
