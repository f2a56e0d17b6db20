"""Kafka as a client: end offsets, committed offsets, and the schema-change topic."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import client_settings
from ingest.model.epochs import Epoch, epoch_of
from ingest.model.errors import THE_EMBEDDED_ONE, Exit, IngestError
from ingest.model.manifest import Place
from ingest.model.names import consumer_group
from ingest.model.start_facts import KafkaFacts
from ingest.schema import catalog

_TIMEOUT = 10.0


class Silent:
    """A logger for librdkafka that says nothing."""

    def log(self, *_: object, **__: object) -> None:
        """Librdkafka would print on stderr what we raise."""


def client(pipeline: Pipeline, settings: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer that sees committed records only and commits nothing by itself."""
    return begun({**reading(pipeline), **(settings or {})})


def begun(settings: Mapping[str, Any]) -> Consumer:
    """A consumer with :func:`reading`'s settings, in whatever process."""
    try:
        return Consumer({**settings}, logger=Silent())
    except KafkaException as failure:
        if failure.args[0].code() == KafkaError._INVALID_ARG:
            raise _refused(failure) from None
        raise


def reading(pipeline: Pipeline) -> dict[str, Any]:
    """What a consumer is made with that sees committed records only and commits nothing by itself."""
    return {
        **connection(pipeline),
        "group.id": consumer_group(pipeline.name),
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.message.max.bytes": 33_554_432,
        "allow.auto.create.topics": False,
    }


def connection(pipeline: Pipeline) -> dict[str, Any]:
    """What every client of the pipeline's Kafka needs."""
    return {
        "bootstrap.servers": pipeline.kafka.bootstrap_servers,
        "socket.connection.setup.timeout.ms": 5_000,
        **client_settings.of_librdkafka(pipeline.kafka),
        **pipeline.kafka.properties,
    }


def refuse_away(pipeline: Pipeline) -> None:
    """Raise :class:`IngestError` when the broker does not answer, or not us."""
    said = list[KafkaError]()
    consumer = client(pipeline, {"error_cb": said.append})
    try:
        consumer.list_topics(timeout=_TIMEOUT / 2)
    except KafkaException as failure:
        # That it asked in vain is all that the last failure says; why is said beside, to who asks for it.
        consumer.poll(0.1)
        denied = next((one for one in said if one.code() in _DENIED), None)
        raise (_denied(pipeline, denied) if denied else away(pipeline, failure)) from None
    finally:
        consumer.close()


_DENIED = (KafkaError._AUTHENTICATION, KafkaError._SSL)


def _denied(pipeline: Pipeline, why: KafkaError) -> IngestError:
    whole = re.sub(r"^.*?/bootstrap: | \(after [^)]*\)$", "", why.str())
    return IngestError(
        "E-KAFKA-DENIED",
        f"Kafka at {pipeline.kafka.bootstrap_servers} and this pipeline do not let each other in: {whole.rstrip('.')}.",
        means="Nothing was read or written.",
        remedy="correct `kafka.security` in the pipeline file: `user` and `password` for a login, `ca` for a certificate.",
    )


def _refused(failure: KafkaException) -> IngestError:
    return IngestError(
        "E-KAFKA-PROPERTY",
        f"Kafka's client does not take a setting of the pipeline file: {failure.args[0].str().rstrip('.')}.",
        means="Nothing was read or written.",
        remedy="correct `kafka.security`, or `kafka.properties`, whose names librdkafka and Java both have to know.",
    )


def away(pipeline: Pipeline, failure: KafkaException) -> IngestError:
    """What a failure of a client means that nothing else is known of."""
    return IngestError(
        "E-KAFKA-AWAY",
        f"Kafka at {pipeline.kafka.bootstrap_servers} does not answer: {failure.args[0].str()}.",
        means="Nothing was read or written.",
        remedy=f"start it ({THE_EMBEDDED_ONE}) or correct `kafka.bootstrap_servers`.",
        may_pass=True,
    )


def end_offsets(
    pipeline: Pipeline, topics: Iterable[str], *, committed: bool = True
) -> dict[tuple[str, int], int]:
    """Where each partition's committed records end now (the last stable offset), or else all of its records."""
    found = spans(pipeline, topics, committed=committed)
    return {place: end for place, (_, end) in found.items()}


def first_offsets(pipeline: Pipeline, topics: Iterable[str]) -> dict[Place, int]:
    """Where each partition's records begin that Kafka still has."""
    return {place: first for place, (first, _) in spans(pipeline, topics).items()}


def spans(
    pipeline: Pipeline, topics: Iterable[str], *, committed: bool = True
) -> dict[Place, tuple[int, int]]:
    """What Kafka has of each partition, half-open, of those of these topics that are there: its committed records, or all of them."""
    consumer = client(pipeline, None if committed else {"isolation.level": "read_uncommitted"})
    try:
        known = consumer.list_topics(timeout=_TIMEOUT).topics
        return {
            (topic, partition): consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=_TIMEOUT
            )
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        }
    except KafkaException as failure:
        raise away(pipeline, failure) from None
    finally:
        consumer.close()


def ensure_topic(pipeline: Pipeline, name: str) -> None:
    """Create a small topic of one partition, when it is not there."""
    admin = AdminClient(connection(pipeline), logger=Silent())
    made = admin.create_topics([NewTopic(name, 1, pipeline.kafka.replication_factor)])
    try:
        made[name].result(_TIMEOUT)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise away(pipeline, failure) from None


def partitions(pipeline: Pipeline) -> dict[Place, KafkaFacts]:
    """Every partition of the pipeline's data topics as it is now: first offset, end, topic id."""
    described = _described(pipeline, data_topics(pipeline))
    consumer = client(pipeline)
    try:
        found = {}
        for name, topic in described.items():
            for partition in topic.partitions:
                place = TopicPartition(name, partition.id)
                low, high = consumer.get_watermark_offsets(place, timeout=_TIMEOUT)
                found[(name, partition.id)] = KafkaFacts(low, high, str(topic.topic_id))
    except KafkaException as failure:
        raise away(pipeline, failure) from None
    else:
        return found
    finally:
        consumer.close()


def topic_ids(pipeline: Pipeline, topics: Sequence[str]) -> dict[str, str]:
    """Kafka's own ids: a topic that was made again under its old name has another."""
    return {name: str(topic.topic_id) for name, topic in _described(pipeline, topics).items()}


def _described(pipeline: Pipeline, topics: Sequence[str]) -> dict[str, Any]:
    """Kafka's description of each topic; one that was deleted since it was listed is left out."""
    if not topics:
        return {}
    admin = AdminClient(connection(pipeline), logger=Silent())
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT)
    found = {}
    for name, answer in asked.items():
        try:
            found[name] = answer.result()
        except KafkaException as failure:
            # Anything else is no statement about the topic; taken for a deletion, a broker that is
            # slow to answer would become a gap.
            if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise away(pipeline, failure) from None
    return found


def data_topics(pipeline: Pipeline) -> list[str]:
    """Topics of the pipeline's tables that exist now."""
    consumer = client(pipeline)
    try:
        return sorted(
            name
            for name in consumer.list_topics(timeout=_TIMEOUT).topics
            if name.startswith(pipeline.topic_prefix) and name.count(".") >= 2
        )
    except KafkaException as failure:
        raise away(pipeline, failure) from None
    finally:
        consumer.close()


class GroupOffsets:
    """Offsets committed for Kafka's own lag tools. Never read back: the manifest is the truth."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._consumer = client(pipeline)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit; a failure here costs an ordinary lag tool some accuracy and the lake nothing."""
        places = [TopicPartition(t, p, offset) for (t, p), offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()


FOLLOWING = {"fetch.wait.max.ms": 50, "enable.partition.eof": True}
"""Settings of a client that follows a topic by :func:`unread`."""


STANDS_STILL = 30.0
"""Seconds in which a client that reads gets nothing of what is there, upon which Kafka is away: librdkafka itself would try for ever."""


def unread(
    consumer: Consumer, place: TopicPartition, *, begun_at: int = 0, passes_over: bool = False
) -> Iterator[Message]:
    """What a consumer has not read yet of everything committed so far; errors are messages, too. ``begun_at``: the offset that it was assigned;
    ``passes_over``: go on with what is there where Kafka has let go of some of it (its retention), or the topic was made again and does not reach
    so far; without, either is a failure.

    A consumer always has a fetch under way, which the broker answers when there is something or half a
    second has passed, and it answers nothing else on that connection before. So it rests between looks.
    Transaction markers take offsets without being records, so the position counts, not the offset of the
    last record seen. Raises ``KafkaException`` where it stands still, where records are gone that it had not read, and where the topic ends before what it
    has read.
    """
    first, end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT)
    at = _position(consumer, place, begun_at)
    if not first <= at <= end:
        if not passes_over:
            gone = "records are gone that were not read" if at < first else _MADE_AGAIN
            raise KafkaException(KafkaError(KafkaError._AUTO_OFFSET_RESET, gone))
        at = begun_at = first
        consumer.assign([TopicPartition(place.topic, place.partition, first)])
    if at < end:
        consumer.resume([place])
        seen, since = -1, time.monotonic()
        while (at := _position(consumer, place, begun_at)) < end:
            now = time.monotonic()
            if at > seen:
                seen, since = at, now
            elif now - since > STANDS_STILL:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            message = consumer.poll(0.05)
            if message is None:
                continue
            failure = message.error()
            if failure is None or failure.code() != KafkaError._PARTITION_EOF:
                yield message
            elif (message.offset() or 0) >= end:
                break  # only markers of transactions were left, which move no position before the first record
        consumer.pause([place])


_MADE_AGAIN = (
    "it ends before what was read of it: it was deleted and made again, or has lost its end"
)


def _position(consumer: Consumer, place: TopicPartition, begun_at: int = 0) -> int:
    at: int = consumer.position([place])[0].offset
    return at if at >= 0 else begun_at  # below 0 while nothing was read


class SchemaTopic:
    """Debezium's schema-change topic, read from its beginning and followed."""

    def __init__(self, pipeline: Pipeline, epochs: Sequence[Epoch] = ()) -> None:
        self._topic = pipeline.name
        self._consumer = client(pipeline, FOLLOWING)
        self._epochs = epochs
        self._assigned = False
        self.catalog = catalog.Catalog()
        self.offset = 0

    def read_to_end(self) -> None:
        """Take in everything committed to the topic so far."""
        place = TopicPartition(self._topic, 0)
        try:
            if not self._assigned:
                if self._topic not in self._consumer.list_topics(timeout=_TIMEOUT).topics:
                    return
                self._consumer.assign([TopicPartition(self._topic, 0, 0)])
                self._assigned = True
            for message in unread(self._consumer, place):
                self._take(message)
            self.offset = max(self.offset, _position(self._consumer, place))
        except KafkaException as failure:
            raise IngestError(
                "E-KAFKA-SCHEMA-TOPIC",
                f"The schema-change topic {self._topic!r} cannot be read: {failure.args[0].str()}.",
                means="The batch was not applied; its changes stay in Kafka.",
                remedy="see that Kafka is up and the topic is kept for ever (retention.ms=-1), "
                "then run again.",
                exit_code=Exit.FAILED,
                may_pass=True,
            ) from None

    def _take(self, message: object) -> None:
        failure = message.error()  # type: ignore[attr-defined]
        if failure:
            raise KafkaException(failure)
        value = message.value()  # type: ignore[attr-defined]
        if value is None:
            return
        try:
            record = catalog.parse_record(value)
        except ValueError:
            raise IngestError(
                "E-SCHEMA-RECORD",
                f"Offset {message.offset()} of the schema-change topic "  # type: ignore[attr-defined]
                f"{self._topic!r} is not a schema-change record.",
                means="From there on the columns and types of a table are not known, and values could be decoded wrongly; "
                "nothing was applied.",
                remedy="find out who else writes to that topic; only Debezium may.",
                exit_code=Exit.FAILED,
            ) from None
        offset = message.offset()  # type: ignore[attr-defined]
        self.catalog.add(record, epoch_of(self._epochs, (self._topic, 0), offset), offset)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()
