"""Which engine makes a MERGE."""

import pytest

from ingest.cli.plans import plan_table
from ingest.lake.delta.delta_snapshot import asked_of_writers
from ingest.lake.engines.delta_rs_limits import (
    MARKS_PAY,
    MAX_BYTES,
    MAX_BYTES_WITHOUT_KEY,
    MAX_MARKED,
    MAX_TABLE,
    marks_pay,
    may_mark,
    may_prune,
)
from ingest.lake.engines.engine_choice import Choice, MergeFacts, choose, read_in_driver
from ingest.lake.engines.registry import ENGINES
from ingest.model.reasons import MERGED_BY
from ingest.model.topics import TableId
from ingest.observe.pipeline_plan import PipelinePlan
from ingest.source.connector import Plan

SMALL = MergeFacts(
    wanted="auto",
    profile="standard",
    reachable=True,
    features=frozenset({"timestampNtz"}),
    table_bytes=10**6,
    bytes_of_changes=1000,
    key=("bigint",),
)


def changed(**facts):
    return MergeFacts(**{**vars(SMALL), **facts})


def test_what_one_machine_holds_is_merged_in_the_driver():
    assert choose(ENGINES, SMALL).engine == "delta-rs"


@pytest.mark.parametrize(
    ("facts", "because"),
    [
        ({"reachable": False}, "folder"),
        ({"features": frozenset({"typeWidening"})}, "typeWidening"),
        ({"features": frozenset({"changeDataFeed"})}, "changeDataFeed"),
        ({"key": ("bigint", "double")}, "floating-point"),
    ],
)
def test_what_delta_rs_cannot_write_right_is_spark_s_whatever_is_wanted(facts, because):
    for wanted in ("auto", "delta-rs"):
        choice = choose(ENGINES, changed(wanted=wanted, **facts))
        assert choice.engine == "spark"
        assert because in choice.because


@pytest.mark.parametrize(
    "facts", [{"bytes_of_changes": MAX_BYTES + 1}, {"table_bytes": MAX_TABLE + 1}]
)
def test_what_is_large_is_spark_s_unless_delta_rs_is_asked_for(facts):
    assert choose(ENGINES, changed(**facts)).engine == "spark"
    assert choose(ENGINES, changed(wanted="delta-rs", **facts)).engine == "delta-rs"


CHOSEN = [
    ({}, "delta-rs: it fits into one machine's memory"),
    ({"wanted": "delta-rs"}, "delta-rs: the pipeline file says so"),
    ({"wanted": "deletion-vectors"}, "delta-rs: the pipeline file says so"),
    ({"wanted": "spark"}, "spark: the pipeline file says so"),
    ({"wanted": "spark", "reachable": False}, "spark: the pipeline file says so"),
    (
        {"reachable": False},
        "spark: it is not in a local folder with a plain name, or delta-rs does not read its log",
    ),
    (
        {"wanted": "delta-rs", "features": frozenset({"b", "a"})},
        "spark: delta-rs does not write a, b",
    ),
    ({"key": ("double",)}, "spark: a key column is a floating-point number"),
    ({"bytes_of_changes": MAX_BYTES + 2**20}, "spark: 257 MiB of changes in one batch"),
    ({"bytes_of_changes": 5000 * 2**20}, "spark: 5,000 MiB of changes in one batch"),
    (
        {"key": (), "bytes_of_changes": MAX_BYTES_WITHOUT_KEY + 1},
        "spark: it has no key, and a batch brings many changes",
    ),
    ({"table_bytes": MAX_TABLE * 3 // 2}, "spark: the table has 6.0 GiB"),
    (
        {"stays": True},
        "spark: its changes are with the cluster's tasks, and more than the driver takes",
    ),
    ({"stays": True, "wanted": "delta-rs"}, "delta-rs: the pipeline file says so"),
]


@pytest.mark.parametrize(("facts", "said"), CHOSEN)
def test_a_choice_says_the_sentence_that_manifests_hold(facts, said):
    choice = choose(ENGINES, changed(**facts))
    assert str(choice) == said
    assert [one for one in MERGED_BY if one.is_in(choice.because)]


def test_the_pipeline_file_has_the_last_word_for_spark():
    assert choose(ENGINES, changed(wanted="spark")) == Choice("spark", "the pipeline file says so")


def test_rows_are_marked_where_files_are_large_and_readers_may_know_of_it():
    assert may_mark(changed(table_rows=MARKS_PAY))
    assert not may_mark(changed(table_rows=MARKS_PAY - 1))
    assert not may_mark(changed(table_rows=MARKS_PAY, profile="compat"))
    assert not may_mark(changed(table_rows=MARKS_PAY, wanted="delta-rs"))
    for key in ((), ("decimal(9,0)",), ("bigint", "binary")):
        assert not may_mark(changed(table_rows=MARKS_PAY, key=key))


def test_who_asks_for_deletion_vectors_gets_them_in_every_table_with_a_key_that_can_be_sought():
    assert may_mark(changed(wanted="deletion-vectors"))
    assert not may_mark(changed(wanted="deletion-vectors", key=()))
    assert choose(ENGINES, changed(wanted="deletion-vectors")).engine == "delta-rs"


def test_a_few_changes_to_much_are_marked_and_others_are_not():
    assert marks_pay(MARKS_PAY, MAX_MARKED)
    assert not marks_pay(MARKS_PAY - 1, 1)
    assert not marks_pay(MARKS_PAY, MAX_MARKED + 1)


def test_only_whole_numbers_are_sought_by_their_range():
    assert may_prune(("bigint", "int"))
    assert not may_prune(("bigint", "string"))
    assert not may_prune(())


def test_a_protocol_that_names_no_features_and_asks_for_more_than_plain_tables_is_a_feature_itself():
    assert asked_of_writers(2, []) == frozenset()
    assert asked_of_writers(7, ["timestampNtz"]) == {"timestampNtz"}
    (unknown,) = asked_of_writers(4, [])
    assert choose(ENGINES, changed(features=frozenset({unknown}))).engine == "spark"


def test_the_driver_reads_tables_with_a_key_where_nothing_asks_for_spark():
    keyed, other = (TableId("d", name) for name in ("keyed", "other"))
    facts = {
        "wanted": "auto",
        "captured": [keyed, other],
        "lake": "/lake",
        "state": False,
        "keyed": {keyed, TableId("d", "not captured")},
    }
    assert read_in_driver(**facts) == {keyed}
    assert read_in_driver(**{**facts, "lake": "s3a://b/lake"}) == {keyed}
    for one in ({"wanted": "spark"}, {"lake": "hdfs://n/lake"}, {"state": True}, {"captured": []}):
        assert not read_in_driver(**{**facts, **one})


def test_the_plan_says_how_many_tables_each_engine_merges_and_why_spark_does():
    usual = choose(ENGINES, SMALL)
    engines = {"shop.a": usual, "shop.b": Choice("spark", "of a reason"), "shop.c": usual}
    plan = PipelinePlan(Plan("nothing", ()), (), engines)
    said = [str(part) for part in plan_table(plan).renderables]
    assert "merges     2 of 3 tables by delta-rs" in said
    assert "           1 by Spark, since of a reason: shop.b" in said
    assert plan.as_json()["merges"]["shop.b"] == {"engine": "spark", "because": "of a reason"}
