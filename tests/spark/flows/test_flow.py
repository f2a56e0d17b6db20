"""A flow as a job: each batch once in its tables, whatever dies; changed functions; sinks that are not its own."""

import json
import os
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from ingest.flows import flow_query, flow_runs
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.flows.flow_runs import FlowRun
from ingest.flows.sinks import Batch, Sinks
from ingest.flows.unread import first_unread
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.lease import LeaseLostError
from ingest.maintenance.schedule import Maintenance
from ingest.model.errors import IngestError
from ingest.model.failpoints import OF_FLOWS
from ingest.start import power_cut
from ingest.testing.frames import assert_rows
from ingest.testing.source import Source
from tests.support.flows import OneFlow, at, counted, dying, words

EACH = "SELECT at, upper(word) word FROM words"
COUNTED = "SELECT window(at, '5 minutes') window, word, count(*) count FROM words GROUP BY window(at, '5 minutes'), word"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(flow_runs, "PAUSE", 0.05)


def test_a_select_over_files_brings_each_row_once(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat"), (at(2), "dog")))
    flow.run()
    flow.put(words((at(3), "owl")))
    status = flow.run()
    flow.run()
    assert sorted(row["word"] for row in flow.rows()) == ["CAT", "DOG", "OWL"]
    assert (status.batch, status.rows, status.state) == (1, 1, "ended")
    assert flow.kept.status().state == "ended"


def test_a_function_of_python_may_use_its_own_module_in_spark_s_workers(spark, tmp_path):
    text = """
from pyspark.sql import DataFrame, functions as F

def twice(word):
    return word * 2

def flow(words: DataFrame) -> DataFrame:
    return words.select("at", F.udf(twice)("word").alias("word"))
"""
    flow = OneFlow(spark, tmp_path, text)
    flow.put(words((at(1), "do")))
    flow.run()
    assert [row["word"] for row in flow.rows()] == ["dodo"]


@pytest.mark.parametrize(
    "mode",
    [
        "update",
        *(pytest.param(mode, marks=pytest.mark.long) for mode in ("append", "complete")),
    ],
)
def test_a_batch_that_dies_anywhere_twice_is_in_each_table_once(spark, tmp_path, mode):
    keys = ["window", "word"]
    sinks = [{"delta": "out", "keys": keys}, {"delta": "more", "keys": keys}]
    flow = OneFlow(spark, tmp_path, COUNTED, mode=mode, sinks=sinks)
    minute = 0
    for place in OF_FLOWS:
        flow.put(words(*[(at(minute + n), word) for n, word in enumerate(("cat", "dog", "cat"))]))
        flow.put(words((at(minute - 60), "late")) if minute else [])
        minute += 30
        with patch.object(flow_query, "reached", dying(place, times=2)):
            flow.run()
    flow.put(words((at(minute + 60), "end")))
    flow.run()
    found = counted(flow.rows())
    events = [(at(m + n), w) for m in (0, 30, 60) for n, w in enumerate(("cat", "dog", "cat"))]
    wanted = {}
    for moment, word in events:
        start = moment.replace(minute=moment.minute // 5 * 5, tzinfo=None)
        wanted[start, word] = wanted.get((start, word), 0) + 1
    if mode != "append":
        wanted[at(minute + 60).replace(tzinfo=None), "end"] = 1
    if mode == "complete":
        for m in (30, 60):
            wanted[at(m - 60).replace(tzinfo=None), "late"] = 1
    assert found == wanted
    assert len(flow.rows()) == len(wanted)
    assert counted(flow.rows("more")) == wanted
    assert len(flow.late()) == (0 if mode == "complete" else 2)


def test_a_function_whose_state_can_follow_goes_on_and_one_whose_cannot_is_refused(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, COUNTED, mode="complete")
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change(COUNTED.replace("count(*) count", "count(*) * 10 count"), mode="complete")
    flow.put(words((at(2), "cat")))
    flow.run()
    assert "its state can follow" in " ".join(flow.said)
    assert [row["count"] for row in flow.rows()] == [20]
    flow.change(COUNTED.replace("count(*)", "max(word)"), mode="complete")
    with pytest.raises(
        IngestError, match=r"cannot go on from its checkpoint: its state was of"
    ) as refused:
        flow.run()
    assert refused.value.code == "E-FLOW-CHANGED"
    assert [row["count"] for row in flow.rows()] == [20], "its table stays"
    flow.change(COUNTED, mode="append")
    with pytest.raises(IngestError, match="its mode was complete and is append now"):
        flow.run()


def test_one_that_may_begin_again_reads_all_and_writes_its_table_anew(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat"), (at(1), "cat")))
    flow.run()
    flow.change("SELECT word, count(*) count FROM words GROUP BY word", mode="complete")
    with pytest.raises(IngestError, match="E-FLOW-CHANGED|its mode"):
        flow.run()
    settings = {"mode": "complete", "on_change": "restart"}
    flow.change("SELECT word, count(*) count FROM words GROUP BY word", **settings)
    flow.run()
    assert flow.rows() == [{"word": "cat", "count": 2}]
    assert flow.kept.record().generation == 2
    flow.put(words((at(5), "cat")))
    flow.run()
    assert flow.rows() == [{"word": "cat", "count": 3}]


def test_one_that_begins_again_behind_a_job_that_may_live_writes_its_table_anew(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change(
        EACH.replace("FROM words", "FROM words UNION ALL SELECT * FROM words"), on_change="restart"
    )
    settings = flow.pipeline.flows["f"]
    query = FlowQuery(spark, flow.kept, settings, Committer(7), flow.said.append)
    query.fence()
    with patch.object(FlowFolder, "keep", side_effect=OSError("it dies here")), suppress(OSError):
        query.start(once=True)
    later = FlowQuery(spark, flow.kept, settings, Committer(8), flow.said.append)
    later.fence()
    later.start(once=True).awaitTermination(60)
    assert sorted(row["word"] for row in flow.rows()) == ["CAT", "cat"]


def test_a_power_cut_s_look_at_the_lake_takes_nothing_of_a_flow_s_tables(logged, spark, tmp_path):
    source, lake = Source(), logged()
    source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    flow = OneFlow(spark, tmp_path, EACH, sinks=[{"delta": "marts/out"}])
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    for number in range(5):
        flow.put(words((at(number), "cat")))
    flow.run()
    assert lake.batches.newest.batch_id < 5
    assert power_cut.take_back(flow.pipeline, []) == []
    assert spark.read.format("delta").load(str(lake.path / "marts" / "out")).count() == 5


WINDOWED = "SELECT window(at, '5 minutes') window, sum(n) n FROM (SELECT at, length(word) n FROM words) GROUP BY window(at, '5 minutes')"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WINDOWED, WINDOWED.replace("5 minutes", "10 minutes")),
        (WINDOWED, WINDOWED.replace("'5 minutes'", "'5 minutes', '1 minute'")),
        (WINDOWED, WINDOWED.replace("length(word)", "length(word) * 100")),
        (EACH.replace("SELECT", "SELECT DISTINCT"), EACH.replace("SELECT", "SELECT DISTINCT").replace("upper", "lower")),
    ],
    ids=["longer windows", "sliding windows", "another summand", "another value that is told apart"],
)  # fmt: skip
def test_what_a_column_is_made_of_below_an_operator_is_part_of_its_state(
    spark, tmp_path, before, after
):
    flow = OneFlow(spark, tmp_path, before)
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change(after)
    with pytest.raises(IngestError, match="its state was of"):
        flow.run()
    flow.change(before.replace("FROM words", "FROM words WHERE word <> 'x'"))
    flow.run()
    assert "its state can follow" in " ".join(flow.said)


def test_inputs_that_change_places_do_not_take_each_other_s_offsets(spark, tmp_path):
    both = "SELECT word FROM words UNION ALL SELECT word FROM more"
    flow = OneFlow(spark, tmp_path, EACH)
    other = tmp_path / "more"
    other.mkdir()
    one = {"columns": "at timestamp, word string"}
    inputs = {"words": {**one, "files": str(flow.source)}, "more": {**one, "files": str(other)}}
    flow.change(both, inputs=inputs)
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change("SELECT word FROM more UNION ALL SELECT word FROM words", inputs=inputs)
    with pytest.raises(IngestError, match=r"its inputs were words .*, more .* and are more"):
        flow.run()


@pytest.mark.parametrize("what", ["an older copy", "its record is gone"])
def test_a_checkpoint_that_is_not_the_one_it_ran_on_is_not_gone_on_from(spark, tmp_path, what):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    flow.run()
    checkpoint = Path(flow.kept.checkpoint(flow.kept.record()))
    shutil.copytree(checkpoint, tmp_path / "copy")
    flow.put(words((at(2), "dog")))
    flow.run()
    if what == "an older copy":
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "copy", checkpoint)
        said = "its checkpoint is older than its table out"
    else:
        Path(flow.kept.path, "flow.json").unlink()
        said = "a checkpoint is there"
    flow.put(words((at(3), "owl")))
    with pytest.raises(IngestError, match=said):
        flow.run()
    flow.change(EACH, on_change="restart")
    flow.run()
    assert sorted(row["word"] for row in flow.rows()) == ["CAT", "DOG", "OWL"]


def test_a_batch_that_fails_again_and_again_is_tried_ever_more_rarely(spark, tmp_path, monkeypatch):
    pauses = []
    flow = OneFlow(
        spark, tmp_path, EACH.replace("upper(word)", "raise_error(word)"), trigger="1 second"
    )
    flow.put(words((at(1), "cat")))
    run = FlowRun(spark, flow.pipeline, "f", flow.said.append, threading.Event())
    monkeypatch.setattr(run, "_failed", lambda failure, *, quietly, pause: pauses.append(pause))
    monkeypatch.setattr(run.stop, "wait", lambda _: len(pauses) >= 4 and run.stop.set())
    run.until_stopped()
    assert pauses == [0.1, 0.2, 0.4, 0.8]


def test_a_table_does_not_lie_inside_another_one_nor_around_something_else(spark, tmp_path):
    spark.range(1).write.format("delta").save(str(tmp_path / "lake" / "shop" / "orders"))
    for folder, said in (
        ("shop/orders/out", "lies inside the table shop/orders"),
        ("shop", "something else is in"),
    ):
        flow = OneFlow(spark, tmp_path, EACH, sinks=[{"delta": folder}])
        with pytest.raises(IngestError, match=said):
            flow.run()


@pytest.mark.parametrize("gone", ["out", "_ingest/flows/f/checkpoint-1"])
def test_without_its_table_or_its_checkpoint_it_does_not_go_on_as_if_nothing_had_been(
    spark, tmp_path, gone
):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    flow.run()
    shutil.rmtree(tmp_path / "lake" / gone)
    flow.put(words((at(2), "dog")))
    with pytest.raises(IngestError, match=r"(its table out|its checkpoint) is gone"):
        flow.run()
    flow.change(EACH, on_change="restart")
    flow.run()
    assert sorted(row["word"] for row in flow.rows()) == ["CAT", "DOG"]


def test_a_column_more_of_the_result_is_one_of_the_table(spark, tmp_path):
    sinks = [{"delta": "out", "keys": ["word"]}, {"delta": "more"}]
    flow = OneFlow(spark, tmp_path, "SELECT word FROM words", mode="update", sinks=sinks[:1])
    flow.put(words((at(1), "cat")))
    flow.run()
    sinks[1]["keys"] = ["word"]
    flow.change("SELECT word, length(word) n FROM words", mode="update", sinks=sinks)
    flow.put(words((at(2), "owl")))
    flow.run()
    assert {(row["word"], row["n"]) for row in flow.rows()} == {("cat", None), ("owl", 3)}
    assert flow.rows("more") == [{"word": "owl", "n": 3}], "one that is added gets what comes"


def test_of_several_flows_that_end_each_is_run_whatever_becomes_of_the_others(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    good = flow.pipeline.flows["f"]
    bad = good.model_copy(update={"sql": str(tmp_path / "none.sql")})
    both = flow.pipeline.model_copy(update={"flows": {"bad": bad, "f": good}})
    with pytest.raises(IngestError, match=r"none.sql cannot be read"):
        flow_runs.each_once(spark, both, ["bad", "f"], flow.said.append, threading.Event())
    assert [row["word"] for row in flow.rows()] == ["CAT"]


def test_a_table_that_is_not_the_flow_s_is_not_touched(spark, tmp_path):
    path = str(tmp_path / "lake" / "out")
    spark.range(3).write.format("delta").save(path)
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    with pytest.raises(IngestError, match="E-FLOW-SINK|is a table that is not this flow's"):
        flow.run()
    assert spark.read.format("delta").load(path).count() == 3


def test_several_rows_of_one_key_are_refused_before_any_is_merged(spark, tmp_path):
    sinks = [{"delta": "out", "keys": ["word"]}]
    flow = OneFlow(spark, tmp_path, EACH, mode="update", sinks=sinks)
    flow.put(words((at(1), "cat"), (at(2), "cat")))
    with pytest.raises(IngestError, match=r"several rows of the same `keys`"):
        flow.run()
    assert flow.rows() == []


def test_a_repeated_batch_writes_its_folder_of_files_again_and_no_other(spark, tmp_path):
    flow = OneFlow(
        spark, tmp_path, EACH, sinks=[{"files": str(tmp_path / "out"), "format": "json"}]
    )
    flow.put(words((at(1), "cat")))
    with patch.object(flow_query, "reached", dying("flow_written")):
        flow.run()
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["batch=1-000000000"]
    assert [row.word for row in spark.read.json(str(tmp_path / "out")).collect()] == ["CAT"]


def running(flow):
    """In a thread, as beside the mirrors."""
    run = FlowRun(flow.spark, flow.pipeline, "f", flow.said.append, threading.Event())
    thread = threading.Thread(target=run.until_stopped)
    thread.start()
    return run, thread


def until(what):
    for _ in range(600):
        if what():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it did not come to that within a minute")


def test_a_flow_that_throws_is_tried_again_and_ends_equal(spark, tmp_path):
    text = EACH.replace("upper(word)", "if(word = 'bad', raise_error('no such word'), upper(word))")
    flow = OneFlow(spark, tmp_path, text, trigger="1 second")
    flow.put(words((at(1), "cat")))
    run, thread = running(flow)
    until(lambda: run.status.batch == 0)
    flow.put(words((at(2), "bad")))
    until(lambda: run.status.state == "failed")
    assert "no such word" in run.status.error
    assert "is tried again" in " ".join(flow.said)
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


def test_upkeep_of_a_log_keeps_what_the_slowest_flow_has_still_to_read(logged, spark, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    flow = OneFlow(spark, tmp_path, EACH)
    flow.change("SELECT after.id id FROM words", inputs={"words": {"change_log": "d.t"}})
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    path = lake.pipeline.change_log_path(table.name)
    direct = within_reach(SparkTable(spark, path), str(lake.path), lake.term)
    keeps = Maintenance.of(flow.pipeline, Committer(lake.term))
    direct.version()
    assert keeps._kept(direct) == (168, 10_000), (
        "a flow that has not begun begins with what there is"
    )
    flow.run()
    read = direct.version()
    for number in range(2, 6):
        table.insert(id=number)
        lake.follow(source)
    assert first_unread(flow.pipeline, path, direct.id()) == read + 1
    assert direct.version() == read + 4
    commit = Path(path) / "_delta_log" / f"{read + 1:020}.json"
    long_ago = time.time() - 300 * 3600
    os.utime(commit, (long_ago, long_ago))
    few = replace(keeps, versions=2)
    assert few._kept(direct) == (302, 4)
    flow.run()
    assert few._kept(direct) == (168, 2), "it has caught up"


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
