"""What a flow keeps in state: seen by Spark's own reader, told in numbers, and not growing where its keys do not."""

from ingest.flows import flow_state
from tests.support.flows import OneFlow, at, words


def test_each_operator_s_rows_are_seen(spark, tmp_path):
    flow = OneFlow(
        spark, tmp_path, "SELECT word, count(*) n FROM words GROUP BY word", mode="complete"
    )
    assert flow_state.held(spark, flow.kept, 5) == []
    flow.put(words((at(1), "cat"), (at(2), "dog"), (at(3), "cat")))
    flow.run()
    (one,) = flow_state.held(spark, flow.kept, 5)
    assert (one.name, one.rows, one.partitions, one.batch) == ("stateStoreSave", 2, 2, 0)
    assert sorted(row["row"] for row in one.some) == [
        '{"key":{"word":"cat"},"value":{"count":2}}',
        '{"key":{"word":"dog"},"value":{"count":1}}',
    ]


def test_a_flow_without_state_has_none(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, "SELECT word FROM words")
    flow.put(words((at(1), "cat")))
    flow.run()
    assert flow_state.held(spark, flow.kept, 5) == []


def test_of_a_join_each_side_s_rows_are_seen(spark, tmp_path):
    text = """
def flow(words):
    return words.alias("l").join(words.alias("r"), "word").select("word")
"""
    flow = OneFlow(spark, tmp_path, text)
    flow.put(words((at(1), "cat")))
    flow.run()
    found = flow_state.held(spark, flow.kept, 5)
    assert {one.name for one in found} == {"symmetricHashJoin"}
    assert sum(one.rows for one in found) > 0
