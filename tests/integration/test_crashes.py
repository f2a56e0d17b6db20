"""A job that is killed at any of its own steps is finished by the next, without a human."""

import shutil
import signal

from deltalake import DeltaTable

from ingest.failpoints import NAMES
from ingest.ledger import Ledger

CHANGES = (
    "INSERT INTO crash.keyed SELECT MAX(id) + 1, 1, 'new' FROM crash.keyed",
    "UPDATE crash.keyed SET v = CONCAT(v, '+') WHERE id <= 5",
    "UPDATE crash.keyed SET id = 1000 + {round} WHERE id = 3",
    "DELETE FROM crash.keyed WHERE id = 7",
    "REPLACE INTO crash.keyed VALUES (3, 2, 'back')",
    "INSERT INTO crash.bag VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    "DELETE FROM crash.bag WHERE a = 1 LIMIT 1",
    "UPDATE crash.bag SET b = CONCAT(COALESCE(b, ''), 'y') LIMIT 1",
    "REPLACE INTO crash.emptied VALUES (1), (2)",
    "TRUNCATE crash.emptied",
    "INSERT INTO crash.emptied VALUES (2), (3)",
)


def test_a_job_killed_at_every_failpoint_ends_equal(cli, mysql):
    mysql.database("crash")
    mysql.sql(
        "CREATE TABLE crash.keyed (id INT, part INT, v VARCHAR(200), PRIMARY KEY (part, id))",
        "CREATE TABLE crash.bag (a INT, b VARCHAR(200))",
        "CREATE TABLE crash.emptied (id INT PRIMARY KEY)",
        "INSERT INTO crash.keyed VALUES (1,1,'a'), (2,1,'b'), (3,1,'c'), (4,1,'d'), (7,1,'e')",
        "INSERT INTO crash.bag VALUES (1, 'x'), (1, 'x'), (9, 'z')",
    )
    file = cli.init("crash", "crash.*")
    lake = str(cli.folder / "lake" / "crash")
    for round_, failpoint in enumerate(NAMES):
        mysql.sql(*(change.format(round=round_) for change in CHANGES))
        before = Ledger(lake).last()
        marker = cli.folder / f"{failpoint}.reached"
        done = cli.once(
            file,
            INGEST_FAILPOINT=f"{failpoint}:kill",
            INGEST_FAILPOINT_REACHED=str(marker),
        )
        assert done.returncode == -signal.SIGKILL, (failpoint, done.stderr)
        assert marker.read_text().startswith(failpoint)
        after = Ledger(lake).last()
        published = (after.batch_id if after else -1) - (before.batch_id if before else -1)
        unpublished = failpoint not in ("manifest_committed", "offsets_committed")
        assert published == 0 if unpublished else published >= 1
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict


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
