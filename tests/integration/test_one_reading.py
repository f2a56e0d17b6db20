"""A table without a key that is taken again while its server is quiet: all rows of the one reading count."""

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from ingest.kafka import broker
from tests.support.own_lab import own_lab

ROWS = 80_000
TRIES = 5


@pytest.fixture
def lab(stack, tmp_path):
    with own_lab(stack, tmp_path / "reading", "reading", tables=("bag", "other")) as found:
        yield found


def end(lab):
    """Where the table's topic ends."""
    place = ("reading.reading.bag", 0)
    return broker.end_offsets(lab.pipeline(), [place[0]])[place]


def places(lab):
    """How many places the rows of the lake's table have."""
    rows = DeltaTable(lab.lake / "reading" / "bag").to_pyarrow_table(columns=["_ingest"])
    return len(pc.unique(pc.struct_field(rows["_ingest"], ["position", "pos"])))


@pytest.mark.long  # without the chain: tests/spark/batch/test_hidden_until_whole.py
def test_rows_of_one_reading_carry_two_places_where_an_event_comes_meanwhile_and_none_is_lost(
    lab, cli
):
    """Debezium 3.6.1 gives a row the place of the newest event that it has seen, and sees one more while it reads."""
    lab.sql(
        "DROP DATABASE IF EXISTS reading",
        "CREATE DATABASE reading",
        "CREATE TABLE reading.bag (id INT, t VARCHAR(200))",
        "CREATE TABLE reading.other (id INT PRIMARY KEY AUTO_INCREMENT)",
        "INSERT INTO reading.bag VALUES (-1, '')",
    )
    lab.begin()
    lab.until(lambda: lab.lake_rows("bag") == lab.source_rows("bag"), "the first rows")
    lab.sql(
        "SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 10000000",
        f"INSERT INTO reading.bag WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT i, REPEAT('x', 100) FROM n",
    )
    found = 0
    for _ in range(TRIES):
        begin = end(lab)
        cli("resync", str(lab.file), "reading.bag")
        lab.until(lambda begin=begin: end(lab) > begin, "its first row in Kafka")
        lab.sql("INSERT INTO reading.other VALUES ()")
        lab.until(lambda: cli.is_taken_again(lab.file), "taken again", 300, every=5.0)
        found = places(lab)
        if found > 1:
            break
    assert found == 2, "an event came while it was read"
    same, verdict = cli.audit(lab.file)
    assert same, verdict
