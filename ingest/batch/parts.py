"""The batches of ours that one of Spark's becomes: its range in parts (``batch_size``), one after the other.

Each part is a batch like any other, with a number and a row of the manifest, which names Spark's batch and the part. Any prefix
of what waits in each partition may be one, as any may be a batch of Spark's. A crash between two of them finds Spark's range
again, and goes on behind what the manifest has of it. Without state a part may also reach beyond Spark's range: what the
manifest covers of a later one is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ingest.arrow import freed_memory
from ingest.batch.batch_size import FRESH_FOR, MUCH, Pace, fresh
from ingest.batch.record_reader import SparkRecords
from ingest.changes.kept_frames import free, keep
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log, Ranges
from ingest.model import offset_ranges
from ingest.model.manifest import Entry, Place
from ingest.model.offset_ranges import filled, part, records_of


class StaleCheckpointError(Exception):
    """Spark's ranges do not continue the manifest's: the start must be decided again."""


@dataclass(frozen=True)
class Part:
    """``ranges``: what is to be applied; ``most``: bytes of rows at which a reader may stop before their end, None where
    it must not; ``expected``: bytes of their rows, as far as the parts before tell, 0 where none does.
    """

    ranges: Ranges
    most: int | None = None
    expected: int = 0


ALL = Part({})
"""Of what has to be read to its end."""


@dataclass
class Parts:
    """Of one job."""

    pipeline: Pipeline
    log: Log
    pace: Pace = field(default_factory=Pace)
    _at_end: frozenset[Place] = frozenset()
    """Partitions that the newest part has read to where they ended."""
    _ends: Mapping[Place, int] = field(default_factory=dict)
    """Where they ended when it began."""
    _is_behind: bool = False
    """The newest part has left something in Kafka of what it has read."""
    _fresh_until: float = 0.0
    _was_large: bool = False

    def next(self, newest: Entry | None, ranges: Ranges, *, exact: bool) -> Part | None:
        """The next part of a range of Spark's; None where all of it is published. ``exact``: it is not to reach beyond that range.
        Raises :class:`StaleCheckpointError`.
        """
        left = offset_ranges.left(newest, ranges)
        if left is None:
            raise StaleCheckpointError
        if not filled(left):
            return None
        if offset_ranges.grown(newest, left):
            # All of the old partitions' records come with the new one's.
            return Part(offset_ranges.with_drained(newest, left, self.log.ends))
        # What a part leaves of Spark's range may be a few records, as Spark shares a range out in another way.
        asked = left
        if (records_of(left) > MUCH or self._is_behind) and not exact:
            ends = self.log.ends(sorted({topic for topic, _ in left}))
            left = offset_ranges.reaching(newest, left, ends)
        if fresh(self._at_end, left):
            self._fresh_until = time.monotonic() + FRESH_FOR
        self._ends = {place: end for place, (_, end) in left.items()}
        # Whatever is little of Spark's range comes whole: the range is done with, however many others have much behind it.
        whole = asked if records_of(asked) <= MUCH else {}
        taken = part(left, self._limit(), whole)
        most = self.pipeline.spark.max_megabytes_per_batch * 2**20
        return Part(taken, most, self.pace.expected(records_of(taken)))

    def took(self, entry: Entry, read: Ranges, size: int) -> None:
        """A part is published. ``read``: what of it was read, as what tables that stand still leave in Kafka is not; ``size``: bytes
        that it took in memory (``Reading.size``).
        """
        self._at_end = frozenset(
            place
            for place, end in self._ends.items()
            if entry.ends.get(place, 0) >= end and not _waits(entry, place)
        )
        self._is_behind = any(
            entry.ends.get(place, 0) < self._ends.get(place, 0) for place in filled(read)
        )
        self.pace.took(records_of(filled(read)), size, entry.seconds)
        self._was_large = size >= freed_memory.LARGE

    def give_back(self) -> None:
        """What a large part has taken, once nobody holds it any more."""
        if self._was_large:
            freed_memory.give_back()
            self._was_large = False

    def _limit(self) -> int:
        """Records."""
        spark = self.pipeline.spark
        most = min(
            spark.max_changes_per_batch, self.pace.of_size(spark.max_megabytes_per_batch * 2**20)
        )
        return self.pace.asks(
            self.pace.fresh(most) if time.monotonic() < self._fresh_until else most
        )


def _waits(entry: Entry, place: Place) -> bool:
    """Whether some of what was passed over there is still to be applied, so that nothing that comes is fresh in the lake."""
    mark = entry.high_water.get(place)
    return mark is not None and mark.offset < entry.ends.get(place, 0)


def number(newest: Entry | None, spark_batch: int, checkpoint_id: str) -> int:
    """Which part of Spark's batch comes next."""
    if newest is None or (newest.checkpoint_id, newest.spark_batch) != (checkpoint_id, spark_batch):
        return 0
    return (newest.part or 0) + 1


class Records:
    """The records of a batch of Spark's. ``batch``: its DataFrame: ``record_stream.SCHEMA``, or where Spark keeps ``state`` the places of
    what it has not seen before (``envelope.PLACE``); ``late``: it has dropped all of them before we were called.
    """

    def __init__(
        self, log: Log, batch: DataFrame, ranges: Ranges, *, state: bool, late: bool
    ) -> None:
        self._log = log
        self._batch = batch
        self._ranges = ranges
        self._kept = _passed_through(batch) if state else None
        self._late = late

    def of(self, part: Part) -> SparkRecords:
        """How Spark gets a part's."""
        if self._kept is None:
            return SparkRecords(self._read)
        asked = not self._late and part.most is not None
        return SparkRecords(self._log.read, self._kept if asked else None)

    def _read(self, ranges: Ranges) -> DataFrame:
        return self._batch if filled(ranges) == filled(self._ranges) else self._log.read(ranges)

    def release(self) -> None:
        """Free what was kept."""
        if self._kept is not None:
            free(self._kept)


def _passed_through(batch: DataFrame) -> DataFrame:
    """The batch, computed once and kept, whatever is read of it: Spark commits its state while it is computed, and fails a query whose
    state was not committed for a batch (STATE_STORE_COMMIT_VALIDATION_FAILED).
    """
    kept = keep(batch)
    kept.write.format("noop").mode("overwrite").save()
    return kept
