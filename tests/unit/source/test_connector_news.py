"""What is told of a connector: a trouble once, its end once and only when records come."""

import itertools
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.errors import IngestError
from ingest.source import supervisor
from ingest.source.connector import Status
from ingest.source.connector_news import (
    FIRST_REMINDER,
    LONGEST_SILENCE,
    Look,
    News,
    delivers,
    span,
    told,
)
from ingest.source.supervisor import LOOK_EVERY, Supervisor

AGAIN = "the connector is delivering again"
SENTENCES = (
    "MySQL at h:3306 cannot be reached: Connection refused.",
    "the connector's task has failed: Communications link failure",
    "the connector says RUNNING, but MySQL has had no binlog stream of it for 23 s",
    "Kafka Connect at http://h:8083 does not answer: timed out.",
)


def sentences(looks):
    """What is told at each of these looks."""
    news, found = News(), []
    for look in looks:
        news, said = told(news, look)
        found.append(said)
    return found


def seen(*, minutes=None, of, every=3.0, start=0.0):
    """The same look again and again."""
    count = int(minutes * 60 / every) if minutes else 1
    return [Look(start + every * n, **of) for n in range(count)]


@st.composite
def histories(draw):
    """Looks some seconds apart, of every kind, mostly several of one kind after each other."""
    at, looks = 0.0, []
    for _ in range(draw(st.integers(1, 12))):
        wrong = tuple(draw(st.lists(st.sampled_from(SENTENCES), max_size=2, unique=True)))
        runs, streams = draw(st.booleans()), draw(st.booleans())
        moves = draw(st.sampled_from(["streams", "stands still", "moves"]))
        for number in range(draw(st.integers(1, 60))):
            at += draw(st.sampled_from([3.0, 3.5, 30.0]))
            seconds = str(int(at))
            said = tuple(one.replace("23", seconds) for one in wrong)
            place = {"streams": None, "stands still": {"row": 1}, "moves": {"row": number}}[moves]
            looks.append(Look(at, said, runs, streams, place))
    return looks


def kind(sentence):
    return re.sub(r"\d+", "#", sentence)


@given(histories())
def test_it_is_never_said_to_deliver_again_unless_that_was_seen_after_something_was_wrong(looks):
    in_trouble = False
    for before, look, said in zip([None, *looks], looks, sentences(looks), strict=False):
        if any(one.startswith(AGAIN) for one in said):
            assert said == (said[0],)
            assert in_trouble
            assert not look.wrong
            assert not before.wrong
            assert before.runs
            assert look.runs
            assert (before.streams and look.streams) or look.place != before.place
            in_trouble = False
        in_trouble = in_trouble or bool(look.wrong)


@given(histories())
def test_each_change_is_told_at_once_and_once(looks):
    known, in_trouble = set(), False
    for before, look, said in zip([None, *looks], looks, sentences(looks), strict=False):
        fresh = {kind(one) for one in look.wrong} - known
        assert {kind(one) for one in said if one in look.wrong} == fresh
        if in_trouble and delivers(before, look):
            assert said[0].startswith(AGAIN)
            known, in_trouble = set(), False
        known, in_trouble = known | fresh, in_trouble or bool(fresh)


@given(histories())
def test_a_trouble_is_told_again_at_growing_intervals_and_nothing_is_told_of_none(looks):
    since = last = None
    gaps = []
    for look, said in zip(looks, sentences(looks), strict=True):
        if since is None and not look.wrong:
            assert said == ()
        if since is None and look.wrong:
            since = last = look.at
            gaps = [FIRST_REMINDER]
        for one in said:
            if one.startswith(AGAIN):
                since = None
            elif one not in look.wrong:
                assert f"for {span(look.at - since)}" in one
                assert look.at - last >= gaps[-1]
                gaps.append(min(gaps[-1] * 2, LONGEST_SILENCE))
                last = look.at


def test_a_night_without_mysql_is_told_in_a_few_lines():
    away = {"wrong": (SENTENCES[0],), "runs": True}
    said = list(itertools.chain(*sentences(seen(minutes=600, of=away))))
    assert said[0] == SENTENCES[0]
    assert said[1] == f"the connector has not delivered for 60 s: {SENTENCES[0][:-1]}"
    assert said[2].startswith("the connector has not delivered for 3 min: MySQL")
    assert said[-1].startswith("the connector has not delivered for 9 h: MySQL")
    assert len(said) < 20


def test_a_task_that_runs_and_fails_by_turns_is_one_trouble():
    looks, fails = [], {"wrong": (SENTENCES[1],)}
    for turn in range(20):
        looks += seen(of=fails, start=turn * 6.0)
        looks += seen(of={"runs": True, "streams": True}, start=turn * 6.0 + 3)
    said = list(itertools.chain(*sentences(looks)))
    assert said[0] == SENTENCES[1]
    assert [one.startswith("the connector has not delivered for") for one in said[1:]] == [True]


def test_what_was_wrong_last_is_told_while_nobody_knows_whether_it_is_over():
    looks = [Look(0, (SENTENCES[0],)), *seen(minutes=2, of={"runs": True}, start=3.0)]
    said = list(itertools.chain(*sentences(looks)))
    assert said == [
        SENTENCES[0],
        f"the connector has not delivered for 60 s: {SENTENCES[0][:-1]}",
    ]


def test_how_often_it_was_restarted_is_told_with_the_trouble():
    looks = seen(minutes=2, of={"wrong": (SENTENCES[1],), "restarts": 4})
    assert "for 60 s, restarted 4 times: the connector's task" in sentences(looks)[20][0]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")]
)
def test_a_span_is_said_as_a_person_says_it(seconds, words):
    assert span(seconds) == words


class Watched:
    """A supervisor over a connector and a MySQL that are what a test says; its clock is a number."""

    def __init__(self, monkeypatch):
        self.now, self.said, self.restarts, self.trace = 100.0, [], [], ""
        self.streams, self.offset, self.task = 1, {"file": "b.000001", "pos": 4}, "RUNNING"
        connector = SimpleNamespace(
            name="shop",
            pipeline=SimpleNamespace(source=None),
            status=lambda: Status("RUNNING", self.task, self.trace),
            offset=lambda: self.offset,
            restart=lambda: self.restarts.append(self.now),
            passes_over=False,
        )
        monkeypatch.setattr(supervisor.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(supervisor.mysql, "dump_threads", self.dump_threads)
        self.supervisor = Supervisor(connector, self.said.append)

    def dump_threads(self, source):
        if isinstance(self.streams, Exception):
            raise self.streams
        return self.streams

    def look(self, times=1):
        for _ in range(times):
            self.now += LOOK_EVERY
            self.supervisor.look()


@pytest.fixture
def watched(monkeypatch):
    made = Watched(monkeypatch)
    made.look(3)
    assert made.said == []
    return made


@pytest.mark.parametrize(
    "failure",
    [
        IngestError(
            "E-MYSQL-AWAY", "MySQL at h:1 cannot be reached: no.", remedy="-", may_pass=True
        ),
        IngestError("E-MYSQL-LOGIN", "MySQL at h:1 does not accept the password.", remedy="-"),
    ],
)
def test_while_mysql_cannot_be_asked_nobody_is_told_that_the_connector_delivers(watched, failure):
    watched.streams = failure
    watched.look(30)
    assert watched.said == [
        failure.what,
        f"the connector has not delivered for 60 s: {failure.what.removesuffix('.')}",
    ]
    watched.streams = 1
    watched.look(20)
    assert watched.said[2:] == [f"{AGAIN}, after 93 s"]


def test_a_failed_task_is_restarted_at_longer_and_longer_intervals_until_it_delivers(watched):
    watched.trace = "Caused by: java.io.EOFException: Failed to read next byte"
    for _ in range(
        100
    ):  # it says RUNNING after each restart, and fails before it has read anything
        watched.task, watched.streams = "FAILED", 0
        watched.look()
        watched.task = "RUNNING"
        watched.look()
    assert sum(AGAIN in one for one in watched.said) == 0
    assert sum("restarting the connector" in one for one in watched.said) == 5
    assert len(watched.restarts) < 16
    assert max(later - one for one, later in itertools.pairwise(watched.restarts)) >= 60
    watched.streams = 1
    watched.look(3)
    assert watched.said[-1].startswith(f"{AGAIN}, after 10 min")


def test_a_snapshot_delivers_when_it_comes_further(watched):
    watched.task, watched.trace = "FAILED", "Caused by: java.io.IOException: reset"
    watched.look()
    watched.task, watched.streams, watched.offset = "RUNNING", 0, {"snapshot": "INITIAL", "pos": 1}
    watched.look(3)
    assert AGAIN not in str(watched.said)
    watched.offset = {"snapshot": "INITIAL", "pos": 2}
    watched.look(3)
    assert [AGAIN in one for one in watched.said].count(True) == 1
