"""A continuous job: new tables, added columns and bad messages while it runs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from deltalake import DeltaTable

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger


def until(fact, seconds=90.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return
        time.sleep(0.3)
    pytest.fail("it did not happen in time")


def refuse_another_plan(cli, file):
    """`ingest plan` tells of the statements that wait, what each will do."""
    for _ in range(20):  # until the connector has delivered them
        plan = json.loads(cli("plan", str(file), "--json").stdout)
        costs = {effect["table"]: effect["costs"] for effect in plan["lake"]}
        if "live.fourth" in costs:
            break
    assert costs["live.first"] == ["metadata"]
    assert costs["live.second"] == ["metadata", "resync"]
    assert costs["live.fourth"] == ["metadata", "resync"]
    assert plan["connector"]["action"] == "nothing"


def test_new_tables_columns_ddl_and_bad_messages_are_taken_in_stride(cli, mysql, stack):
    mysql.database("live")
    mysql.sql(
        "CREATE TABLE live.first (id INT PRIMARY KEY, v INT)",
        "INSERT INTO live.first VALUES (1, 1)",
    )
    file = cli.init("live", "live.*")
    lake = cli.folder / "lake" / "live"
    log = cli.folder / "job.out"
    with log.open("wb") as output:
        job = subprocess.Popen(
            [sys.executable, "-m", "ingest", "run", str(file)],
            stdout=output,
            stderr=output,
            cwd=cli.folder,
            env={**os.environ, "INGEST_HOME": str(stack.home)},
        )
    try:
        ledger = Ledger(str(lake))
        until(lambda: ledger.last() is not None or job.poll() is not None)
        mysql.sql(
            "CREATE TABLE live.second (id INT PRIMARY KEY, v VARCHAR(9))",
            "INSERT INTO live.second VALUES (1, 'new')",
            "ALTER TABLE live.first ADD COLUMN w INT NOT NULL DEFAULT 7",
            "INSERT INTO live.first VALUES (2, 2, 2)",
        )
        until(lambda: "live.second" in ledger.last().tables or job.poll() is not None)
        producer = Producer({"bootstrap.servers": stack.kafka().bootstrap_servers})
        producer.produce("live.live.first", b"not json at all")
        producer.flush(10)
        mysql.sql("INSERT INTO live.first VALUES (3, 3, 3)")
        until(lambda: any(e.rejects for e in ledger.entries(50)) or job.poll() is not None)
        until(lambda: (lake / "_ingest" / "quarantine").exists())
        equal, verdict = cli.audit(file)
        assert equal, verdict
    finally:
        job.send_signal(signal.SIGTERM)
        assert job.wait(120) == 0, log.read_text()
    (row,) = DeltaTable(str(lake / "_ingest" / "quarantine")).to_pyarrow_table().to_pylist()
    assert bytes(row["value"]) == b"not json at all"
    assert (row["topic"], row["partition"]) == ("live.live.first", 0)
    assert "envelope" in row["reason"]
    newest = ledger.last()
    place = ("live.live.first", 0)
    consumer = broker.client(pipeline_file.load(file))
    (committed,) = consumer.committed([TopicPartition(*place)], timeout=10)
    consumer.close()
    assert committed.offset == newest.offsets[place][1], "ordinary lag tools see what is applied"
    status = cli("status", str(file), "--json")
    report = json.loads(status.stdout)
    assert report["connector"]["healthy"] is True
    assert report["records_not_applied"] == 0
    assert report["transactions_not_in_kafka"] == 0
    assert [one["changes"] for one in report["waiting"]] == [1]

    # The job is down; columns go, come, change name and type, and a table is dropped.
    mysql.sql(
        "ALTER TABLE live.first RENAME COLUMN v TO renamed, MODIFY w BIGINT FIRST",
        "ALTER TABLE live.second DROP COLUMN v, ADD COLUMN v CHAR(36) DEFAULT (CONCAT('x', 1))",
        "INSERT INTO live.second (id) VALUES (2)",
        "CREATE TABLE live.third (id INT PRIMARY KEY)",
        "INSERT INTO live.third VALUES (1)",
        "RENAME TABLE live.third TO live.fourth",
    )
    refuse_another_plan(cli, file)
    cli.until_mended(file)  # what only MySQL knows is asked for by the first run
    assert "what existing rows hold in the new column 'v'" in ledger.last().gaps[0].reason
    equal, verdict = cli.audit(file)
    assert equal, verdict
    assert not DeltaTable(str(lake / "live" / "third")).to_pyarrow_table().num_rows
    before = DeltaTable(str(lake / "live" / "second"), version=1).schema().to_arrow().names
    assert before[:2] == ["id", "v"], "earlier versions stay readable under their own columns"
