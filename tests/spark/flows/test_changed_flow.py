"""A flow that was changed, or that something is gone of: it goes on where it can, and says so where it cannot."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.lake.delta.commit import Committer
from ingest.model.errors import IngestError
from tests.support.flows import OneFlow, at, words

EACH = "SELECT at, upper(word) word FROM words"


COUNTED = "SELECT window(at, '5 minutes') window, word, count(*) count FROM words GROUP BY window(at, '5 minutes'), word"


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


def test_what_an_event_time_is_made_of_is_part_of_the_state(spark, tmp_path):
    by_time = "SELECT window(event_time, '5 minutes') window, count(*) n FROM words GROUP BY window(event_time, '5 minutes')"
    flow = OneFlow(spark, tmp_path, by_time, words={"event_time": "at + INTERVAL 0 HOURS"})
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change(by_time, words={"event_time": "at + INTERVAL 1 HOURS"})
    with pytest.raises(IngestError, match="by words's event time, which was at .* 0 .* would be"):
        flow.run()
    flow.kept.keep(
        replace(record := flow.kept.record(), fingerprint=replace(record.fingerprint, times=None))
    )
    flow.run()
    assert flow.kept.record().fingerprint.times, (
        "one that an earlier version has begun goes on, and knows it from now on"
    )


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


@pytest.mark.parametrize("sink", ["delta", "files"])
def test_without_all_that_it_has_kept_it_adds_nothing_to_what_it_has_written(spark, tmp_path, sink):
    sinks = [{"delta": "out"}] if sink == "delta" else [{"files": str(tmp_path / "out")}]
    flow = OneFlow(spark, tmp_path, EACH, sinks=sinks)
    flow.put(words((at(1), "cat")))
    flow.run()
    shutil.rmtree(tmp_path / "lake/_ingest/flows/f")
    flow.put(words((at(2), "dog")))
    with pytest.raises(IngestError, match="rows that it has written are there"):
        flow.run()
    flow.change(EACH, sinks=sinks, on_change="restart")
    flow.run()
    if sink == "delta":
        assert sorted(row["word"] for row in flow.rows()) == ["CAT", "DOG"]
    else:
        assert {one.name.split("-")[0] for one in (tmp_path / "out").iterdir()} == {
            "batch=1",
            "batch=2",
        }


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


def test_a_first_start_that_was_killed_between_its_checkpoint_s_id_and_its_record_is_followed_by_one_that_goes_on(
    spark, tmp_path
):
    flow = OneFlow(spark, tmp_path, EACH)
    flow.put(words((at(1), "cat")))
    checkpoint = tmp_path / "lake" / "_ingest" / "flows" / "f" / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "ingest.identity").write_text("of a record that was never written")
    flow.run()
    assert [row["word"] for row in flow.rows()] == ["CAT"]
