"""Kafka's records brought to the driver, by librdkafka.

Which offsets a batch has is Spark's to say, and stands in its write-ahead log; who fetches them makes no
difference to what they are.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from threading import Event
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.kafka.ports import RUN_HEADER, Ranges
from ingest.model.manifest import Place
from ingest.model.offset_ranges import filled

RECORDS = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("run", pa.string())])
"""``run``: the connector run that wrote a snapshot's row, "" where its record names none; null where nobody looked,
as of all but a partition's last snapshot row."""

_KEY = pa.field("key", pa.binary())

_NO_MORE = RECORDS.empty_table()

_SETTINGS = {
    # What is fetched beyond a range is fetched again with the next one, so little is fetched ahead: 300,000
    # records come as fast as with 64 MiB (0.7 to 0.9 s), 2,000 of each of four partitions in 0.2 s, not 0.5.
    # An answer has so much of each partition, compressed, and is unpacked as a whole: of ten of them a MiB each takes
    # 130 MB more, and is no faster (64 KiB are slower).
    "fetch.message.max.bytes": 2**18,
    "queued.max.messages.kbytes": 16 * 2**10,
    # A full queue is looked at again after a second else.
    "fetch.queue.backoff.ms": 10,
    # How long the broker keeps an answer that would be empty; nothing is asked for between batches.
    "fetch.wait.max.ms": 10,
}

_RECORDS_AT_ONCE, _BYTES_AT_ONCE = 10_000, 8 * 2**20
"""Of one partition what is handed over together: it is read while more is fetched, and what is read of it stays in
the processor's cache (5.9 µs a record; of 100,000 at once 7.2, of 1,000 7.3). One that is at its end is handed over
as it is."""

_KEPT = 64 * 2**20
"""Bytes of all partitions at which all are handed over as they are."""

_TOGETHER = 500
"""Messages that are made columns of together: few, so that they are still in the processor's cache."""

_OF_SNAPSHOT, _END = b'"op":"r"', 100
"""In the last bytes of every snapshot row's value, as Connect's converter writes it: three numbers of at most 20 digits
follow. Where they are not found, nobody has looked for its run, and the row is Spark's to read."""

_PATIENCE = 20.0
"""Seconds without any record."""


class FetchError(Exception):
    """Kafka does not give the records: Spark asks for them, and says why."""


def settings(pipeline: Pipeline) -> dict[str, Any]:
    """What a :class:`Fetcher` of a pipeline's records is made with, in this process or in another."""
    return {**broker.reading(pipeline), **_SETTINGS}


class Fetcher:
    """One consumer for the life of a job; it fetches only while it is asked to. ``settings``: as :func:`settings` has them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._consumer: Consumer | None = None

    def records(
        self, ranges: Ranges, enough: Event | None = None, keyed: Collection[str] = ()
    ) -> Iterator[dict[Place, pa.Table]]:
        """All records of these half-open ranges, some at a time, with :data:`RECORDS`, and ``key binary`` in the topics of
        ``keyed``; each partition's in their order, and then a table without rows: all of it has come. ``enough``: when it is
        set, what has come is handed over, and no more is fetched. Raises :class:`FetchError`.
        """
        ends = {place: end for place, (_, end) in filled(ranges).items()}
        starts = [TopicPartition(*place, ranges[place][0]) for place in sorted(ends)]
        try:
            consumer = self._consumer = self._consumer or broker.begun(self._settings)
            consumer.assign(starts)
        except KafkaException as failure:
            raise FetchError(str(failure.args[0])) from None
        try:
            yield from _parts(consumer, ends, enough or Event(), keyed)
        except KafkaException as failure:
            raise FetchError(str(failure.args[0])) from None
        finally:
            # A partition that is given up while it rests would rest for ever.
            consumer.resume(starts)
            consumer.unassign()

    def close(self) -> None:
        """Leave Kafka."""
        if self._consumer is not None:
            self._consumer.close()


_IN_WORKER: dict[str, Fetcher] = {}
"""The one connection of this process, by what it was made with: Spark keeps a worker from task to task."""


@dataclass(frozen=True)
class InWorker:
    """Brings records in whatever process it is called in (``ports.RecordSource``). ``settings``: passwords may be among them;
    ``keyed``: as :meth:`Fetcher.records` has it.
    """

    settings: Mapping[str, Any] = field(repr=False)
    keyed: Collection[str] = ()

    def __call__(self, ranges: Ranges, enough: Event) -> Iterator[dict[Place, pa.Table]]:
        """As :meth:`Fetcher.records` has it."""
        named = json.dumps(self.settings, sort_keys=True)
        if named not in _IN_WORKER:
            while _IN_WORKER:
                _IN_WORKER.popitem()[1].close()
            _IN_WORKER[named] = Fetcher(self.settings)
        return _IN_WORKER[named].records(ranges, enough, self.keyed)


def _parts(
    consumer: Consumer, ends: Mapping[Place, int], enough: Event, keyed: Collection[str]
) -> Iterator[dict[Place, pa.Table]]:
    left, found, heard = dict(ends), _Found(keyed), time.monotonic()
    while left:
        if enough.is_set():
            yield found.taken(list(left))
            return
        messages = consumer.consume(_TOGETHER, timeout=0.01)
        if failures := [message.error() for message in messages if message.error()]:
            raise KafkaException(failures[0])
        for place, some in groupby(messages, _place):  # they come a partition's at a time
            found.add(place, list(some), left.get(place, 0))
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE:
            raise FetchError(f"no record of {min(left)} in {_PATIENCE:.0f} s")
        # Transaction markers take offsets without being records, so it is the position that counts.
        at = consumer.position([TopicPartition(*place) for place in left])
        done = [one for one in at if one.offset >= left[one.topic, one.partition]]
        if done:
            consumer.pause(done)
            places = [(one.topic, one.partition) for one in done]
            for place in places:
                del left[place]
            yield found.taken(places)
            yield dict.fromkeys(places, _NO_MORE)
        if ready := found.ready():
            yield found.taken(ready)


def _place(message: Message) -> Any:
    return message.topic(), message.partition()


class _Found:
    """What came and was not handed over yet. ``keyed``: topics of which keys are wanted."""

    def __init__(self, keyed: Collection[str]) -> None:
        self._keyed = keyed
        self._pieces: dict[Place, _Piece] = {}

    def add(self, place: Place, messages: Sequence[Message], end: int) -> None:
        """Messages of one partition, in order; those from ``end`` on are the next batch's."""
        offsets: list[Any] = [message.offset() for message in messages]
        if offsets[-1] >= end:
            messages = messages[: bisect_left(offsets, end)]
        if not messages:
            return
        values: list[Any] = [message.value() for message in messages]
        columns = [offsets[: len(values)], values, _runs(messages, values)]
        schema = RECORDS
        if place[0] in self._keyed:
            columns.append([message.key() for message in messages])
            schema = RECORDS.append(_KEY)
        arrays = [
            pa.array(column, type_) for column, type_ in zip(columns, schema.types, strict=True)
        ]
        self._pieces.setdefault(place, _Piece()).add(pa.record_batch(arrays, schema=schema))

    def ready(self) -> list[Place]:
        """Partitions of which enough has come."""
        if sum(piece.bytes for piece in self._pieces.values()) >= _KEPT:
            return list(self._pieces)
        return [place for place, piece in self._pieces.items() if piece.is_full]

    def taken(self, places: Iterable[Place]) -> dict[Place, pa.Table]:
        """All of these partitions' that there is."""
        return {
            place: pa.Table.from_batches(self._pieces.pop(place).batches)
            for place in places
            if place in self._pieces
        }


@dataclass
class _Piece:
    """Of one partition."""

    records: int = 0
    bytes: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.records += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def is_full(self) -> bool:
        return self.records >= _RECORDS_AT_ONCE or self.bytes >= _BYTES_AT_ONCE


def _runs(messages: Sequence[Message], values: Sequence[bytes | None]) -> list[str | None]:
    """The last snapshot row's, "" where it names none. Looking at a record's headers takes longer than at all else
    of it.
    """
    runs: list[str | None] = [None] * len(values)
    if b"".join(filter(None, values)).rfind(_OF_SNAPSHOT) < 0:  # in half the time of a look at each
        return runs
    for place in reversed(range(len(values))):
        if _OF_SNAPSHOT in (values[place] or b"")[-_END:]:
            run = dict(messages[place].headers() or ()).get(RUN_HEADER)
            runs[place] = run.decode() if isinstance(run, bytes) else ""
            break
    return runs
