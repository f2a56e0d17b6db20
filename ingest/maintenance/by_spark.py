"""What tables need that only Spark writes: in a file system that only Spark reaches, or with a feature that delta-rs does not know.

By Delta's own OPTIMIZE and VACUUM, with what they lack. OPTIMIZE knows no bound but the size of a file, so that size is chosen such that the next
changes do not wait long (``small_files``). Of the files that it writes Spark leaves out bounds, or rounds them, by which some reader would
miss rows: they are put right behind it, and once more by the next job, as this one may die between the two. VACUUM does not ask for the lease between
its look and its deletions: it only names here what is too old. And on this machine's disk OPTIMIZE syncs nothing: it is noted before
(``unfinished_rewrite``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.lake.delta import read_back
from ingest.lake.delta.commit import Committer, sibling
from ingest.lake.delta.data_files import last_name
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.unfinished_rewrite import UnfinishedRewrite
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.maintenance import small_files, vacuum_times
from ingest.maintenance.upkeep import Upkeep
from ingest.maintenance.vacuum_times import VacuumTimes
from ingest.model.failpoints import reached
from ingest.model.names import Marker

LOOK_EVERY = 16
"""Writes to a table, for a look at its files, which takes Spark half a second; each of these writes took it a second or more."""

_LOOK_BACK = 20
"""Versions that a job's first look at a table goes back: what was written behind an OPTIMIZE is soon more than that, and read back itself."""

MOST_NAMES = 1_000
"""Files that are removed at once, one by one: some seconds."""

_OPTIMIZE = "spark.databricks.delta.optimize"
_SETTINGS = {
    f"{_OPTIMIZE}.maxFileSize": str(small_files.LARGEST),
    f"{_OPTIMIZE}.maxDeletedRowsRatio": "1.0",  # else a large file is written anew for some deleted rows
    f"{_OPTIMIZE}.maxThreads": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # it wants a week
}

Say = Callable[[Upkeep], object]


@dataclass
class SparkUpkeep:
    """Of one job and lake. ``app_id``: of commits that put right what OPTIMIZE has left. ``unread``: as ``Maintenance`` has it."""

    session: SparkSession
    committer: Committer
    app_id: str
    lake: str
    unread: Callable[[str, str], int | None] = lambda *_: None
    _looked: dict[str, int] = field(default_factory=dict)
    """By path: how many writes there were at the last look."""

    def compact(self, path: str, writes: int, say: Say) -> bool:
        """Put small files together, where there are many; whether it was looked. Raises :class:`LeaseLostError`, and
        :class:`ForeignCommitError` where somebody else has changed the table.
        """
        seen = self._looked.get(path)
        if seen is not None and writes - seen < LOOK_EVERY:
            return False
        self._looked[path] = writes
        self.committer.refuse_lost()
        self._unfinished.settle()
        table = SparkTable(self._own, path)
        if seen is None:
            self._put_right(table, max(0, table.version() - _LOOK_BACK))
        least = small_files.below(table.small_files(small_files.SMALL))
        if least is None:
            return True
        self.committer.refuse_lost()
        before, began = self.committer.continued(table), time.monotonic()
        self._own.conf.set(f"{_OPTIMIZE}.minFileSize", str(least))
        self._unfinished.begin(path, before)
        done = table.delta().optimize().executeCompaction()
        (row,) = done.select("metrics.numFilesRemoved").collect()
        reached("files_rewritten", 0, path)
        self._put_right(table, before + 1)
        self.committer.to_publish(table)  # all of it lasting, and nobody else's
        self._unfinished.end()
        took = time.monotonic() - began
        count = int(row.numFilesRemoved)
        detail = f"{count:,} files put together by Spark, {took:.1f} s"
        say(Upkeep(path, "ordered", detail, files=count, seconds=took))
        return True

    def forget(self, path: str) -> None:
        """What was begun for a table did not end: it is looked at again as by a new job, and what is owed to it put right."""
        self._looked.pop(path, None)

    def vacuum(self, path: str, hours: int, times: VacuumTimes, say: Say) -> bool:
        """Remove versions that are too old; the log of those goes with the next checkpoints. Whether it was looked for them. Raises
        :class:`LeaseLostError`.
        """

        def vacuum() -> bool:
            if removed := self._vacuumed(SparkTable(self._own, path), hours):
                detail = f"{removed:,} files of old versions removed, named by Spark"
                say(Upkeep(path, "vacuumed", detail, files=removed))
            return removed < MOST_NAMES

        return times.when_due(path, hours, self.committer.refuse_lost, vacuum)

    def _vacuumed(self, table: SparkTable, hours: int) -> int:
        """How many files were removed. Spark names them and only then the lease is asked for, as ``DeltaRsTable.vacuum`` has it, and why."""
        self.committer.continued(table)  # a checkpoint may clean the log from here on
        first, needed = self.unread(table.path, table.id()), frozenset[str]()
        if first is not None and first <= table.version():
            _, actions = next(table.commits(first))
            hours = max(hours, vacuum_times.lasting(vacuum_times.hours_since(actions)))
            needed = _names(table, first)
        table.keep_for(hours)
        seen = table.version()
        unneeded = [one for one in table.unneeded(hours) if last_name(one) not in needed]
        named = unneeded[:MOST_NAMES]  # the rest when its turn comes again
        self.committer.refuse_lost()
        if table.version() != seen:
            return 0
        there = HadoopFiles(self._own, table.path)
        for name in named:
            there.delete(name)
        self.committer.to_publish(table)
        return len(named)

    @cached_property
    def _unfinished(self) -> UnfinishedRewrite:
        return UnfinishedRewrite(self.lake)

    @cached_property
    def _own(self) -> SparkSession:
        """Its settings are nobody else's, and no commit's identity stands in it."""
        own = sibling(self.session)
        for name, value in _SETTINGS.items():
            own.conf.set(name, value)
        return own

    def _put_right(self, table: SparkTable, start: int) -> None:
        marker = Marker(self.committer.term, 0, 1)  # of no batch
        read_back.put_right(table, start, self.app_id, marker.version)


def _names(table: SparkTable, version: int) -> frozenset[str]:
    """Of a version's data files, which no two files share; none where it cannot be read any more."""
    try:
        was = table.session.read.format("delta").option("versionAsOf", version).load(table.path)
        return frozenset(map(last_name, was.inputFiles()))
    except PySparkException:
        return frozenset()
