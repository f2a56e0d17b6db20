"""Kafka's records brought to the driver, by librdkafka.

Which offsets a batch has is Spark's to say, and stands in its write-ahead log; who fetches them makes no
difference to what they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ingest import kafka
from ingest.config import Pipeline
from ingest.manifest import Place, filled
from ingest.ports import RUN_HEADER, Ranges

RECORDS = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("run", pa.string())])

_SETTINGS = {
    # What is fetched beyond a range is fetched again with the next one, so little is fetched ahead: 300,000
    # records come as fast as with 64 MiB (0.7 to 0.9 s), 2,000 of each of four partitions in 0.2 s, not 0.5.
    "fetch.message.max.bytes": 2**20,
    "queued.max.messages.kbytes": 16 * 2**10,
    # A full queue is looked at again after a second else.
    "fetch.queue.backoff.ms": 10,
    # How long the broker keeps an answer that would be empty; nothing is asked for between batches.
    "fetch.wait.max.ms": 10,
}

_RECORDS_AT_ONCE, _BYTES_AT_ONCE = 100_000, 64 * 2**20
"""What is handed over together; as much again waits in librdkafka's own queue meanwhile."""

_PATIENCE = 20.0
"""Seconds without any record."""


class FetchError(Exception):
    """Kafka does not give the records: Spark asks for them, and says why."""


class Fetcher:
    """One consumer for the life of a job; it fetches only while it is asked to."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._consumer: Consumer | None = None

    def records(self, ranges: Ranges) -> Iterator[dict[Place, pa.Table]]:
        """All records of these half-open ranges, some at a time, with :data:`RECORDS`; each partition's in their
        order. Raises :class:`FetchError`.
        """
        consumer = self._consumer = self._consumer or kafka.client(self._pipeline, _SETTINGS)
        ends = {place: end for place, (_, end) in filled(ranges).items()}
        starts = [TopicPartition(*place, ranges[place][0]) for place in sorted(ends)]
        consumer.assign(starts)
        try:
            yield from _parts(consumer, ends)
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


def _parts(consumer: Consumer, ends: Mapping[Place, int]) -> Iterator[dict[Place, pa.Table]]:
    left, found, heard = dict(ends), _Found(), time.monotonic()
    while left:
        messages = consumer.consume(4_000, timeout=0.01)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            place: Any = (message.topic(), message.partition())
            offset: Any = message.offset()
            if offset < left.get(place, 0):
                found.add(place, offset, message)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE:
            raise FetchError(f"no record of {min(left)} in {_PATIENCE:.0f} s")
        # Transaction markers take offsets without being records, so it is the position that counts.
        at = consumer.position([TopicPartition(*place) for place in left])
        done = [one for one in at if one.offset >= left[one.topic, one.partition]]
        if done:
            consumer.pause(done)
            for one in done:
                del left[one.topic, one.partition]
        if found.count >= _RECORDS_AT_ONCE or found.bytes >= _BYTES_AT_ONCE:
            yield found.tables()
            found = _Found()
    yield found.tables()


class _Found:
    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._columns: dict[Place, tuple[list[int], list[bytes | None], list[str | None]]] = {}

    def add(self, place: Place, offset: int, message: Any) -> None:
        value = message.value()
        columns = self._columns.get(place)
        if columns is None:
            columns = self._columns[place] = ([], [], [])
        columns[0].append(offset)
        columns[1].append(value)
        columns[2].append(_run(value, message))
        self.count += 1
        self.bytes += len(value or b"")

    def tables(self) -> dict[Place, pa.Table]:
        return {
            place: pa.table(list(columns), schema=RECORDS)
            for place, columns in self._columns.items()
        }


def _run(value: bytes | None, message: Any) -> str | None:
    """The connector run that wrote a snapshot's row, for that is all that it is asked of; looking at headers
    takes longer than at all else of a record.
    """
    if value is None or b'"r"' not in value:
        return None
    headers = dict(message.headers() or ())
    run = headers.get(RUN_HEADER)
    return run.decode() if isinstance(run, bytes) else None
