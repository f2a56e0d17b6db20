"""Two tables are taken again by one signal, and the connector cannot read the first: what it has read of the second is not trusted."""

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from ingest.model import reasons
from tests.support.own_lab import own_lab

ROWS = 3_000
"""More than a chunk has."""
FIRST = {"a": 10_001, "b": 1}
"""The lowest keys: what is of one table is seen in the other."""
BAD = FIRST["a"] + 1_500
"""A row of the second chunk."""


@pytest.fixture
def lab(stack, tmp_path):
    with own_lab(stack, tmp_path / "spoilt", "spoilt", tables=("a", "b")) as found:
        yield found


def rows(name):
    numbers = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    texts = f"""SELECT i + {FIRST[name] - 1}, CONCAT('["{name}", ', i, ']') FROM n"""
    return (
        f"CREATE TABLE spoilt.{name} (id INT PRIMARY KEY, v VARCHAR(40))",
        f"INSERT INTO spoilt.{name} {numbers} {texts}",
    )


def told(lab):
    """Tables of which it was said that rows of another may stand in them."""
    why = reasons.AMONG_OTHERS.says
    return [gap.table for gap in lab.entry().gaps if gap.reason == why]


def others_in_b(lab):
    """How many rows of `a` stood in the lake's `b` at a time: what Debezium does where nobody looks."""
    path, wrong = str(lab.lake / "spoilt" / "b"), (pc.field("id") >= FIRST["a"])
    versions = range(DeltaTable(path).version() + 1)
    held = [DeltaTable(path, version=n).to_pyarrow_dataset().count_rows(wrong) for n in versions]
    return max(held)


@pytest.mark.long  # the rule alone: tests/unit/source/test_snapshot_notices.py and tests/unit/batch/test_settling.py
def test_what_was_read_behind_a_table_that_was_given_up_is_read_again_and_the_table_when_it_can_be(
    lab, cli
):
    """A virtual column that is added is computed when a row is read: of one row of `a` it cannot be."""
    lab.sql(
        "DROP DATABASE IF EXISTS spoilt",
        "CREATE DATABASE spoilt",
        "SET SESSION cte_max_recursion_depth = 10000",
        *rows("a"),
        *rows("b"),
        f"UPDATE spoilt.a SET v = 'no JSON' WHERE id = {BAD}",
    )
    lab.begin()
    lab.until(
        lambda: all(lab.lake_rows(t) == lab.source_rows(t) for t in "ab"), "the first rows", 300
    )
    lab.sql(
        *(f"ALTER TABLE spoilt.{t} ADD COLUMN items INT AS (JSON_LENGTH(v)) VIRTUAL" for t in "ab"),
        "UPDATE spoilt.a SET v = '[]' WHERE id = 10001",
        "UPDATE spoilt.b SET v = '[]' WHERE id = 1",
    )
    lab.until(lambda: "spoilt.b" in told(lab), "the connector gave `a` up", 300)
    lab.until(lambda: lab.lake_rows("b") == lab.source_rows("b"), "the second is whole", 300)
    lab.sql(
        "ALTER TABLE spoilt.a DROP COLUMN items", "UPDATE spoilt.a SET v = '[1]' WHERE id = 10001"
    )
    lab.until(lambda: cli.is_taken_again(lab.file), "both are taken again", 300, every=1.0)
    assert "spoilt.b" in told(lab)
    assert others_in_b(lab) > 0, "Debezium sends no table's rows as another's any more"
    same, verdict = cli.audit(lab.file)
    assert same, verdict
