"""A whole pipeline with its lake in HDFS: snapshot, changes, DDL, a job that is killed while it applies them, a table that is taken again, and the audit."""

import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.support import hdfs


@pytest.mark.long
def test_a_lake_in_hdfs_is_equal_to_its_source_behind_a_kill(cli, mysql, tmp_path):
    server = hdfs.start(tmp_path / "hdfs")
    try:
        mysql.database("far")
        mysql.sql(
            "CREATE TABLE far.orders (id INT PRIMARY KEY, note VARCHAR(40))",
            "CREATE TABLE far.log (line VARCHAR(40))",
            "CREATE TABLE far.emptied (id INT PRIMARY KEY)",
            "INSERT INTO far.orders VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO far.log VALUES ('a'), ('a'), (NULL)",
            "INSERT INTO far.emptied VALUES (1)",
        )
        file = cli.init("far", "far.*")
        said = yaml.safe_load(file.read_text())
        said["lake"] = {"path": f"{server.uri}/lake"}
        file.write_text(yaml.safe_dump(said))
        went(cli.once(file))
        running = subprocess.Popen(
            [sys.executable, "-m", "ingest", "run", str(file)],
            cwd=cli.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            time.sleep(20)
            refused = cli.once(file)
            assert "E-LEASE-HELD" in refused.stderr, refused.stderr
            mysql.sql(
                "UPDATE far.orders SET note = 'second' WHERE id = 2",
                "ALTER TABLE far.orders ADD COLUMN more INT DEFAULT 7",
                "INSERT INTO far.orders VALUES (3, 'three', 3)",
                "DELETE FROM far.log WHERE line = 'a' LIMIT 1",
                "TRUNCATE far.emptied",
            )
            time.sleep(1.5)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        went(cli.once(file))
        assert "nothing is pending" in went(cli("plan", str(file))).stdout
        mysql.sql("SET sql_log_bin = 0", "UPDATE far.orders SET note = 'unlogged' WHERE id = 1")
        went(cli("resync", str(file), "far.orders"))
        mysql.sql("INSERT INTO far.orders VALUES (4, 'four', 4)")
        went(cli.once(file))
        assert "EQUAL" in went(cli("audit", str(file), "--wait", "60")).stdout
    finally:
        server.stop()


def went(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done
