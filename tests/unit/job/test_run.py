"""What a run does when something beside its query goes wrong."""

import errno
import json
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ingest.config import pipeline_file
from ingest.config.lake_settings import Lake
from ingest.job.run import Run
from ingest.job.spark_session import has_died
from ingest.job.stream_guard import StreamGuard
from ingest.job.streaming import HOLDS, SETTLE_EVERY, Streaming
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.storage import LocalFiles
from ingest.model.epochs import epoch_of, following
from ingest.model.errors import Exit, IngestError
from ingest.model.names import epochs_path
from ingest.model.start_facts import KafkaFacts, Note
from ingest.source.epoch_registry import EpochRegistry
from tests.unit.start.test_start_decision import IDLE, PLACE, entry, facts


def streaming(**parts):
    """What is not named is not touched."""
    nothing = SimpleNamespace()
    return Streaming(
        pipeline=SimpleNamespace(
            lake=SimpleNamespace(path="", catalog=None), spark=SimpleNamespace(on_cluster=False)
        ),
        spark=nothing,
        committer=parts.get("committer", nothing),
        supervisor=parts.get("supervisor", nothing),
        ahead=nothing,
        log=Path("log"),
        say=lambda _: None,
        report=lambda _: None,
        stop=threading.Event(),
    )


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


def test_what_code_raises_of_itself_is_tried_once_more_and_told_with_its_file(
    tmp_path, monkeypatch
):
    said, tried = [], []
    pipeline = SimpleNamespace(lake=SimpleNamespace(path=str(tmp_path)))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)

    def stream(*, from_beginning):
        tried.append(from_beginning)
        raise json.JSONDecodeError("Unterminated string", "{", 1)

    fails = streaming()
    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", lambda _: None)
    with pytest.raises(IngestError, match="JSONDecodeError: Unterminated") as told:
        run._stream_until_done(fails, from_beginning=True)
    assert (told.value.code, told.value.exit_code) == ("E-BATCH-FAILED", Exit.FAILED)
    assert tried == [True, False], "what was begun from the beginning goes on from there"
    assert "Traceback" in (tmp_path / "spark.log").read_text(encoding="utf-8")
    assert "Traceback" not in "".join([*said, str(told.value)])


PIPELINE = """
name: shop
source: {{mysql: "mysql://u@h", password: {{env: P}}, tables: ["shop.*"]}}
kafka: {{bootstrap_servers: "h:9092"}}
connect: {{url: "http://h:8083"}}
lake: {{path: {lake}}}
observe: {{log: json}}
"""


@pytest.fixture
def spark(monkeypatch):
    """A process that stands for Spark's, and a session behind which it is."""
    process = subprocess.Popen(["sleep", "600"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))

    def ask(*_):
        if process.poll() is not None:
            raise ConnectionRefusedError(111, "Connection refused")

    def kill():
        process.kill()
        process.wait()

    # As it asks a JVM that is there.
    monkeypatch.setattr(SparkSession, "getActiveSession", ask)
    yield SimpleNamespace(stop=ask, kill=kill, proc=process)
    kill()


class Held:
    """A run that has come as far as the lease, and what it then does."""

    def __init__(self, folder, monkeypatch, spark, act):
        self.folder, self.said = folder, []
        pipeline = pipeline_file.parse(PIPELINE.format(lake=folder / "lake"), "shop.yaml")
        self.run = Run(pipeline, folder / "logs" / "spark.log", self.said.append, lambda _: None)
        monkeypatch.setattr("ingest.job.run.refuse_unfit", lambda _: [])
        monkeypatch.setattr("ingest.job.stop_signal.signal.signal", lambda *_: None)

        def hold(*_, **__):
            self.run._spark = spark
            act()

        monkeypatch.setattr(self.run, "_hold", hold)

    def ended(self):
        with pytest.raises(Exception) as ended:
            self.run.execute()
        return ended.value

    @property
    def lease(self):
        return self.folder / "lake" / "_ingest" / "lease"

    def failure_told_to_machines(self):
        lines = (self.folder / "logs" / "events-shop.jsonl").read_text().splitlines()
        return json.loads(lines[-1])["failure"]


@pytest.mark.parametrize(
    "first",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o41.awaitTermination"),
        ConnectionRefusedError(111, "Connection refused"),
        EOFError(),
        pa.ArrowInvalid("Tried reading schema message, was null or length 0"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_run_whose_spark_has_died_says_so_wherever_it_was_noticed_first(
    tmp_path, monkeypatch, spark, first
):
    def act():
        spark.kill()
        raise first

    held = Held(tmp_path, monkeypatch, spark, act)
    failure = held.ended()
    assert isinstance(failure, IngestError)
    assert (failure.code, failure.exit_code) == ("E-SPARK-DIED", Exit.FAILED)
    assert failure.__suppress_context__
    assert held.failure_told_to_machines() == "E-SPARK-DIED"
    assert (held.lease / "1.beat").read_text() == "released"
    assert "Traceback" in held.run.log.read_text(encoding="utf-8")


def test_a_process_that_is_about_to_end_is_waited_for(monkeypatch):
    """Its connections are closed before it can be seen to have ended."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    process.stdin.close()
    assert has_died(Py4JError("An error occurred while calling o41.collectToPython"))
    assert process.returncode == 0


def test_spark_that_does_not_even_come_to_listen_has_died(monkeypatch):
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert has_died(PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}))
    assert has_died(ConnectionRefusedError(111, "Connection refused"))
    assert not has_died(KeyError("k"))


def test_a_failure_of_a_run_whose_spark_lives_stays_what_it_is(tmp_path, monkeypatch, spark):
    def act():
        raise KeyError("k")

    held = Held(tmp_path, monkeypatch, spark, act)
    assert isinstance(held.ended(), KeyError)
    assert held.failure_told_to_machines() == "KeyError"


def test_an_error_of_ours_is_not_hidden_by_spark_s_death(tmp_path, monkeypatch, spark):
    def act():
        spark.kill()
        raise LeaseLostError("term 2")

    assert isinstance(Held(tmp_path, monkeypatch, spark, act).ended(), LeaseLostError)


def test_a_full_disk_ends_a_run_with_its_sentence_also_where_the_lease_cannot_be_given_back(
    tmp_path, monkeypatch, spark
):
    def act():
        shutil.rmtree(held.lease)
        held.lease.write_text("in the way")
        raise OSError(errno.ENOSPC, "No space left on device", str(held.lease / "x"))

    held = Held(tmp_path, monkeypatch, spark, act)
    failure = held.ended()
    assert isinstance(failure, IngestError)
    lake = held.run.pipeline.lake.path
    assert failure.what == f"The lake's disk is full ({lake}): No space left on device."
    assert (failure.code, failure.exit_code) == ("E-DISK-FULL", Exit.FAILED)
    assert held.failure_told_to_machines() == "E-DISK-FULL"
    assert held.said[-1].startswith("the lease was not given back: ")


def test_spark_s_death_is_no_reason_to_begin_anew_inside_this_process(tmp_path, spark, monkeypatch):
    tried = []

    def stream(*, from_beginning):
        tried.append(from_beginning)
        spark.kill()
        raise Py4JError("An error occurred while calling o41.isActive")

    held = Held(tmp_path, monkeypatch, spark, lambda: None)
    dies = streaming()
    monkeypatch.setattr(dies, "stream", stream)
    with pytest.raises(Py4JError):
        held.run._stream_until_done(dies, from_beginning=False)
    assert tried == [False]


@pytest.mark.parametrize("full_for", [3, 100])
def test_a_full_disk_is_tried_again_for_a_while(tmp_path, monkeypatch, full_for):
    tried, said = [], []
    pipeline = SimpleNamespace(lake=SimpleNamespace(path=str(tmp_path)))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)

    def stream(*, from_beginning):
        tried.append(from_beginning)
        if len(tried) <= full_for:
            raise OSError(errno.ENOSPC, "No space left on device")

    fails = streaming()
    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", lambda _: None)
    what = f"The lake's disk is full ({tmp_path}): No space left on device"
    if full_for == 3:
        run._stream_until_done(fails, from_beginning=False)
        assert said == [f"{what}; deciding anew where to go on"] * 3
    else:
        with pytest.raises(IngestError) as ended:
            run._stream_until_done(fails, from_beginning=False)
        assert (ended.value.code, ended.value.what) == ("E-DISK-FULL", f"{what}.")
        assert len(tried) == 9


DENIED = LakeDeniedError("s3a://lake", "403 Forbidden")
AWAY = LakeAwayError("s3a://lake", "503 Service Unavailable")


def tried(tmp_path, monkeypatch, failures, **parts):
    """A run that meets these failures one after the other, and then ends as asked; what it says, and how long it pauses."""
    said, paused, left = [], [], list(failures)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    pipeline = SimpleNamespace(lake=Lake.model_validate({"path": "s3a://lake"}))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)
    fails = streaming()
    vars(fails).update(parts)

    def stream(*, from_beginning):
        if left:
            raise left.pop(0)

    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", paused.append)
    try:
        run._stream_until_done(fails, from_beginning=False)
    finally:
        tried.said, tried.paused, tried.fails = said, paused, fails


@pytest.mark.parametrize("failure", [AWAY, DENIED])
def test_a_lake_that_is_away_for_hours_ends_no_job_that_runs_and_is_said_once(
    tmp_path, monkeypatch, failure
):
    tried(tmp_path, monkeypatch, [failure] * 2000)  # a working day
    assert tried.said == [f"{failure.what.rstrip('.')}; deciding anew where to go on"]
    assert tried.paused[:6] == [1, 2, 4, 8, 15, 15]
    assert max(tried.paused) == 15


def test_what_else_fails_meanwhile_counts_and_is_said(tmp_path, monkeypatch):
    other = IngestError("E-KAFKA-AWAY", "Kafka is away.", remedy="start it.", may_pass=True)
    tried(tmp_path, monkeypatch, [AWAY, AWAY, DENIED, DENIED, other, AWAY, *[other] * 7])
    assert [one.split(";")[0].split(":")[0] for one in tried.said[:4]] == [
        "The lake s3a",
        "The object store does not let us into the lake s3a",
        "Kafka is away",
        "The lake s3a",
    ]
    with pytest.raises(IngestError, match="Kafka is away"):
        tried(tmp_path, monkeypatch, [AWAY, *[other] * 4, AWAY, *[other] * 5])


def test_a_run_to_the_end_does_not_wait_for_a_lake_for_good(tmp_path, monkeypatch):
    with pytest.raises(LakeAwayError):
        tried(tmp_path, monkeypatch, [AWAY] * 9, once=True)


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


class GoneQuery:
    """A query whose process is gone."""

    def awaitTermination(self, _):  # noqa: N802 (PySpark's name)
        raise Py4JError("An error occurred while calling o41.awaitTermination")

    @property
    def isActive(self):  # noqa: N802 (PySpark's name)
        raise ConnectionRefusedError(111, "Connection refused")


def test_why_a_query_ended_is_not_hidden_by_spark_s_death(spark):
    class Query(GoneQuery):
        def awaitTermination(self, _):  # noqa: N802 (PySpark's name)
            return False

    def lost():
        spark.kill()
        raise LeaseLostError("term 2")

    run = streaming(committer=SimpleNamespace(refuse_lost=lost))
    with pytest.raises(LeaseLostError):
        run.watch(Query(), StreamGuard(run.stop.is_set), SimpleNamespace())


def test_a_query_that_spark_has_left_ends_with_its_batch_in_hand_and_not_before(spark):
    spark.kill()
    run, order = streaming(), []
    guard, begun, ended = StreamGuard(run.stop.is_set), threading.Event(), threading.Event()

    def batch():
        with guard.batch():
            begun.set()
            ended.wait(60)
            order.append("batch")

    def watch():
        with pytest.raises(Py4JError):
            run.watch(GoneQuery(), guard, SimpleNamespace())
        order.append("query")

    threads = [threading.Thread(target=act, daemon=True) for act in (batch, watch)]
    threads[0].start()
    begun.wait(60)
    threads[1].start()
    threads[1].join(0.2)
    ended.set()
    for one in threads:
        one.join(60)
    assert order == ["batch", "query"]


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


def test_any_other_refusal_between_batches_ends_the_run():
    def clean_up(_) -> None:
        raise IngestError("E-MYSQL-GRANT", "no SELECT", remedy="grant it.")

    run = streaming(supervisor=SimpleNamespace(streaming=lambda: None))
    with pytest.raises(IngestError, match="no SELECT"):
        run._settle(SimpleNamespace(clean_up=clean_up, newest=None))
