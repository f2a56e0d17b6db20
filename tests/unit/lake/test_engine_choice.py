"""Which engine makes a MERGE."""

import pytest

from ingest.cli.plans import plan_table
from ingest.lake.delta.delta_snapshot import asked_of_writers
from ingest.lake.engines.engine_choice import (
    MARKS_PAY,
    MAX_BYTES,
    MAX_MARKED,
    MAX_TABLE,
    Choice,
    MergeFacts,
    choose,
    marks_pay,
    may_mark,
    may_prune,
    read_in_driver,
)
from ingest.model.topics import TableId
from ingest.observe.pipeline_plan import PipelinePlan
from ingest.source.connector import Plan

SMALL = MergeFacts(
    reachable=True,
    features=frozenset({"timestampNtz"}),
    table_bytes=10**6,
    bytes_of_changes=1000,
    key=("bigint",),
)


def changed(**facts):
    return MergeFacts(**{**vars(SMALL), **facts})


def test_what_one_machine_holds_is_merged_in_the_driver():
    assert choose("auto", SMALL).engine == "delta-rs"


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
        choice = choose(wanted, changed(**facts))
        assert choice.engine == "spark"
        assert because in choice.because


@pytest.mark.parametrize(
    "facts", [{"bytes_of_changes": MAX_BYTES + 1}, {"table_bytes": MAX_TABLE + 1}]
)
def test_what_is_large_is_spark_s_unless_delta_rs_is_asked_for(facts):
    assert choose("auto", changed(**facts)).engine == "spark"
    assert choose("delta-rs", changed(**facts)).engine == "delta-rs"


def test_the_pipeline_file_has_the_last_word_for_spark():
    assert choose("spark", SMALL).engine == "spark"


def test_rows_are_marked_where_files_are_large_and_readers_may_know_of_it():
    large = changed(table_rows=MARKS_PAY)
    assert may_mark("auto", large, "standard")
    assert not may_mark("auto", changed(table_rows=MARKS_PAY - 1), "standard")
    assert not may_mark("auto", large, "compat")
    assert not may_mark("delta-rs", large, "standard")
    for key in ((), ("decimal(9,0)",), ("bigint", "binary")):
        assert not may_mark("auto", changed(table_rows=MARKS_PAY, key=key), "standard")


def test_who_asks_for_deletion_vectors_gets_them_in_every_table_with_a_key_that_can_be_sought():
    assert may_mark("deletion-vectors", SMALL, "standard")
    assert not may_mark("deletion-vectors", changed(key=()), "standard")
    assert choose("deletion-vectors", SMALL).engine == "delta-rs"


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
    assert choose("auto", changed(features=frozenset({unknown}))).engine == "spark"


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
    for one in ({"wanted": "spark"}, {"lake": "s3://b/lake"}, {"state": True}, {"captured": []}):
        assert not read_in_driver(**{**facts, **one})


def test_the_plan_says_how_many_tables_each_engine_merges_and_why_spark_does():
    usual = choose("auto", SMALL)
    engines = {"shop.a": usual, "shop.b": Choice("spark", "of a reason"), "shop.c": usual}
    plan = PipelinePlan(Plan("nothing", ()), (), engines)
    said = [str(part) for part in plan_table(plan).renderables]
    assert "merges     2 of 3 tables by delta-rs" in said
    assert "           1 by Spark, since of a reason: shop.b" in said
    assert plan.as_json()["merges"]["shop.b"] == {"engine": "spark", "because": "of a reason"}
