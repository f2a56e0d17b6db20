"""A flow as a job: each batch once in its tables, whatever dies; changed functions; sinks that are not its own."""

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from ingest.flows import flow_query
from ingest.flows.unread import first_unread
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.maintenance import vacuum_times
from ingest.maintenance.schedule import Maintenance
from ingest.model.errors import IngestError
from ingest.model.failpoints import OF_FLOWS
from ingest.start import power_cut
from ingest.testing.source import Source
from tests.support.flows import OneFlow, at, counted, dying, words

EACH = "SELECT at, upper(word) word FROM words"


COUNTED = "SELECT window(at, '5 minutes') window, word, count(*) count FROM words GROUP BY window(at, '5 minutes'), word"


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


def test_a_table_does_not_lie_inside_another_one_nor_around_something_else(spark, tmp_path):
    spark.range(1).write.format("delta").save(str(tmp_path / "lake" / "shop" / "orders"))
    for folder, said in (
        ("shop/orders/out", "lies inside the table shop/orders"),
        ("shop", "something else is in"),
    ):
        flow = OneFlow(spark, tmp_path, EACH, sinks=[{"delta": folder}])
        with pytest.raises(IngestError, match=said):
            flow.run()


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


def test_upkeep_of_a_log_keeps_what_the_slowest_flow_has_still_to_read(logged, spark, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    flow = OneFlow(spark, tmp_path, EACH)
    flow.change("SELECT after.id id FROM words", inputs={"words": {"change_log": "d.t"}})
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    path = lake.pipeline.change_log_path(table.name)
    direct = within_reach(SparkTable(spark, path), str(lake.path), lake.term)
    unread = partial(first_unread, flow.pipeline)
    keeps = Maintenance.of(flow.pipeline, Committer(lake.term), unread=unread)
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
    assert few._kept(direct) == (vacuum_times.lasting(302), 4)
    flow.run()
    assert few._kept(direct) == (168, 2), "it has caught up"
