"""Which engine makes a MERGE."""

import pytest

from ingest.engine import MAX_BYTES, MAX_TABLE, MergeFacts, choose, may_prune

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


def test_only_whole_numbers_are_sought_by_their_range():
    assert may_prune(("bigint", "int"))
    assert not may_prune(("bigint", "string"))
    assert not may_prune(())
