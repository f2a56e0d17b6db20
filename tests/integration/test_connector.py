"""The connector as desired state, its secrets, and its silences."""

import json
import time

import httpx
import pytest

from ingest.config import pipeline_file
from ingest.model.gtid import GtidSet
from ingest.source import mysql
from ingest.source.connector import Connector, delivered, offset_gtids
from ingest.source.supervisor import Supervisor


@pytest.fixture
def pipeline(cli, server):
    server.database("conn")
    server.sql("CREATE TABLE conn.t (id INT PRIMARY KEY)", "INSERT INTO conn.t VALUES (1)")
    return cli.init("conn", "conn.*")


def streaming(connector):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        offset = connector.offset()
        if offset and not offset.get("snapshot") and mysql.dump_threads(connector.pipeline.source):
            return
        time.sleep(0.3)
    pytest.fail("the connector does not stream")


def test_apply_is_idempotent_and_plan_shows_what_a_changed_file_means(cli, pipeline, stack):
    assert cli("connector", "plan", str(pipeline)).stdout.startswith("create")
    assert "created" in cli("connector", "apply", str(pipeline)).stderr
    assert "already as desired" in cli("connector", "apply", str(pipeline)).stderr
    text = pipeline.read_text()
    pipeline.write_text(text.replace('tables: ["conn.*"]', 'tables: ["conn.*", "!conn.x"]'))
    plan = cli("connector", "plan", str(pipeline)).stdout
    assert "table.include.list" in plan
    assert "database.password" not in plan
    assert "changed" in cli("connector", "apply", str(pipeline)).stderr
    connector = Connector(pipeline_file.load(pipeline))
    streaming(connector)
    status = cli("connector", "status", str(pipeline), "--json")
    assert json.loads(status.stdout)["healthy"] is True
    assert cli("connector", "pause", str(pipeline)).returncode == 0
    assert cli("connector", "resume", str(pipeline)).returncode == 0
    assert cli("connector", "delete", str(pipeline)).returncode == 0
    assert cli("connector", "status", str(pipeline)).returncode == 4


def test_no_password_is_in_rest_answers_logs_or_readable_files(cli, pipeline, stack):
    assert cli("connector", "apply", str(pipeline)).returncode == 0
    streaming(Connector(pipeline_file.load(pipeline)))
    secrets = [
        path.read_text()
        for path in (stack.home / "secrets").glob("mysql_*")
        if path.suffix != ".sql"
    ]
    url = stack.connect().url
    answers = [
        httpx.get(f"{url}{path}").text
        for path in (
            "/connectors/conn/config",
            "/connectors/conn/status",
            "/connectors/conn/tasks",
            "/connectors?expand=info&expand=status",
        )
    ]
    written = [
        path.read_text(errors="replace")
        for path in (stack.home / "logs").rglob("*")
        if path.is_file()
    ]
    for secret in secrets:
        assert not any(secret in text for text in [*answers, *written, pipeline.read_text()])
    for path in (stack.home / "secrets").iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.name == "mysql_blind"


def test_a_killed_binlog_stream_is_noticed_and_mended_within_a_minute(cli, pipeline, server):
    assert cli("connector", "apply", str(pipeline)).returncode == 0
    connector = Connector(pipeline_file.load(pipeline))
    streaming(connector)
    said: list[str] = []
    supervisor = Supervisor(connector, said.append)
    for (number,) in server.sql(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
    ):
        server.sql(f"KILL {number}")
    server.sql("INSERT INTO conn.t VALUES (2)")
    target = server.sql("SELECT @@GLOBAL.gtid_executed")[0][0]
    started = time.monotonic()
    while time.monotonic() - started < 60:
        supervisor.look()
        found = offset_gtids(connector.offset())
        if found and found.contains(GtidSet.parse(target)):
            break
        time.sleep(0.3)
    else:
        pytest.fail(f"nothing was delivered within 60 s; said: {said}")


def test_a_ddl_at_the_end_of_the_log_is_delivered_although_its_gtid_is_not_in_the_offset(
    cli, pipeline, server
):
    assert cli("connector", "apply", str(pipeline)).returncode == 0
    loaded = pipeline_file.load(pipeline)
    connector = Connector(loaded)
    streaming(connector)
    server.sql("INSERT INTO conn.t VALUES (3)", "CREATE TABLE conn.last (id INT PRIMARY KEY)")
    with mysql.connected(loaded.source) as cursor:
        target = mysql.reached(cursor)
    started = time.monotonic()
    while not delivered(connector.offset(), target):
        assert time.monotonic() - started < 60, connector.offset()
        time.sleep(0.3)
    found = offset_gtids(connector.offset())
    assert found is not None
    assert not found.contains(target.gtids), "Debezium has changed: the rule is not needed"
