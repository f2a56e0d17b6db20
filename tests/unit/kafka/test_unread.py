"""What a topic holds is read to its end, and not waited for without one where Kafka goes away."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ingest.kafka import broker

PLACE = TopicPartition("p", 0)


class Consumer:
    """Of a topic that ends at 3; ``gets``: what each poll brings, None for nothing, and then nothing for ever."""

    def __init__(self, *gets):
        self.at, self.gets, self.paused = 0, list(gets), False

    def get_watermark_offsets(self, place, timeout):
        return 0, 3

    def position(self, places):
        return [SimpleNamespace(offset=self.at)]

    def resume(self, places):
        self.paused = False

    def pause(self, places):
        self.paused = True

    def poll(self, seconds):
        got = self.gets.pop(0) if self.gets else None
        self.at += got is not None
        return got


@pytest.fixture
def clock(monkeypatch):
    """Each look at it is ten seconds later than the one before."""
    now = iter(range(0, 10_000, 10))
    monkeypatch.setattr(broker, "time", SimpleNamespace(monotonic=lambda: float(next(now))))


def test_what_comes_slowly_is_read_to_its_end(clock):
    consumer = Consumer("a", None, None, "b", None, None, "c")
    assert list(broker.unread(consumer, PLACE)) == ["a", "b", "c"]
    assert consumer.paused


def test_a_kafka_that_goes_away_between_its_end_and_its_records_is_not_waited_for(clock):
    with pytest.raises(KafkaException) as stood:
        list(broker.unread(Consumer("a"), PLACE))
    assert stood.value.args[0].code() == KafkaError._TIMED_OUT
