"""Changes read in the driver, by Arrow.

Up to millions of changes, Spark needs longer to plan and compile the decoding than Arrow needs for all of it.
What is here is only the plain: tables with a key, changes that come for the first time, values that are what
Debezium writes. A topic with anything else in this batch is left to Spark, which has a reason for it, a place to
set it aside, and every rule (``envelope``, ``dedup``, ``row_images``, ``held_back``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from threading import Event

import pyarrow as pa

from ingest.arrow import pieces
from ingest.arrow.gathered import Gathered
from ingest.arrow.pieces import Before, Read
from ingest.batch.plain_request import PlainRequest
from ingest.batch.record_reader import Reading
from ingest.kafka.fetch import FetchError
from ingest.kafka.ports import Log, Ranges
from ingest.model import reasons
from ingest.model.epochs import Epoch
from ingest.model.manifest import Place

MAX_BYTES = 2**30
"""Of one batch's typed rows; more are Spark's, which spills to disk where Python would run out of memory."""

AHEAD = 64 * 2**20
"""Bytes of records that wait to be read while more are fetched."""


def read(
    log: Log, request: PlainRequest, epochs: Sequence[Epoch], pool: Executor
) -> tuple[Reading, dict[str, str]]:
    """What can be read of a batch here, and the topics that are left to Spark, each with why."""
    wanted = request.wanted
    found = _Found(request.befores, epochs, request.gathered())
    if not wanted:
        return Reading(), found.gathered.others
    cut, enough = dict[Place, int](), Event()
    try:
        for records in log.bring(wanted, enough, request.keyed):
            found.take(records, pool)
            if found.gathered.bytes > MAX_BYTES:
                return Reading(), request.all_for(reasons.MANY_ROWS.of())
            if all(map(found.gathered.is_over, wanted)):
                break
            if request.most is not None and found.expected >= request.most:
                enough.set()  # what has come of others is brought: thrown away each time, it would never be read
        if enough.is_set():
            cut = found.cut(wanted)
        found.settle()
    except FetchError as failure:
        return Reading(), request.all_for(reasons.NOT_FETCHED.of(words=failure))
    ends = request.settle(found.gathered, cut)
    return replace(found.result(pool), cut=ends), found.gathered.others


@dataclass(frozen=True)
class _Begun:
    """Records of one partition that are being read."""

    place: Place
    bytes: int
    future: Future[Read]


@dataclass
class _Found:
    """What was read so far."""

    befores: Mapping[str, Before]
    epochs: Sequence[Epoch]
    gathered: Gathered
    _of: int = 0
    """Bytes of the records that were read."""
    _ends: dict[Place, int] = field(default_factory=dict)
    """Where what was taken of each partition ends."""
    _whole: set[Place] = field(default_factory=set)
    """Partitions of which no record is left."""
    _begun: deque[_Begun] = field(default_factory=deque)

    def take(self, records: Mapping[Place, pa.Table], pool: Executor) -> None:
        """Some records of any partitions, each partition's in a thread, while the next ones are fetched."""
        for place, part in records.items():
            if not part.num_rows:
                self._whole.add(place)
            elif not self.gathered.is_over(place):
                self._ends[place] = part["offset"][-1].as_py() + 1
                read = pool.submit(pieces.read, place, part, self.befores[place[0]], self.epochs)
                self._begun.append(_Begun(place, part.nbytes, read))
        self.settle(AHEAD)

    def cut(self, wanted: Ranges) -> dict[Place, int]:
        """Partitions of which not all of these ranges was taken, and where it ends."""
        ends = {place: self._ends.get(place, start) for place, (start, _) in wanted.items()}
        return {
            place: ends[place]
            for place, (_, end) in wanted.items()
            if place not in self._whole and ends[place] < end
        }

    def settle(self, but: int = 0) -> None:
        """Wait for what was taken, all but so many bytes of it."""
        while self._unread > but:
            one = self._begun.popleft()
            self.gathered.add(one.place, one.future.result())
            self._of += one.bytes

    @property
    def expected(self) -> int:
        """Bytes of rows, those among them that the records taken last will be, if they are like the ones before. Rows of a
        few numbers are a tenth of their records, those of long texts nearly all of them.
        """
        read = self.gathered.bytes
        rows = read / self._of if self._of else 1.0
        return read + int(rows * self._unread)

    @property
    def _unread(self) -> int:
        """Bytes of the records that are being read."""
        return sum(one.bytes for one in self._begun)

    def result(self, pool: Executor) -> Reading:
        """All that was read of topics that are not left to Spark."""
        facts = self.gathered.facts()
        return Reading.by_arrow(facts, self.gathered.rows(pool), "driver")
