"""Spark's reading of changes, rehearsed.

What the driver's reader leaves (an odd value, a DDL in the backlog, a table without a key) Spark reads, and the whole batch waits
for it. The first time in a process Java loads some thousand classes for that and compiles them, which takes as long as many
batches: all tables stood still for it, hours after the start, for one value of one table. So Spark reads some of the newest
records once more while nobody waits, as it would if they were odd, and all of it is thrown away.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.batch.record_reader import ReaderJob, ReadRequest, SparkRecords
from ingest.batch.spark_reader import SparkReader
from ingest.batch.stage_times import Stopwatch
from ingest.batch.step_cutter import StepCutter
from ingest.batch.table_definitions import InForce
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log, Ranges
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.engines import collected_changes
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model.epochs import Epoch
from ingest.model.location import local_folder
from ingest.model.manifest import Entry, Place
from ingest.model.names import join, scratch_of

AFTER = 30.0
"""Seconds of a query before it, in which Java compiles what each batch needs. Shorter runs need none."""
AT_LAST = 300.0
"""The same where one batch follows the other, so that there is no better moment."""
_RECORDS = 20
"""Few, as it is their plans that take time. Of a transaction's end an offset is spent without a record."""
_SMALL = 2**16
"""Bytes of a record: some of many megabytes each would be a burden, and teach nothing more."""
_GROUP = "rehearsal"


def newest_records(newest: Entry) -> dict[Place, tuple[int, int]]:
    """Of one topic partition whose changes were applied; none where no change was."""
    applied = (place for place, mark in newest.high_water.items() if mark.position)
    end = {place: newest.ends.get(place, 0) for place in applied}
    place = max(end, key=lambda one: (end[one], one), default=None)
    return {place: (max(end[place] - _RECORDS, 0), end[place])} if place and end[place] else {}


@dataclass
class Rehearsal:
    """One for each query, but none after one that has begun. ``log`` and ``epochs``: as batches have them; ``records``: those of ranges, as ``log`` has them, for
    another session: identity lives in a session, and batches commit meanwhile.
    """

    session: SparkSession
    pipeline: Pipeline
    log: Log
    records: Callable[[SparkSession, Ranges], DataFrame]
    epochs: Sequence[Epoch]
    committer: Committer
    _since: float = field(default_factory=time.monotonic)
    _thread: threading.Thread | None = None

    def is_due(self, *, idle: bool) -> bool:
        """Once, after a while. ``idle``: no batch waits."""
        waits = AFTER if idle else AT_LAST
        return self._thread is None and time.monotonic() - self._since > waits

    @property
    def has_begun(self) -> bool:
        """Whether another query of the same process needs none."""
        return self._thread is not None

    def begin(self, seen: InForce) -> None:
        """In a thread of its own; batches go on beside it. ``seen``: the records, and what they are read by."""
        self._thread = threading.Thread(target=self._run, args=(seen,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give it up, where it is not over."""
        if self._thread is not None and self._thread.is_alive():
            self.session.sparkContext.cancelJobGroup(_GROUP)
            self._thread.join(5)

    def _run(self, seen: InForce) -> None:
        context = self.session.sparkContext
        # What fails here fails again where it counts, and is said there.
        with suppress(Exception), ThreadPoolExecutor(1) as pool:
            context.setJobGroup(_GROUP, "the reading of odd changes, rehearsed")
            pool.submit(context.setJobGroup, _GROUP, "the same").result()
            self.read(seen, pool)

    def read(self, seen: InForce, pool: ThreadPoolExecutor) -> int:
        """What a batch of Spark's does until all that is odd in it is set aside. Returns how many changes."""
        session = sibling(self.session)
        folder = join(scratch_of(self.pipeline.lake.path, self.committer.term), _GROUP)
        held = HeldBack(session, folder, Committer(self.committer.term))
        reader = SparkReader(
            ReaderJob(session, self.pipeline, self.log, pool, self.epochs, held, collects=True)
        )
        cutter = StepCutter(self.pipeline, session)
        records = self.records(session, seen.note.ranges)
        records = records.filter(F.octet_length("value") < _SMALL)
        try:
            # Without the manifest's row, by which all of it was applied and would be passed over.
            request = ReadRequest(
                seen.note, seen.catalog, seen.aside, SparkRecords(lambda _: records), None
            )
            read, _ = reader.read(request, Stopwatch())
            tables = cutter.prepare(read, read.facts, seen, None).whole()
            assert read.fresh is not None
            assert read.changes is not None
            collected_changes.look(read.fresh, tables, pool, collect=True)
            odd = read.changes.withColumn("reason", F.lit(_GROUP))
            return held.take(odd, tables, 1, Identity(_GROUP, 1), seen.note.ranges)
        finally:
            for release in (held.release, reader.release, cutter.release):
                release()
            if there := local_folder(folder):
                shutil.rmtree(there, ignore_errors=True)
