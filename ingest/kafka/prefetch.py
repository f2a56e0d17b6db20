"""What the first batch of a start will read, fetched while Spark starts.

That takes seconds, in which a third of two processors rests (docs/performance.md). It is a guess that nothing depends
on: a batch's ranges are Spark's to say, and what was fetched is used where it begins where the batch does, in the very
topic by Kafka's own id. All else is fetched when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event

import pyarrow as pa

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker, fetch
from ingest.kafka.fetch import Fetcher
from ingest.kafka.lane import LaneFacts, lane
from ingest.kafka.ports import Ranges
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Place
from ingest.model.offset_ranges import part, records_of
from ingest.model.start_facts import KafkaFacts

_MOST = 256
"""MiB of records that are kept: what comes in the seconds of a start. With more of them Spark waits longer for a processor
than the batch is shorter for.
"""


@dataclass
class _Stretch:
    """Records of one partition: all from ``start`` on, up to where they end."""

    start: int
    topic_id: str
    pieces: deque[pa.Table] = field(default_factory=deque)

    @property
    def end(self) -> int:
        """Behind it there may be transaction markers, which are no records."""
        return int(self.pieces[-1]["offset"][-1].as_py()) + 1 if self.pieces else self.start


class Ahead:
    """The records of one job's batches; those of its first one may have come before they are asked for."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._settings = fetch.settings(pipeline)
        self._fetcher = Fetcher(self._settings)
        self._enough = Event()
        self._found: dict[Place, _Stretch] = {}
        self._begun: Future[None] | None = None

    def begin(self, topics: Collection[str]) -> None:
        """Fetch in a thread what the first batch is likely to have of these topics, until records are asked for."""
        thread = ThreadPoolExecutor(1, "ahead")
        self._begun = thread.submit(self._fetch, topics)
        thread.shutdown(wait=False)

    def records(
        self, ranges: Ranges, enough: Event | None = None, keyed: Collection[str] = ()
    ) -> Iterator[Mapping[Place, pa.Table]]:
        """As :meth:`Fetcher.records` has it, which brings what has not come yet."""
        came = self._usable({one: r for one, r in ranges.items() if one[0] not in keyed})
        rest = dict(ranges)
        for place, stretch in came.items():
            end = ranges[place][1]
            rest[place] = (min(stretch.end, end), end)
        while came:
            place, stretch = came.popitem()
            while stretch.pieces:  # each is let go of once it is handed over
                records = _below(stretch.pieces.popleft(), ranges[place][1])
                if records.num_rows:
                    yield {place: records}
        yield from self._renewed().records(rest, enough, keyed)

    def forget(self) -> None:
        """The first batch is over: what it did not ask for is of no use."""
        self._taken()

    def close(self) -> None:
        """End the thread, and leave Kafka."""
        self._taken()
        self._fetcher.close()

    def _renewed(self) -> Fetcher:
        """Made with the password and certificates of now: a job may run longer than they are good for. Where they cannot be read at this
        moment, those of before may do.
        """
        with suppress(IngestError):
            if (now := fetch.settings(self._pipeline)) != self._settings:
                self._fetcher.close()
                self._settings, self._fetcher = now, Fetcher(now)
        return self._fetcher

    def _usable(self, ranges: Ranges) -> dict[Place, _Stretch]:
        """What came of these ranges, in the topics that have their names now."""
        came = self._taken()
        ids = broker.topic_ids(self._pipeline, sorted({topic for topic, _ in came}))
        return {
            place: stretch
            for place, stretch in came.items()
            if place in ranges
            and stretch.start == ranges[place][0]
            and stretch.topic_id == ids.get(place[0])
        }

    def _taken(self) -> dict[Place, _Stretch]:
        """What has come; the thread has ended."""
        self._enough.set()
        if self._begun is not None:
            # What failed there fails again where it counts, and is said there.
            wait([self._begun])
            self._begun = None
        found, self._found = self._found, {}
        return found

    def _fetch(self, topics: Collection[str]) -> None:
        newest = Ledger(self._pipeline.lake.path).last()
        there = broker.partitions(self._pipeline)
        limit = self._pipeline.spark.max_changes_per_batch
        every = expected(newest.ends if newest else {}, there, limit)
        ranges = {place: range_ for place, range_ in every.items() if place[0] in topics}
        self._found = {
            place: _Stretch(start, there[place].topic_id) for place, (start, _) in ranges.items()
        }
        if lane(LaneFacts.of(self._pipeline, records_of(ranges), 0)) != "driver":
            return  # Spark's tasks know nothing of what has come here
        kept, most = 0, min(self._pipeline.spark.max_megabytes_per_batch, _MOST) * 2**20
        for records in self._fetcher.records(ranges, self._enough):
            for place, piece in records.items():
                if piece.num_rows:
                    self._found[place].pieces.append(piece)
                kept += piece.nbytes
            if kept >= most:
                self._enough.set()


def expected(
    ends: Mapping[Place, int], there: Mapping[Place, KafkaFacts], limit: int
) -> dict[Place, tuple[int, int]]:
    """The first batch's ranges where nothing else happens: ``ends`` is where the newest batch ended, ``limit`` how many
    records a batch has at most, which are shared out as ``offset_ranges.part`` has it.
    """
    starts = {place: ends.get(place, facts.earliest) for place, facts in there.items()}
    waiting = {
        place: (start, there[place].end)
        for place, start in starts.items()
        if there[place].earliest <= start < there[place].end
    }
    return part(waiting, limit)


def _below(records: pa.Table, end: int) -> pa.Table:
    offsets = records["offset"]
    if offsets[-1].as_py() < end:
        return records
    return records.slice(0, bisect_left(offsets.to_pylist(), end))
