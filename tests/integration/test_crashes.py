"""A checkpoint that is lost, and a row that was never seen. Kills are in `test_kills.py`."""

import shutil

import pytest
from deltalake import DeltaTable

from ingest.lake.manifest.manifest_reader import Ledger


@pytest.mark.long
def test_a_lost_checkpoint_is_rebuilt_and_a_row_never_seen_is_quarantined(cli, mysql):
    mysql.database("lost")
    mysql.sql(
        "CREATE TABLE lost.t (id INT PRIMARY KEY, v INT)", "INSERT INTO lost.t VALUES (1,1),(2,2)"
    )
    mysql.sql("CREATE TABLE lost.bag (a INT)", "INSERT INTO lost.bag VALUES (1), (1)")
    file = cli.init("lost", "lost.*")
    assert cli.once(file).returncode == 0
    shutil.rmtree(cli.folder / "lake" / "lost" / "_ingest" / "checkpoint")
    mysql.sql(
        "DELETE FROM lost.t WHERE id = 1",
        "INSERT INTO lost.t VALUES (3, 3)",
        "SET sql_log_bin = 0",
        "INSERT INTO lost.bag VALUES (5)",
        "SET sql_log_bin = 1",
        "DELETE FROM lost.bag WHERE a = 5",
    )
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    assert "resuming from the manifest" in done.stderr
    newest = Ledger(str(cli.folder / "lake" / "lost")).last()
    assert newest is not None
    assert newest.changes == 3, "only what came after the manifest is read again"
    done = cli("audit", str(file))
    assert (done.returncode, "EQUAL" in done.stdout) == (0, True), done.stdout + done.stderr
    quarantine = DeltaTable(str(cli.folder / "lake" / "lost" / "_ingest" / "quarantine"))
    (row,) = quarantine.to_pyarrow_table().to_pylist()
    assert row["reason"] == "the row to remove is not in the lake"
    assert (row["topic"], b'"a":5' in bytes(row["value"])) == ("lost.lost.bag", True)
