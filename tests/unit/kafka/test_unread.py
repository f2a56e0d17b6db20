"""What a topic holds is read to its end, and not waited for without one where Kafka goes away."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ingest.kafka import broker

PLACE = TopicPartition("p", 0)


class Record(str):
    """One that tells no failure."""

    __slots__ = ()

    def error(self):
        return None


A, B, C = map(Record, "abc")
AT_ITS_END = SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF), offset=lambda: 3)


class Consumer:
    """Of a topic that ends at 3; ``gets``: what each poll brings, None for nothing, and then nothing for ever; ``first``: what is there still."""

    def __init__(self, *gets, first=0, at=0):
        self.at, self.gets, self.paused, self.first = at, list(gets), False, first

    def get_watermark_offsets(self, place, timeout):
        return self.first, 3

    def assign(self, places):
        self.at = places[0].offset

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
    consumer = Consumer(A, None, None, B, None, None, C)
    assert list(broker.unread(consumer, PLACE)) == ["a", "b", "c"]
    assert consumer.paused


def test_a_kafka_that_goes_away_between_its_end_and_its_records_is_not_waited_for(clock):
    with pytest.raises(KafkaException) as stood:
        list(broker.unread(Consumer(A), PLACE))
    assert stood.value.args[0].code() == KafkaError._TIMED_OUT


NOTHING_READ_YET = -1001


def test_where_records_are_gone_that_were_not_read_it_says_so_or_goes_on_behind_them(clock):
    with pytest.raises(KafkaException) as gone:
        list(broker.unread(Consumer(C, first=2, at=1), PLACE))
    assert gone.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    assert list(broker.unread(Consumer(C, first=2, at=1), PLACE, passes_over=True)) == ["c"]
    assert list(broker.unread(Consumer(first=3, at=1), PLACE, passes_over=True)) == []


def test_who_was_given_a_place_and_has_read_nothing_yet_is_there(clock):
    at_its_end = Consumer(at=NOTHING_READ_YET)
    assert list(broker.unread(at_its_end, PLACE, begun_at=3)) == []


def test_where_only_a_transaction_s_marker_is_left_nobody_waits_for_a_record(clock):
    consumer = Consumer(AT_ITS_END, first=2, at=NOTHING_READ_YET)
    assert list(broker.unread(consumer, PLACE, passes_over=True)) == []
    assert consumer.paused


def test_where_the_topic_ends_before_what_was_read_it_says_so_or_begins_again(clock):
    with pytest.raises(KafkaException) as gone:
        list(broker.unread(Consumer(at=4), PLACE))
    assert "made again" in gone.value.args[0].str()
    made_again = Consumer(A, B, C, at=4)
    assert list(broker.unread(made_again, PLACE, begun_at=4, passes_over=True)) == ["a", "b", "c"]
