"""A table with a key that is taken again while it is written to: what changes while a chunk is read is neither lost nor undone."""

import random
import threading
from contextlib import closing

import pytest

from tests.support.own_lab import own_lab

ROWS = 6_000
"""Fewer than a chunk has: what changes meanwhile stands before the place of all other rows of the reading."""


@pytest.fixture
def lab(stack, tmp_path):
    with own_lab(stack, tmp_path / "beside", "beside", tables=("t",)) as found:
        yield found


def left_out_of_chunks(lab):
    """How many rows Debezium has left out of a chunk since they were changed while it was read."""
    log = (lab.stack.home / "logs" / "connect.log").read_text(encoding="utf-8", errors="replace")
    return log.count("from window")


def write(lab, stop):
    """One change a transaction, as fast as MySQL takes them: half of them bring and take rows."""
    draw = random.Random(7)
    with closing(lab.stack.mysql().admin()) as connection, connection.cursor() as cursor:
        while not stop.is_set():
            row = draw.randint(1, ROWS)
            if draw.random() < 0.5:
                statement = f"UPDATE beside.t SET n = n + 1 WHERE id = {row}"
            elif cursor.execute(f"SELECT 1 FROM beside.t WHERE id = {row}"):
                statement = f"DELETE FROM beside.t WHERE id = {row}"
            else:
                statement = f"INSERT INTO beside.t VALUES ({row}, 0, 'again')"
            cursor.execute(statement)
            connection.commit()


@pytest.mark.long  # the rule alone: tests/unit/batch/test_settling.py
def test_rows_that_change_while_their_chunk_is_read_are_neither_lost_nor_undone(lab, cli):
    """Of 6,000 rows 29 were older afterwards than before, and those that had changed were removed, before
    `incremental.snapshot.allow.schema.changes` was set and rows of before the request alone were removed.
    """
    lab.sql(
        "DROP DATABASE IF EXISTS beside",
        "CREATE DATABASE beside",
        "CREATE TABLE beside.t (id INT PRIMARY KEY, n INT, v VARCHAR(1000))",
        "SET SESSION cte_max_recursion_depth = 10000000",
        f"INSERT INTO beside.t WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT i, 0, REPEAT('x', 900) FROM n",
    )
    lab.begin()
    lab.until(lambda: lab.lake_rows("t") == lab.source_rows("t"), "the first rows", 300)
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(lab, stop))
    writer.start()
    try:
        for _ in range(4):
            cli("resync", str(lab.file), "beside.t")
            lab.until(lambda: cli.is_taken_again(lab.file), "taken again", 300, every=1.0)
    finally:
        stop.set()
        writer.join()
    assert left_out_of_chunks(lab), "nothing was changed while a chunk was read"
    same, verdict = cli.audit(lab.file)
    assert same, verdict
