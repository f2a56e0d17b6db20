"""What a batch holds: its plain changes read in the driver, all others by Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ingest.batch.plain_reader import PlainReader
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest, RecordReader
from ingest.batch.spark_reader import SparkReader
from ingest.batch.stage_times import Stopwatch

READERS: tuple[Callable[[ReaderJob], RecordReader], ...] = (
    PlainReader,
    SparkReader,
)
"""Each reads of a batch what those before it have left. The last leaves nothing."""


class Reader:
    """Reads batches of one job."""

    def __init__(self, job: ReaderJob) -> None:
        self._readers = [begun(job) for begun in READERS]

    def read(self, request: ReadRequest, watch: Stopwatch) -> Reading:
        """All of it, by as many readers as it takes. Where one has read some, the next is asked for the rest alone."""
        reading, left = None, dict[str, str]()
        for reader in self._readers:
            found, rest = reader.read(request, watch)
            if found is not None:
                reading = found if reading is None else reading.joined(found)
                if not rest:
                    break
                request = request.up_to(found.cut)
                if found.facts:
                    request = request.of(rest)
            left = {**rest}
        assert reading is not None, "the last reader reads everything"
        return replace(reading, left=left)

    def release(self) -> None:
        """Free what was kept for a batch."""
        for reader in self._readers:
            reader.release()
