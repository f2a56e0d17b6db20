"""A flow as it runs for long: alone in its trouble, one process at a time, behind the log that it reads."""

import json
import subprocess
import sys
import threading

import pytest

from ingest.flows import flow_runs
from ingest.flows.flow_query import FlowQuery
from ingest.flows.flow_runs import FlowRun
from ingest.flows.sinks import Batch, Sinks
from ingest.lake.delta.commit import Committer
from ingest.lake.files.lease import LeaseLostError
from ingest.model.errors import IngestError
from ingest.testing.frames import assert_rows
from ingest.testing.source import Source
from tests.support.flows import OneFlow, at, running, until, words

EACH = "SELECT at, upper(word) word FROM words"


COUNTED = "SELECT window(at, '5 minutes') window, word, count(*) count FROM words GROUP BY window(at, '5 minutes'), word"


def test_a_batch_that_fails_again_and_again_is_tried_ever_more_rarely(spark, tmp_path, monkeypatch):
    pauses = []
    flow = OneFlow(
        spark, tmp_path, EACH.replace("upper(word)", "raise_error(word)"), trigger="1 second"
    )
    flow.put(words((at(1), "cat")))
    run = FlowRun(spark, flow.pipeline, "f", flow.said.append, threading.Event())
    monkeypatch.setattr(run, "_failed", lambda failure, *, at_once, pause: pauses.append(pause))
    monkeypatch.setattr(run.stop, "wait", lambda _: len(pauses) >= 4 and run.stop.set())
    run.until_stopped()
    assert pauses == [0.1, 0.2, 0.4, 0.8]


def test_of_several_flows_that_end_each_is_run_whatever_becomes_of_the_others(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    good = flow.pipeline.flows["f"]
    bad = good.model_copy(update={"sql": str(tmp_path / "none.sql")})
    both = flow.pipeline.model_copy(update={"flows": {"bad": bad, "f": good}})
    with pytest.raises(IngestError, match=r"none.sql cannot be read"):
        flow_runs.each_once(spark, both, ["bad", "f"], flow.said.append, threading.Event())
    assert [row["word"] for row in flow.rows()] == ["CAT"]


def test_a_flow_that_throws_is_tried_again_and_ends_equal(spark, tmp_path):
    text = EACH.replace("upper(word)", "if(word = 'bad', raise_error('no such word'), upper(word))")
    flow = OneFlow(spark, tmp_path, text, trigger="1 second")
    flow.put(words((at(1), "cat")))
    run, thread = running(flow)
    until(lambda: run.status.batch == 0)
    flow.put(words((at(2), "bad")))
    until(lambda: run.status.state == "failed")
    assert "no such word" in run.status.error
    until(lambda: "is tried again" in " ".join(flow.said))  # said behind its state is written
    flow.change(EACH, trigger="1 second")
    until(lambda: run.status.batch == 1)
    run.stop.set()
    thread.join()
    assert sorted(row["word"] for row in flow.rows()) == ["BAD", "CAT"]
    assert flow.kept.status().restarts >= 1


KILLED = """
import os, signal
from pathlib import Path
from pyspark.sql import functions as F

def upper(word):
    if word == "bad" and Path(FLAG).exists():
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does for want of memory
    return word.upper()

def flow(words):
    return words.select("at", F.udf(upper)("word").alias("word"))
"""


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["a worker is killed", "its sink is away"])
def test_a_flow_in_trouble_stops_alone_and_ends_equal_once_that_is_over(spark, tmp_path, trouble):
    flag, out = tmp_path / "flag", tmp_path / "mounted" / "out"
    flag.touch()
    (tmp_path / "mounted").touch()  # a file where a folder should be
    killed = trouble == "a worker is killed"
    sinks = [{"delta": "out"}, *([] if killed else [{"files": str(out), "format": "json"}])]
    text = KILLED.replace("FLAG", repr(str(flag))) if killed else EACH
    flow = OneFlow(spark, tmp_path, text, trigger="1 second", sinks=sinks)
    other = OneFlow(spark, tmp_path / "other", EACH, trigger="1 second")
    flow.put(words((at(1), "cat")))
    flow.put(words((at(2), "bad")))
    (run, thread), (beside, its) = running(flow), running(other)
    until(lambda: run.status.state == "failed")
    other.put(words((at(1), "owl")))
    until(lambda: beside.status.batch == 0)
    flag.unlink()
    (tmp_path / "mounted").unlink()
    until(lambda: run.status.batch == 1)
    for one, its_thread in ((run, thread), (beside, its)):
        one.stop.set()
        its_thread.join()
    assert sorted(row["word"] for row in flow.rows()) == ["BAD", "CAT"]
    assert [row["word"] for row in other.rows()] == ["OWL"]
    if not killed:
        assert sorted(row.word for row in spark.read.json(str(out)).collect()) == ["BAD", "CAT"]


@pytest.mark.long
def test_a_flow_that_fills_java_s_heap_fails_alone_and_ends_equal_once_it_asks_for_less(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.flows.hungry", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both are equal"), done.stderr[-3000:]


def test_a_second_process_does_not_run_what_one_runs_already(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH, trigger="1 second")
    flow.put(words((at(1), "cat")))
    run, thread = running(flow)
    until(lambda: run.status.batch == 0)
    with pytest.raises(IngestError, match="E-LEASE-HELD|Another job"):
        flow.run()
    run.stop.set()
    thread.join()
    flow.run()
    assert [row["word"] for row in flow.rows()] == ["CAT"]


def test_who_was_suspended_in_the_middle_of_a_batch_commits_nothing_once_another_has_taken_over(
    spark, tmp_path
):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    flow.run()
    settings = flow.pipeline.flows["f"]
    after = FlowQuery(spark, flow.kept, settings, Committer(7), flow.said.append)
    after.fence()
    after.start(once=True).awaitTermination(60)
    record = flow.kept.record()
    suspended = Sinks(flow.pipeline, "f", "append", record, Committer(6))
    rows = spark.createDataFrame([(at(9), "twice")], "at timestamp, word string")
    with pytest.raises(LeaseLostError):
        suspended.write(settings.sinks[0], Batch(rows, 1, 1))
    assert [row["word"] for row in flow.rows()] == ["CAT"]


def test_a_flow_reads_a_change_log_and_goes_on_over_a_new_column(logged, spark, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 5}])
    lake.follow(source)
    text = "SELECT operation, after.id id, after.v v FROM words WHERE after IS NOT NULL"
    flow = OneFlow(spark, tmp_path, text, trigger="1 second")
    reads = {"inputs": {"words": {"change_log": "d.t"}}, "trigger": "1 second"}
    flow.change(text, **reads)
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    run, thread = running(flow)
    until(lambda: run.status.batch == 0)
    table.update(1, v=6)
    table.add_column("w", "INT")
    table.insert(id=2, v=7, w=1)
    lake.follow(source)
    until(lambda: run.status.rows == 4)
    run.stop.set()
    thread.join()
    found = spark.read.format("delta").load(str(lake.path / "out"))
    assert_rows(
        found,
        [
            {"operation": "read", "id": 1, "v": 5},
            {"operation": "update", "id": 1, "v": 6},
            {"operation": "insert", "id": 2, "v": 7},
        ],
    )
    assert "failed" not in " ".join(flow.said)


def test_a_flow_whose_log_is_not_there_yet_waits_for_it(logged, spark, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"])
    flow = OneFlow(spark, tmp_path, EACH)
    flow.change("SELECT after.id id FROM words", inputs={"words": {"change_log": "d.t"}})
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    run, thread = running(flow)
    until(lambda: "has no change log yet" in run.status.error)
    table.insert(id=3)
    lake.follow(source)
    until(lambda: run.status.batch == 0)
    run.stop.set()
    thread.join()
    assert spark.read.format("delta").load(str(lake.path / "out")).collect() == [(3,)]


def test_what_a_flow_says_of_itself_is_json(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, COUNTED, mode="complete")
    flow.put(words((at(1), "cat"), (at(2), "dog")))
    flow.run()
    assert not flow.kept.status().watermark, "none before the second batch"
    flow.put(words((at(3), "dog")))
    flow.run()
    said = json.loads(json.dumps(flow.kept.status().as_json()))
    assert said["operators"][0]["rows"] == 2
    assert said["watermark"].startswith("2026-01-01T11:52")
