"""A continuous job: new tables, added columns and bad messages while it runs."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest
from confluent_kafka import Producer, TopicPartition
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.process import free_port


def until(fact, seconds=240.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return
        time.sleep(0.3)
    pytest.fail("it did not happen in time")


def started(cli, file, output):
    """A job that goes on until it is told to end."""
    return subprocess.Popen(
        [sys.executable, "-m", "ingest", "run", str(file)],
        stdout=output,
        stderr=output,
        cwd=cli.folder,
        env={**os.environ, "INGEST_HOME": str(cli.stack.home)},
    )


def refuse_another_plan(cli, file):
    """`ingest plan` tells of the statements that wait, what each will do."""
    for _ in range(20):  # until the connector has delivered them
        plan = json.loads(cli("plan", str(file), "--json").stdout)
        costs = {effect["table"]: effect["costs"] for effect in plan["lake"]}
        if "live.fourth" in costs:
            break
    assert costs["live.first"] == ["rewrite"], "small, so it stays plain"
    assert costs["live.second"] == ["rewrite", "resync"]
    assert costs["live.fourth"] == ["metadata", "resync"]
    assert plan["connector"]["action"] == "nothing"


def what_machines_are_told(port, ledger, until):
    """The page of a running job, by Prometheus's own reader; its lag is one that MySQL, Connect and Kafka have proven."""

    def samples():
        page = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert "not json" not in page
        return {
            (one.name, *one.labels.values()): one.value
            for family in text_string_to_metric_families(page)
            for one in family.samples
        }

    # The records of a table are counted by the looks, each some seconds after the one before.
    until(lambda: samples().get(("ingest_table_lag_records", "live.first")) == 0)
    until(lambda: ("ingest_lag_seconds",) in samples())
    found, newest = samples(), ledger.last()
    assert found["ingest_batch_id",] == newest.batch_id
    assert found["ingest_changes_total", "quarantined"] == 1
    assert found["ingest_gaps_open",] == sum(gap.is_open for gap in newest.gaps)
    assert found["ingest_table_changes_total", "live.second"] == 1
    assert 0 <= found["ingest_lag_seconds",] < 600
    assert found["ingest_lag_looks_total", "answered"] >= 2
    assert found["ingest_observe_failures_total",] == 0


def the_events(cli, ledger):
    """One for each row of the manifest, and none with a value of a row."""
    text = (cli.stack.home / "logs" / "events-live.jsonl").read_text()
    assert "not json" not in text
    told = [json.loads(line) for line in text.splitlines()]
    assert [one["event"] for one in told][:1] == ["run_started"]
    assert told[-1]["event"] == "run_ended"
    published = [one["batch"] for one in told if one["event"] == "batch_published"]
    assert published == sorted(entry.batch_id for entry in ledger.entries(50))
    assert {one["table"] for one in told if one["event"] == "table_applied"} == {
        "live.first",
        "live.second",
    }


def test_new_tables_columns_ddl_and_bad_messages_are_taken_in_stride(cli, mysql, stack):
    mysql.database("live")
    mysql.sql(
        "CREATE TABLE live.first (id INT PRIMARY KEY, v INT)",
        "INSERT INTO live.first VALUES (1, 1)",
    )
    file = cli.init("live", "live.*")
    port = free_port()
    with file.open("a") as text:
        text.write(f"\nobserve:\n  log: json\n  metrics_port: {port}\n")
    lake = cli.folder / "lake" / "live"
    log = cli.folder / "job.out"
    with log.open("wb") as output:
        job = started(cli, file, output)
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
        what_machines_are_told(port, ledger, until)
    finally:
        job.send_signal(signal.SIGTERM)
        assert job.wait(120) == 0, log.read_text()
    the_events(cli, ledger)
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

    taken_up_after_a_rest(cli, mysql, file, ledger, lake)


def taken_up_after_a_rest(cli, mysql, file, ledger, lake):
    """The job is down; columns go, come, change name and type, and a table is dropped."""
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
