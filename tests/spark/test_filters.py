"""Readers that filter find what is there: by statistics that each of our ways to commit leaves, before and after what
happens to a log. The same reader without files passed over says what is right, and so does Python.
"""

import random

import pytest

from ingest import statistics
from tests.outside import tables
from tests.outside.filters import differences, passed_over, refusals
from tests.outside.predicates import drawn

OTHERS = ("duckdb", "datafusion", "pyarrow", "polars")
SEED = 20_260


@pytest.fixture(scope="module")
def held():
    return tables.columns(random.Random(SEED))


@pytest.fixture(scope="module")
def asked(held):
    return drawn(held, random.Random(SEED), values=1)


@pytest.mark.parametrize("marks", [False, True])
def test_other_readers_find_every_row_in_a_table_by_delta_rs(tmp_path, held, asked, marks):
    """As written, after a checkpoint, after its files were put in order, and after a checkpoint of that."""
    made, lake = tables.direct(tmp_path, held, marks=marks)
    knows_marks = [one for one in OTHERS if one != "pyarrow"]
    for compacted in (False, True):
        if compacted:
            tables.compacted(lake)
        for checkpoint in (False, True):
            if checkpoint:
                made.checkpoint()
            assert differences(made, asked, knows_marks if marks else OTHERS) == []
    assert refusals(made, asked, OTHERS) == ({"pyarrow"} if marks else set())
    assert passed_over(made.path, asked) > len(asked) // 2


@pytest.mark.parametrize(
    "mutant", [None, "bounds are left out", "what is below a second is cut", "texts are cut"]
)
def test_each_mutant_of_what_is_written_is_met_by_a_filter(tmp_path, held, monkeypatch, mutant):
    if mutant == "bounds are left out":
        monkeypatch.setattr(statistics, "_above", lambda _: None)
    elif mutant == "what is below a second is cut":
        monkeypatch.setattr(statistics, "_instants", lambda low, high: (low, high[:19] + ".000000"))
    elif mutant == "texts are cut":
        monkeypatch.setattr(statistics, "raised", lambda text: text)
    kinds = {"VARCHAR(500)", "DATETIME(6)"}
    few = [one for one in held if one.mysql in kinds]
    made, _ = tables.direct(tmp_path, few, marks=False)
    found = differences(made, drawn(few, random.Random(SEED), values=20), OTHERS)
    assert bool(found) == (mutant is not None)
