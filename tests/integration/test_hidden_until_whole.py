"""A table without a key that is taken again on a real stack: at each version its readers see the old rows or the new ones."""

import itertools
import threading
from collections import Counter

import pytest
from deltalake import DeltaTable

from ingest.lake.delta.delta_sql import queried
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model import reasons
from tests.support.own_lab import own_lab

ROWS = 400
CHANGED = reasons.CHANGED_WHILE_READ.says


def versions(cli):
    path = cli.folder / "lake" / "hid" / "hid" / "bag"
    found = []
    for version in range(DeltaTable(path).version() + 1):
        rows = queried(DeltaTable(path, version=version), "SELECT a, b FROM rows")
        found.append(Counter((row["a"], row["b"]) for row in rows))
    return found


@pytest.mark.long  # the same without the chain: tests/spark/batch/test_hidden_until_whole.py
def test_a_table_that_comes_in_over_many_batches_is_seen_as_it_was_and_then_whole(cli, mysql):
    mysql.database("hid")
    listed = ", ".join(f"({n % 90}, 'row {n % 90}')" for n in range(ROWS))
    mysql.sql(
        "CREATE TABLE hid.bag (a INT, b VARCHAR(20))",
        "CREATE TABLE hid.none (a INT)",
        "CREATE TABLE hid.keyed (id INT PRIMARY KEY)",
        f"INSERT INTO hid.bag VALUES {listed}",
        "INSERT INTO hid.none VALUES (1), (1)",
    )
    file = cli.init("hid", "hid.*")
    text = file.read_text()
    file.write_text(
        text.replace("driver_memory: 1g", "driver_memory: 1g\n  max_changes_per_batch: 90")
    )
    assert (done := cli.once(file)).returncode == 0, done.stderr
    before = versions(cli)
    old = before[-1]
    assert old.total() == ROWS
    mysql.sql(
        "SET sql_log_bin = 0",
        "DELETE FROM hid.bag WHERE a = 3",
        "INSERT INTO hid.bag VALUES (900, 'new'), (900, 'new')",
        "DELETE FROM hid.none",
    )
    for table in ("hid.bag", "hid.none"):
        asked = cli("resync", str(file), table)
        assert "a blocking snapshot, as it has no key" in asked.stdout + asked.stderr
    cli.until_mended(file)
    new = old - Counter({(3, "row 3"): ROWS}) + Counter({(900, "new"): 2})
    after = versions(cli)[len(before) :]
    assert after[-1] == new
    assert [one for one in after if one not in (old, new)] == []
    batches = Ledger(str(cli.folder / "lake" / "hid")).entries(100)
    assert any(entry.tables["hid.bag"].hidden for entry in batches), "it came in over many"
    mysql.sql("INSERT INTO hid.bag VALUES (901, 'later')", "DELETE FROM hid.bag WHERE a = 900")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict


@pytest.fixture
def lab(stack, tmp_path):
    with own_lab(stack, tmp_path / "busy", "busy", tables=("bag",)) as found:
        yield found


@pytest.mark.long
def test_one_that_is_written_while_it_is_read_is_read_again_and_no_row_comes_twice(lab, cli):
    """Debezium reads it as of a later moment than the place that its rows carry, and streams what lies in between, too."""
    lab.sql(
        "DROP DATABASE IF EXISTS busy",
        "CREATE DATABASE busy",
        "CREATE TABLE busy.bag (id INT)",
        "INSERT INTO busy.bag VALUES (-1), (-1)",
    )
    lab.begin()
    lab.until(lambda: lab.lake_rows("bag") == lab.source_rows("bag"), "the first rows")
    ended = threading.Event()

    def write():
        for number in itertools.count(1):
            lab.sql(f"INSERT INTO busy.bag VALUES ({number})")
            if ended.wait(0.002):
                return

    writing = threading.Thread(target=write)
    writing.start()
    try:
        cli("resync", str(lab.file), "busy.bag")
        lab.until(lambda: CHANGED in (lab.folder / "job.log").read_text(), "a doubt")
    finally:
        ended.set()
        writing.join(60)
    lab.until_equal(240)
    same, verdict = cli.audit(lab.file)
    assert same, verdict
