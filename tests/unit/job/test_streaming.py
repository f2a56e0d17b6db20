"""What a run does when something beside its query goes wrong."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.job import standing_tables
from ingest.job.stream_guard import StreamGuard
from ingest.job.streaming import HOLDS, SETTLE_EVERY
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.model.epochs import epoch_of, following
from ingest.model.errors import IngestError
from ingest.model.names import epochs_path
from ingest.model.start_facts import KafkaFacts, Note
from ingest.source.epoch_registry import EpochRegistry
from tests.support.sound_start import IDLE, PLACE, TABLE, entry, facts
from tests.support.untouched_stream import streaming


def test_what_was_asked_for_of_a_table_whose_topic_is_deleted_is_asked_for_anew(monkeypatch):
    """Its rows, and what changed since, may have come and gone with the topic, and none of it is seen."""
    done, made = [], []
    restarts = SimpleNamespace(restart=lambda: made.append("restart"))
    monkeypatch.setattr("ingest.job.streaming.Connector", lambda _: restarts)
    asked = SimpleNamespace(
        open=lambda: [SimpleNamespace(table="d.t"), SimpleNamespace(table="d.other")],
        done=lambda one: done.append(one.table),
    )
    batches = SimpleNamespace(newest=entry(), ask_again=lambda gaps: made.append(done[:]))
    here = facts(taken={"d.t": "p.d.t"})
    streaming()._take_again(here, batches, asked)
    assert made == [[]]
    streaming()._take_again(replace(here, kafka={}), batches, asked)
    assert made == [[], "restart", ["d.t"]]


def test_a_server_that_is_away_for_a_moment_does_not_pass_for_a_wish_to_stop():
    stopped = []
    query = SimpleNamespace(
        awaitTermination=lambda _: False, isActive=True, stop=lambda: stopped.append(1)
    )

    def look() -> None:
        raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait", may_pass=True)

    committer = SimpleNamespace(refuse_lost=lambda: None)
    run = streaming(committer=committer, supervisor=SimpleNamespace(look=look))
    with pytest.raises(IngestError, match="Connect is away"):
        run.watch(query, StreamGuard(run.stop.is_set), SimpleNamespace())
    assert stopped == [1]
    assert not run.stop.is_set(), "the run would end in silence, as if asked to"


def test_a_server_that_is_away_ends_no_run_by_what_is_only_a_rehearsal():
    asked = []

    def away(note, newest):
        asked.append(note.ranges)
        raise IngestError("E-KAFKA-AWAY", "Kafka is away.", remedy="start it.", may_pass=True)

    run = streaming()
    run._rehearsal = SimpleNamespace(is_due=lambda idle: idle, begin=asked.append)
    definitions = SimpleNamespace(in_force=away)
    batches = SimpleNamespace(newest=entry(), note=lambda: Note(4, "c"), definitions=definitions)
    run._rehearse(batches, idle=True)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("now", "limit"),
    [(KafkaFacts(0, 40, "another"), 0), (KafkaFacts(0, 5, "T"), 5), (None, 0)],
    ids=["made again", "its end lost", "deleted"],
)
def test_what_gets_an_offset_anew_is_of_the_newest_log_before_the_manifest_says_that_it_was_lost(
    tmp_path, monkeypatch, now, limit
):
    """By its offset it would be of the log before, and each of its changes would look like one of another server."""
    first = following([], "one", "the first log", {})
    second = following([first], "one", "all again", {PLACE: 7, IDLE: 4}, continues=False)
    files = LocalFiles(epochs_path(str(tmp_path)))
    for epoch in (first, second):
        assert files.create(f"{epoch.number}.json", epoch.as_json())
    kafka = {IDLE: KafkaFacts(0, 4, "I")} | ({PLACE: now} if now else {})
    monkeypatch.setattr("ingest.job.streaming.broker.partitions", lambda _: kafka)
    looked = SimpleNamespace(versions={})
    monkeypatch.setattr("ingest.job.streaming.gather_facts.gather", lambda *_, **__: looked)
    nothing = lambda *_: None  # noqa: E731 (a method of that shape)
    run = streaming(committer=SimpleNamespace(refuse_lost=nothing, begin_anew=nothing))
    run.pipeline.lake.path = str(tmp_path)
    batches = SimpleNamespace(
        newest=entry(), barred=frozenset, definitions=SimpleNamespace(streamed=nothing)
    )
    for _ in ("once", "and once more, as the manifest's row was not written"):
        run._look(batches, from_beginning=False)
        known = EpochRegistry(run.pipeline).known()
        found = [epoch_of(known, PLACE, offset) for offset in (max(limit - 1, 0), limit, 7)]
        assert found == [0 if limit else 1, 1, 1]
        assert epoch_of(known, IDLE, 3) == 0, "of it nothing was lost"


def test_what_is_due_between_batches_is_done_behind_one_where_they_never_pause(monkeypatch):
    now, seen = [100.0], []
    monkeypatch.setattr("ingest.job.streaming.time.monotonic", lambda: now[0])
    run = streaming(supervisor=SimpleNamespace(streaming=lambda: "a place in the log"))
    batches = SimpleNamespace(clean_up=seen.append, newest=None)
    for seconds in (0, 1, SETTLE_EVERY):
        now[0] += seconds
        run.behind_a_batch(batches)
    assert seen == ["a place in the log", None, "a place in the log"]


def test_a_job_that_was_succeeded_decides_nothing_whatever_it_failed_by():
    def lost() -> None:
        raise LeaseLostError("process 7 on another machine")

    run = streaming(committer=SimpleNamespace(refuse_lost=lost))
    with pytest.raises(LeaseLostError):
        run._look(SimpleNamespace(), from_beginning=False)  # which has nothing to look at


@pytest.mark.parametrize("applied", [0, 1], ids=["in which nothing happens", "behind a batch"])
def test_a_lake_that_is_back_is_said_once_by_a_stream_that_holds(monkeypatch, applied):
    said, seconds = [], []
    monkeypatch.setattr("ingest.job.streaming.executors.lost", lambda: None)

    def second(_):
        seconds.append(1)
        run.applied = applied
        return len(seconds) > 40

    status = {"isTriggerActive": True}
    query = SimpleNamespace(
        awaitTermination=second, isActive=False, status=status, lastProgress=None
    )
    nothing = lambda: None  # noqa: E731 (a method of that shape)
    run = streaming(
        committer=SimpleNamespace(refuse_lost=nothing), supervisor=SimpleNamespace(look=nothing)
    )
    run.say, run.away = lambda what: said.append((what, len(seconds))), "E-LAKE-AWAY"
    monkeypatch.setattr("ingest.job.streaming.is_stopped", lambda: False)
    run.watch(query, StreamGuard(run.stop.is_set), SimpleNamespace(newest=None))
    assert said == [("the lake is reached again", 1 if applied else HOLDS)]


def refused():
    return IngestError("E-MYSQL-LOGIN", "MySQL does not accept the password.", remedy="correct it.")


def test_a_password_that_mysql_has_already_and_its_file_not_yet_ends_no_run():
    """What waits for MySQL waits on, however long that takes, and a sentence says so once."""
    answers, said = [refused(), refused(), None, refused()], []

    def clean_up(_) -> None:
        if answer := answers.pop(0):
            raise answer

    run = streaming(supervisor=SimpleNamespace(streaming=lambda: None))
    run.say = said.append
    for seen in (1, 1, 1, 2):
        run._settle(SimpleNamespace(clean_up=clean_up, newest=None))
        assert len(said) == seen
    assert "does not accept the password" in said[0]


def test_a_run_to_the_end_does_not_fail_by_a_table_that_nobody_takes_any_more():
    row = entry(tables={"d.t": replace(TABLE, stopped="a disk is full")})
    with pytest.raises(IngestError, match="these tables stand still"):
        standing_tables.refuse(row, {}, ["d.*"], once=True)
    standing_tables.refuse(row, {}, ["d.*", "!d.t"], once=True)
    with pytest.raises(IngestError, match="these tables stand still"):
        standing_tables.refuse(row, {"d.o": "row size 1"}, ["d.*", "!d.t"], once=True)


def test_any_other_refusal_between_batches_ends_the_run():
    def clean_up(_) -> None:
        raise IngestError("E-MYSQL-GRANT", "no SELECT", remedy="grant it.")

    run = streaming(supervisor=SimpleNamespace(streaming=lambda: None))
    with pytest.raises(IngestError, match="no SELECT"):
        run._settle(SimpleNamespace(clean_up=clean_up, newest=None))
