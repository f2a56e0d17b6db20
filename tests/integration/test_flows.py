"""Flows beside the mirrors, on the real chain: they follow the change log, are killed without harm, and are told of."""

import json
import os
import signal
import subprocess
import sys
import time

from deltalake import DeltaTable

from ingest.config.pipeline_file import load
from ingest.model.names import join

TOTALS = """SELECT after.customer customer, count(*) orders, sum(after.total) total FROM orders
WHERE operation IN ('read', 'insert') GROUP BY after.customer;
"""
MORE = """
defaults: {targets: [mirror, change_log]}
flows:
  totals:
    sql: totals.sql
    inputs: {orders: {change_log: flowing.orders}}
    mode: update
    sinks: [{delta: marts/totals, keys: [customer]}, {files: OUT, format: json}]
    trigger: 1 second
  titled:
    sql: titled.sql
    inputs: {orders: {change_log: flowing.orders}, titles: {mysql: titles, connection: own}}
    sinks: [{delta: marts/titled}]
connections:
  own: {url: "mysql://ingest@127.0.0.1:PORT/flowing_titles", password: {file: SECRET}}
"""
TITLED = """SELECT after.id, titles.title, titles.since FROM orders JOIN titles ON titles.customer = after.customer
WHERE operation IN ('read', 'insert')"""


def test_a_flow_follows_a_table_and_a_kill_behind_its_table_s_commit_adds_nothing_twice(
    cli, server, stack
):
    server.database("flowing")
    server.sql(
        "CREATE TABLE flowing.orders (id INT PRIMARY KEY, customer VARCHAR(20), total DECIMAL(9,2))",
        "INSERT INTO flowing.orders VALUES (1, 'anna', 1.50), (2, 'Ösel', 2.25), (3, 'anna', 0.01)",
    )
    server.database("flowing_titles")
    server.sql(
        "CREATE TABLE flowing_titles.titles (customer VARCHAR(20), title VARCHAR(20), since DATETIME(6))",
        "INSERT INTO flowing_titles.titles VALUES ('anna', 'Dr. Ä', '2026-01-01 23:59:59.123456')",
    )
    file = cli.init("flowing", "flowing.*")
    (cli.folder / "titled.sql").write_text(TITLED)
    (cli.folder / "totals.sql").write_text(TOTALS)
    mysql = stack.mysql()
    more = MORE.replace("PORT", str(mysql.port)).replace("SECRET", str(mysql.secret("ingest")))
    file.write_text(file.read_text() + more.replace("OUT", str(cli.folder / "out")))

    def same():
        asked = "SELECT customer, COUNT(*), SUM(total) FROM flowing.orders GROUP BY customer"
        found = (
            DeltaTable(join(load(file).lake.path, "marts", "totals")).to_pyarrow_table().to_pylist()
        )
        rows = {(row["customer"], row["orders"], row["total"]) for row in found}
        return len(found) == len(rows) and rows == {*server.sql(asked)}

    cli.once(file)
    assert same()
    server.sql("INSERT INTO flowing.orders VALUES (4, 'anna', 7), (5, NULL, 1)")
    killed = cli(
        "run",
        str(file),
        "--once",
        env={"INGEST_FAILPOINT": "flow_written~totals/delta:marts/totals:kill"},
    )
    assert killed.returncode < 0, killed.stderr
    assert same(), "its table has the batch, and Spark does not know of it"
    cli.once(file)
    assert same()
    assert len(list((cli.folder / "out").glob("batch=1-*"))) == 2
    server.sql("ALTER TABLE flowing.orders ADD COLUMN note TEXT")
    job = subprocess.Popen(
        [sys.executable, "-m", "ingest", "run", str(file)],
        env={**os.environ, "INGEST_HOME": str(stack.home)},
        cwd=cli.folder,
        stdout=subprocess.DEVNULL,
        stderr=(cli.folder / "job.err").open("w"),
    )
    try:
        server.sql("INSERT INTO flowing.orders VALUES (6, 'Ösel', 3, 'x'), (7, 'new', 4, NULL)")
        until = time.monotonic() + 120
        while not same():
            assert time.monotonic() < until, (cli.folder / "job.err").read_text()
            time.sleep(0.5)
        said = json.loads(cli("flow", "list", str(file), "--json").stdout)
        assert said["totals"]["state"] == "runs"
        status = cli("status", str(file), "--fail-without-job")
        assert "totals runs" in status.stdout
        assert f"process {job.pid} on " in status.stdout
        assert status.returncode == 0
    finally:
        job.send_signal(signal.SIGINT)
        assert job.wait(90) == 0
    status = cli("status", str(file), "--json", "--fail-without-job")
    assert json.loads(status.stdout)["job"]["state"] == "none"
    assert status.returncode == 4
    assert "failed" not in (cli.folder / "job.err").read_text()
    titled = (
        DeltaTable(join(load(file).lake.path, "marts", "titled")).to_pyarrow_table().to_pylist()
    )
    assert sorted((row["id"], row["title"], f"{row['since']:%H:%M:%S.%f}") for row in titled) == [
        (id_, "Dr. Ä", "23:59:59.123456") for id_ in (1, 3, 4)
    ]
    assert mysql.secret("ingest").read_text() not in (cli.folder / "job.err").read_text()
    assert ": 4 rows in 2 partitions" in cli("flow", "state", str(file), "totals").stdout
