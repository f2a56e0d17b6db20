"""The tables of one lake that delta-rs reaches, each opened once in a run: whoever merges, one of these is put in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ingest.lake.delta.delta_rs_table import DeltaRsTable, is_read, within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.delta.written_by_spark import WrittenBySpark
from ingest.lake.engines.delta_rs_limits import WRITABLE


class ReachedTables:
    """``lake``: its path; ``term``: of the job that writes to it. Asked by many threads, each for another table."""

    def __init__(self, lake: str, term: int) -> None:
        self._lake = lake
        self._term = term
        self._tables: dict[str, DeltaRsTable | None] = {}
        self._by_spark = Counter[str]()

    def of(self, table: SparkTable) -> DeltaRsTable | None:
        """The table by its log; None where it is out of reach. What is opened stays open, so that a batch reads only what is
        new in a table's log.
        """
        if table.path not in self._tables:
            self._tables[table.path] = within_reach(table, self._lake, self._term)
        return self._tables[table.path]

    def now(self, table: SparkTable) -> DeltaRsTable | None:
        """The same as it is now; None, too, where its log is of a kind that is not read here, as Spark may have written one since. Raises
        :class:`TornCommitError`.
        """
        found = self.of(table)
        if found is not None and not is_read(found):
            self._tables[table.path] = found = None
        return found

    def writable(self, table: SparkTable) -> DeltaRsTable | None:
        """The same; None, too, where it has a feature that delta-rs does not write."""
        found = self.now(table)
        return found if found is not None and found.features() <= WRITABLE else None

    def written_by_spark(self, table: SparkTable) -> TableHandle:
        """The table as Spark commits to it: asked by its log where a commit of ours may follow one of Spark's. Raises
        :class:`TornCommitError`.
        """
        found = self.writable(table)
        return table if found is None else WrittenBySpark(table, found, found.features())

    def was_written_by_spark(self, table: SparkTable) -> None:
        """It is to be put in order like those that delta-rs writes: by delta-rs, where that can. Raises :class:`TornCommitError`."""
        self._by_spark[table.path] += 1
        if direct := self.now(table):
            direct.was_merged_into()

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """Paths of tables that Spark has written and delta-rs does not, each with how often that was."""
        opened = {path: self._tables.get(path) for path in [*self._by_spark]}
        return {
            path: self._by_spark[path]
            for path, direct in opened.items()
            if direct is None or not direct.features() <= WRITABLE
        }

    @property
    def merged(self) -> Sequence[DeltaRsTable]:
        """Those that were merged into and that maintenance can put in order, as delta-rs writes all of their features."""
        found = [one for one in self._tables.values() if one is not None and one.merges]
        return [one for one in found if one.features() <= WRITABLE]
