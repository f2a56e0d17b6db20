"""A session that compresses its transactions: told, and put right, whatever it did."""

import pytest

from ingest.lake.manifest.manifest_reader import Ledger

COMPRESSED = "SET SESSION binlog_transaction_compression = ON"


def until_equal(cli, file):
    cli.until_mended(file)
    equal, verdict = cli.audit(file)
    assert equal, verdict


@pytest.mark.long
def test_what_a_session_compresses_is_told_and_taken_again_until_the_lake_is_equal(cli, mysql):
    mysql.database("zip")
    mysql.sql(
        "CREATE TABLE zip.keyed (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE zip.bag (a INT, b INT)",
        "CREATE TABLE zip.plain (id INT PRIMARY KEY, v INT)",
        "INSERT INTO zip.keyed VALUES (1, 1), (2, 1), (3, 1), (4, 1)",
        "INSERT INTO zip.bag VALUES (1, 1)",
        "INSERT INTO zip.plain VALUES (1, 1)",
    )
    file = cli.init("zip", "zip.*")
    assert cli.once(file).returncode == 0
    mysql.sql(
        COMPRESSED,
        "START TRANSACTION",
        "UPDATE zip.keyed SET v = 2 WHERE id = 1",
        "DELETE FROM zip.keyed WHERE id = 1",
        "UPDATE zip.keyed SET v = 2 WHERE id = 2",
        "UPDATE zip.keyed SET v = 3 WHERE id = 2",
        "INSERT INTO zip.bag VALUES (7, 7), (8, 8)",
        "INSERT INTO zip.bag VALUES (7, 7)",
        "INSERT INTO zip.plain VALUES (2, 2), (3, 3)",
        "COMMIT",
    )
    first = cli.once(file)
    assert first.returncode == 0, first.stderr
    for table in ("zip.keyed", "zip.bag"):
        assert f"{table}: several changes have one place in the log" in first.stderr
        assert f"{table}: asked for" in first.stderr
    assert "binlog_transaction_compression, which has to be OFF in every session" in first.stderr
    assert "zip.plain: several" not in first.stderr
    status = cli("status", str(file), "--all").stdout
    assert "zip.keyed: several changes have one place in the log" in status
    until_equal(cli, file)


@pytest.mark.long
def test_it_is_told_where_each_change_is_a_batch_whose_end_hides_nothing(cli, mysql):
    mysql.database("zip2")
    mysql.sql(
        "CREATE TABLE zip2.plain (id INT PRIMARY KEY, v INT)",
        "INSERT INTO zip2.plain VALUES (1, 1)",
    )
    file = cli.init("zip2", "zip2.*")
    text = file.read_text()
    file.write_text(
        text.replace("driver_memory: 1g", "driver_memory: 1g\n  max_changes_per_batch: 1")
    )
    assert cli.once(file).returncode == 0
    updates = [f"UPDATE zip2.plain SET v = {n} WHERE id = 1" for n in (2, 3)]
    mysql.sql(COMPRESSED, "START TRANSACTION", *updates, "COMMIT")
    ledger = Ledger(str(cli.folder / "lake" / "zip2"))
    before = ledger.last()
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    assert all(e.changes <= 1 for e in ledger.entries(50) if e.batch_id > before.batch_id)
    assert "several changes" in ledger.last().gaps[-1].reason
    assert ledger.last().gaps[-1].table == "zip2.plain"
    until_equal(cli, file)


def test_the_setting_for_all_sessions_is_refused(cli, mysql):
    mysql.database("zip3")
    mysql.sql("CREATE TABLE zip3.t (id INT PRIMARY KEY)")
    file = cli.init("zip3", "zip3.*")
    try:
        mysql.sql("SET GLOBAL binlog_transaction_compression = ON")
        for done in (cli.once(file), cli("audit", str(file))):
            assert done.returncode == 2
            assert "E-MYSQL-BINLOG" in done.stderr
            assert "SET PERSIST binlog_transaction_compression = OFF" in done.stderr
        (cli.folder / "zip3.yaml").unlink()
        with pytest.raises(AssertionError, match="binlog_transaction_compression=ON"):
            cli.init("zip3", "zip3.*")
    finally:
        mysql.sql("SET GLOBAL binlog_transaction_compression = OFF")
