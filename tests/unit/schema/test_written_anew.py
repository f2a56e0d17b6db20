"""A small table is written anew where its columns would need a feature, which many readers refuse."""

import pytest

from ingest.schema import evolution
from ingest.schema.evolution import SMALL, Field, InPlace, Nothing, Rewrite

SAME, WIDER = Field("id", "int", "`id`", "id"), Field("n", "bigint", "CAST(`n` AS bigint)", "n")
WIDENS, DROPS = InPlace((SAME, WIDER), widened=True), InPlace((SAME,), mapped=True)


@pytest.mark.parametrize("plan", [WIDENS, DROPS], ids=str)
def test_a_small_plain_one_is(plan):
    assert evolution.is_written_anew(plan, SMALL, {"timestampNtz", "deletionVectors"})
    assert evolution.needed_by(plan)


@pytest.mark.parametrize(
    ("plan", "size", "features"),
    [
        (WIDENS, SMALL + 1, ()),
        (WIDENS, 0, {"typeWidening"}),
        (WIDENS, 0, {"typeWidening-preview"}),
        (WIDENS, 0, {"columnMapping"}),
        (InPlace((SAME, Field("a b", "int", "`n`", "n")), mapped=True), 0, ()),
        (InPlace((SAME, Field("x", "int", "NULL"))), 0, ()),
        (Nothing(), 0, ()),
        (Rewrite((SAME,)), 0, ()),
    ],
    ids=str,
)
def test_no_other_is(plan, size, features):
    assert not evolution.is_written_anew(plan, size, frozenset(features))
