"""A whole pipeline with its lake in an object store: snapshot, changes, DDL, a job that is killed, a table taken again, and the audit."""

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.support import s3


@pytest.fixture
def pipeline(cli, mysql, store):
    """Its file, of three tables; under a name of its own, by which no connector has read what these tables were to the test before."""
    name = f"remote-{time.time_ns()}"
    mysql.database("remote")
    mysql.sql(
        "CREATE TABLE remote.orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "CREATE TABLE remote.log (line VARCHAR(40))",
        "CREATE TABLE remote.emptied (id INT PRIMARY KEY)",
        "INSERT INTO remote.orders VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO remote.log VALUES ('a'), ('a'), (NULL)",
        "INSERT INTO remote.emptied VALUES (1)",
    )
    file = cli.init(name, "remote.*")
    said = yaml.safe_load(file.read_text())
    said["lake"] = {
        "path": f"s3a://{s3.BUCKET}/{name}",
        "storage": store.storage(),
    }
    file.write_text(yaml.safe_dump(said))
    return file


def went(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def equal(cli, file):
    return "EQUAL" in went(cli("audit", str(file), "--wait", "60")).stdout


@pytest.mark.long
def test_a_lake_in_an_object_store_is_equal_to_its_source(cli, mysql, pipeline):
    file = str(pipeline)
    went(cli.once(pipeline))
    mysql.sql(
        "UPDATE remote.orders SET note = 'second' WHERE id = 2",
        "ALTER TABLE remote.orders ADD COLUMN more INT DEFAULT 7",
        "INSERT INTO remote.orders VALUES (3, 'three', 3)",
        "DELETE FROM remote.log WHERE line = 'a' LIMIT 1",
        "TRUNCATE remote.emptied",
    )
    for asked in ("plan", "status"):
        went(cli(asked, file, "--json"))
    went(cli.once(pipeline))
    status = json.loads(went(cli("status", file, "--json")).stdout)
    assert (status["gaps"], status["job"]["state"]) == ([], "none")
    assert equal(cli, pipeline)


@pytest.mark.long
def test_a_job_that_is_killed_is_taken_over_and_a_second_one_is_refused(cli, mysql, pipeline):
    file = str(pipeline)
    went(cli.once(pipeline))
    for kill in range(3):
        running = subprocess.Popen(
            [sys.executable, "-m", "ingest", "run", file],
            cwd=cli.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            time.sleep(12 + 3 * kill)
            mysql.sql(f"INSERT INTO remote.orders VALUES ({10 + kill}, 'in time')")
            time.sleep(2)
            refused = cli.once(pipeline)
            assert "E-LEASE-HELD" in refused.stderr, refused.stderr
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
    went(cli.once(pipeline))
    went(cli("resync", file, "remote.orders"))
    cli.until_mended(pipeline)
    assert equal(cli, pipeline)
