"""What comes behind the watermark: kept pair by pair, judged as Spark judges it, and counted after all where one wants it."""

import json

import pytest

from ingest.flows import late_applied
from ingest.flows.flow_query import FlowQuery
from ingest.lake.delta.commit import Committer
from ingest.model.errors import IngestError
from ingest.schema.change_log import BEGINS_PROPERTY
from ingest.testing.source import Source
from tests.spark.flows import lateness
from tests.support.flows import WORDS, OneFlow, at, counted, place, words


def events_of(flow):
    return sorted((json.loads(row["event"])["word"], row["batch_id"]) for row in flow.late())


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_each_pair_of_event_and_window_is_counted_or_late(spark, tmp_path, seed):
    lateness.holds(spark, tmp_path, seed, 3000, ("append", "update")[seed % 2])


SLIDING = """SELECT window(at, '10 minutes', '5 minutes') window, word, count(*) count FROM words
GROUP BY window(at, '10 minutes', '5 minutes'), word"""


def fed(flow):
    """Of `old` one window is closed and one is not; of `dead` both are. By the watermark that the batch before has left: so two come first."""
    flow.put(words((at(31), "on")))
    flow.put(words((at(31), "on")))
    flow.put(words((at(17), "old"), (at(2), "dead"), (at(30), "on")))
    flow.put(words((at(120), "end")))
    return flow.run()


def test_an_event_may_be_late_for_one_window_and_count_in_another(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, SLIDING, mode="append")
    fed(flow)
    assert events_of(flow) == [("dead", 2), ("dead", 2), ("old", 2)]
    (old,) = [row for row in flow.late() if "old" in row["event"]]
    assert (old["window"]["start"], old["window"]["end"]) == (
        at(10).replace(tzinfo=None),
        at(20).replace(tzinfo=None),
    )
    assert old["watermark"] == at(21).replace(tzinfo=None)
    found = counted(flow.rows())
    assert found[at(15).replace(tzinfo=None), "old"] == 1
    assert (at(10).replace(tzinfo=None), "old") not in found


def applied(flow):
    pipeline = flow.pipeline.flows["f"]
    query = FlowQuery(flow.spark, flow.kept, pipeline, Committer(9), flow.said.append)
    return late_applied.apply(query)


def test_what_came_late_is_counted_after_all_and_twice_is_as_good_as_once(spark, tmp_path):
    sinks = [{"delta": "out", "keys": ["window", "word"]}]
    flow = OneFlow(spark, tmp_path, SLIDING, mode="append", sinks=sinks)
    fed(flow)
    for _ in range(2):
        applied(flow)
        found = counted(flow.rows())
        assert found[at(10).replace(tzinfo=None), "old"] == 1
        assert found[at(-5).replace(tzinfo=None), "dead"] == 1
        assert found[at(30).replace(tzinfo=None), "on"] == 3
        assert len(found) == len(flow.rows())
    flow.put(words((at(119), "end")))
    flow.run()
    flow.put(words((at(200), "end")))
    flow.run()
    assert counted(flow.rows())[at(115).replace(tzinfo=None), "end"] == 2, "the flow goes on"


BY_REGION = """SELECT window(at, '10 minutes', '5 minutes') window, c.region, count(*) count
FROM words w JOIN customers c ON c.word = w.word GROUP BY window(at, '10 minutes', '5 minutes'), c.region"""


def test_a_row_that_has_gone_from_a_window_that_is_computed_anew_goes_from_the_table(
    logged, spark, tmp_path
):
    source, lake = Source(), logged()
    known = {"old": "north", "dead": None, "on": "north", "end": None}
    rows = [{"word": word, "region": region} for word, region in known.items()]
    kind = {"word": "VARCHAR(9)", "region": "VARCHAR(9)"}
    customers = source.table("d.customers", kind, ["word"], rows=rows)
    lake.follow(source)
    sinks = [{"delta": "out", "keys": ["window", "region"]}]
    flow = OneFlow(spark, tmp_path, BY_REGION, sinks=sinks)
    both = {
        "words": {**WORDS, "files": str(flow.source)},
        "customers": {"table": "d.customers"},
    }
    flow.change(BY_REGION, sinks=sinks, inputs=both)
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    flow.put(words((at(16), "old"), (at(16), "dead"), (at(1), "end"), (at(16), "end")))
    fed(flow)

    def found():
        rows = spark.read.format("delta").load(str(lake.path / "out")).collect()
        return sorted(
            (int((row.window.start - at(0).replace(tzinfo=None)).total_seconds() / 60), row.region or "", row["count"])
            for row in rows
        )  # fmt: skip

    before = found()
    assert [one for one in before if one[0] == 10] == [(10, "", 2), (10, "north", 1)]
    customers.update("old", region="south")
    customers.update("dead", region="south")
    customers.update("end", region="west")
    lake.follow(source)
    applied(flow)
    # Of windows that something was late for; all others are as they were.
    anew = [(-5, "south", 1), (-5, "west", 1), (0, "south", 1), (0, "west", 1), (10, "south", 3), (10, "west", 1)]  # fmt: skip
    assert found() == sorted([one for one in before if one[0] not in (-5, 0, 10)] + anew)
    assert applied(flow) == late_applied.Applied(0, 0)


def test_a_log_that_has_lost_old_days_does_not_hold_all_that_was_read(logged, spark, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT", "s": "INT"}, ["id"])
    text = "SELECT window(event_time, '10 minutes') window, count(*) count FROM words GROUP BY window(event_time, '10 minutes')"
    flow = OneFlow(spark, tmp_path, text)
    given = {"change_log": "d.t", "event_time": "timestamp_seconds(after.s)"}
    given |= {"watermark": "10 minutes", "at_once": 1}
    sinks = [{"delta": "out", "keys": ["window"]}]
    flow.change(text, inputs={"words": given}, sinks=sinks, mode="update")
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    for id_, second in enumerate((1, 9000, 9000, 2)):
        table.insert(id=id_, s=second)
        lake.follow(source)
    flow.run()
    assert len(flow.late()) == 1
    log = lake.pipeline.change_log_path(table.name)
    said = json.dumps({"batch": 3, "day": "2026-01-01"})
    spark.sql(f"ALTER TABLE delta.`{log}` SET TBLPROPERTIES ('{BEGINS_PROPERTY}' = '{said}')")
    with pytest.raises(IngestError, match=r"its input 'words' is a change log .*change_log_days"):
        applied(flow)
    spark.sql(f"ALTER TABLE delta.`{log}` UNSET TBLPROPERTIES ('{BEGINS_PROPERTY}')")
    assert applied(flow).rows == 1


def test_it_cannot_be_where_the_result_does_not_say_which_rows_it_belongs_to(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, SLIDING.replace(") window", ").start minute"), mode="append")
    fed(flow)
    with pytest.raises(IngestError, match="has no column `window`"):
        applied(flow)
    flow.change(SLIDING, mode="append")
    with pytest.raises(IngestError, match="has no `keys`"):
        applied(flow)
    flow.change(SLIDING, mode="append", sinks=[{"delta": "out", "keys": ["window", "word"]}])
    with pytest.raises(IngestError, match="its table out has no column `window`"):
        applied(flow)


def test_complete_mode_drops_nothing(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, SLIDING, mode="complete")
    assert fed(flow).late == 0
    assert flow.late() == []
    assert counted(flow.rows())[at(0).replace(tzinfo=None), "dead"] == 1


def test_of_session_windows_each_event_is_judged_by_its_own_session(spark, tmp_path):
    text = """SELECT session_window(at, '5 minutes') window, word, count(*) count FROM words
    GROUP BY session_window(at, '5 minutes'), word"""
    flow = OneFlow(spark, tmp_path, text, mode="append")
    flow.put(words((at(31), "on")))
    flow.put(words((at(31), "on")))
    flow.put(words((at(14), "late"), (at(17), "in time"), (at(16), "late"), (at(30), "on")))
    flow.put(words((at(120), "end")))
    flow.run()
    assert events_of(flow) == [("late", 2), ("late", 2)]
    found = {row["word"]: row["count"] for row in flow.rows()}
    assert found == {"on": 3, "in time": 1}


@pytest.mark.long
def test_of_a_deduplication_each_event_is_judged(spark, tmp_path):
    text = """
def flow(words):
    return words.dropDuplicates(["word", "at"])
"""
    flow = OneFlow(spark, tmp_path, text)
    flow.put(words((at(31), "on")))
    flow.put(words((at(14), "in time, too")))  # judged by the batch before, which had none
    flow.put(words((at(14), "late"), (at(31), "on"), (at(30), "in time")))
    flow.run()
    assert events_of(flow) == [("late", 2)]
    assert sorted(row["word"] for row in flow.rows()) == ["in time", "in time, too", "on"]


def test_of_a_join_each_event_of_either_side_is_judged(spark, tmp_path):
    text = """
from pyspark.sql import functions as F

def flow(words, more):
    left, right = words.alias("l"), more.alias("r")
    near = F.expr("l.word = r.word AND r.at BETWEEN l.at - INTERVAL 1 HOUR AND l.at + INTERVAL 1 HOUR")
    return left.join(right, near).select("l.word", F.col("l.at").alias("at"))
"""
    flow = OneFlow(spark, tmp_path, text)
    other = tmp_path / "more"
    other.mkdir()
    both = {"files": str(flow.source), "columns": "at timestamp, word string"}
    both |= {"event_time": "at", "watermark": "10 minutes", "at_once": 1}
    flow.change(text, inputs={"words": both, "more": {**both, "files": str(other)}})

    def put(n, rows):
        (other / f".{n}").write_text("\n".join(json.dumps(one) for one in rows))
        place(other / f".{n}", other / f"{n}.json", n)

    flow.put(words((at(60), "a")))
    put(0, words((at(61), "a")))
    flow.run()
    flow.put(words((at(40), "late"), (at(59), "a")))
    put(1, words((at(30), "late too")))
    flow.run()
    assert sorted({word for word, _ in events_of(flow)}) == ["late", "late too"]
    assert sorted(row["word"] for row in flow.rows()) == ["a", "a"]


def test_a_stream_joined_with_a_table_drops_nothing_by_that(spark, tmp_path):
    text = """
from pyspark.sql import functions as F

def flow(words):
    known = words.sparkSession.createDataFrame([("old", 1), ("dead", 2), ("on", 3)], "word string, n int")
    window = F.window("at", "10 minutes", "5 minutes")
    return words.join(known, "word").groupBy(window.alias("window"), "word").count()
"""
    flow = OneFlow(spark, tmp_path, text)
    fed(flow)
    assert {row["operator"] for row in flow.late()} == {"Aggregate"}
    assert events_of(flow) == [("dead", 2), ("dead", 2), ("old", 2)]


@pytest.mark.long
def test_of_a_distinct_each_row_is_judged(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, "SELECT DISTINCT at, word FROM words")
    fed(flow)
    assert [word for word, _ in events_of(flow)] == ["dead", "old"]


def test_only_a_flow_that_has_read_all_can_count_it_after_all(spark, tmp_path):
    sinks = [{"delta": "out", "keys": ["window", "word"]}]
    late = {"words": {"starting": "latest"}}
    flow = OneFlow(spark, tmp_path, SLIDING, sinks=sinks, **late)
    fed(flow)
    with pytest.raises(IngestError, match="was not read from its beginning"):
        applied(flow)
    flow.change(SLIDING.replace("count(*)", "max(word)"), sinks=sinks)
    with pytest.raises(IngestError, match="cannot go on from its checkpoint"):
        applied(flow)


def test_a_flow_that_is_not_to_keep_it_does_not(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, SLIDING, mode="append", keep_late=False)
    assert fed(flow).late == 3
    assert flow.late() == []
