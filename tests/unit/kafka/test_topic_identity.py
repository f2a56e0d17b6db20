"""A topic that is deleted, made again and filled beyond what was read of it looks to Spark like the one that it was."""

from pathlib import Path

import pytest

from ingest.job.stream_failure import again
from ingest.kafka import topic_identity
from ingest.kafka.topic_identity import TopicIdentity, TopicMadeAgainError
from ingest.model import restart_reasons
from tests.support.sound_start import entry


@pytest.fixture
def later(monkeypatch):
    """Lets so many seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(topic_identity.time, "monotonic", lambda: now[0])

    def passed(seconds):
        now[0] += seconds

    return passed


def test_a_topic_under_another_id_is_noticed_and_decided_upon_once(later):
    ids, asked = {"p.d.t": "T"}, []

    def of(topics):
        asked.append(topics)
        return ids

    topics = TopicIdentity(of)
    topics.refuse_made_again(None)
    topics.refuse_made_again(entry())
    topics.refuse_made_again(entry())
    assert asked == [["p.d.t"]], "now and then"
    ids["p.d.t"] = "another"
    later(topic_identity.LOOK_EVERY)
    with pytest.raises(TopicMadeAgainError, match=r"p\.d\.t"):
        topics.refuse_made_again(entry())
    later(topic_identity.LOOK_EVERY)
    topics.refuse_made_again(entry())


def test_one_that_is_deleted_or_has_no_name_yet_says_nothing(later):
    TopicIdentity(lambda _: {}).refuse_made_again(entry())
    TopicIdentity(lambda _: pytest.fail("asked")).refuse_made_again(entry(high_water={}))


def test_the_run_decides_anew_as_where_records_are_lost():
    found = again(TopicMadeAgainError("p.d.t"), Path("spark.log"))
    assert found.code == restart_reasons.LOST_RECORDS.code
