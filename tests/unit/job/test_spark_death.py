"""A run whose Spark has died, and one whose Spark lives."""

import errno
import json
import shutil
import subprocess
import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ingest.config import pipeline_file
from ingest.job.run import Run
from ingest.job.spark_session import has_died
from ingest.job.stream_guard import StreamGuard
from ingest.lake.files.lease import LeaseLostError
from ingest.model.errors import Exit, IngestError
from tests.support.untouched_stream import streaming

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
