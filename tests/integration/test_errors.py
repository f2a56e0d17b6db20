"""The likeliest mistakes: each a clear sentence and an exit code, no stack trace, nothing half-made."""

import json
import socket
import subprocess

import pytest

from ingest.local import artefacts
from ingest.local.mysql import MySql
from ingest.local.stack import Stack


@pytest.fixture
def pipeline(cli, mysql):
    mysql.database("err")
    mysql.sql("CREATE TABLE err.t (id INT PRIMARY KEY)", "INSERT INTO err.t VALUES (1)")
    return cli.init("err", "err.*")


def refused(done: subprocess.CompletedProcess[str], code: str, *words: str) -> None:
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert code in said
    for word in ("what to do:", *words):
        assert word in said
    assert "Traceback" not in said


def replaced(pipeline, old, new):
    text = pipeline.read_text()
    assert old in text
    pipeline.write_text(text.replace(old, new))
    return pipeline


def test_a_wrong_password(cli, pipeline, stack):
    wrong = cli.folder / "wrong"
    wrong.write_text("nope")
    file = replaced(pipeline, str(stack.mysql().secret("ingest")), str(wrong))
    refused(cli.once(file), "E-MYSQL-LOGIN", "password")
    assert not (cli.folder / "lake").exists()


def test_a_password_that_only_connect_cannot_read(cli, pipeline, stack):
    copied = cli.folder / "right"
    copied.write_text(stack.mysql().secret("ingest").read_text())
    file = replaced(pipeline, str(stack.mysql().secret("ingest")), str(copied))
    refused(cli.once(file), "E-CONNECTOR-CONFIG", "allowed.paths")


def test_a_user_without_select(cli, pipeline, mysql, stack):
    secret = stack.home / "secrets" / "mysql_blind"
    secret.write_text("blind-1")
    mysql.sql(
        "DROP USER IF EXISTS 'blind'@'127.0.0.1'",
        "CREATE USER 'blind'@'127.0.0.1' IDENTIFIED BY 'blind-1'",
        "GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'blind'@'127.0.0.1'",
    )
    file = replaced(pipeline, "ingest@", "blind@")
    replaced(file, str(stack.mysql().secret("ingest")), str(secret))
    refused(cli.once(file), "E-MYSQL-TABLES", "GRANT SELECT")
    mysql.sql("GRANT INSERT ON err.t TO 'blind'@'127.0.0.1'")
    refused(cli.once(file), "E-MYSQL-GRANT", "SELECT")


def test_a_kafka_that_is_away(cli, pipeline, stack):
    file = replaced(pipeline, stack.kafka().bootstrap_servers, "127.0.0.1:1")
    refused(cli.once(file), "E-KAFKA-AWAY", "127.0.0.1:1")


def test_a_connect_that_is_away(cli, pipeline, stack):
    file = replaced(pipeline, stack.connect().url, "http://127.0.0.1:1")
    refused(cli.once(file), "E-CONNECT-AWAY")


def test_a_mysql_that_is_away(cli, pipeline, stack):
    file = replaced(pipeline, f"127.0.0.1:{stack.mysql().port}", "127.0.0.1:1")
    refused(cli.once(file), "E-MYSQL-AWAY")


def test_a_lake_that_cannot_be_written(cli, pipeline):
    (cli.folder / "file").write_text("")
    lake = str(cli.folder / "lake" / "err")
    file = replaced(pipeline, lake, str(cli.folder / "file" / "lake"))
    refused(cli.once(file), "E-LAKE-UNWRITABLE")


def test_a_typo_in_the_pipeline_file(cli, pipeline):
    file = replaced(pipeline, "bootstrap_servers:", "bootstrap_server:")
    refused(cli.once(file), "E-CONFIG-SETTING", "perhaps `bootstrap_servers` is meant")
    file.write_text("name: [")
    refused(cli.once(file), "E-CONFIG-YAML", "line")


def test_an_audit_before_the_first_run(cli, pipeline):
    refused(cli("audit", str(pipeline)), "E-AUDIT-NO-LAKE")


def test_a_server_without_binlog(cli, pipeline, stack, tmp_path, monkeypatch):
    from ingest.local import mysql as module

    config = module._CONFIG.replace("log-bin=binlog", "skip-log-bin").replace("gtid_mode=ON\n", "")
    monkeypatch.setattr(module, "_CONFIG", config.replace("enforce_gtid_consistency=ON\n", ""))
    home = tmp_path / "bare"
    for name in ("logs", "secrets"):
        (home / name).mkdir(parents=True)
    from ingest.local import process

    bare = MySql(home, process.free_port())
    child = bare.start()
    try:
        for _ in range(300):
            if bare.healthy() is None:
                break
            child.process().wait(0.1) if child.process() is None else __import__("time").sleep(0.1)
        file = replaced(pipeline, f"127.0.0.1:{stack.mysql().port}", f"127.0.0.1:{bare.port}")
        replaced(file, str(stack.mysql().secret("ingest")), str(bare.secret("ingest")))
        refused(cli.once(file), "E-MYSQL-BINLOG", "log_bin")
    finally:
        process.stop(child, grace=20)


def test_a_busy_port(cli, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        home = str(tmp_path / "busy")
        done = cli("local", "up", "--home", home, "--mysql-port", port)
    refused(done, "E-LOCAL-PORT", port, "--mysql-port")
    assert all(part.state == "stopped" for part in Stack.at(tmp_path / "busy").status())


@pytest.fixture
def cache(tmp_path):
    """A cache of one's own, filled with links to the shared one."""
    folder = tmp_path / "cache"
    for name in ("kafka", "connect", "logging"):
        for entry in artefacts.group(name):
            path = folder / "artefacts" / entry.group / entry.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.symlink_to(entry.path)
    return folder


def test_a_corrupted_artefact(cli, cache, tmp_path):
    entry = artefacts.group("kafka")[0]
    damaged = cache / "artefacts" / entry.group / entry.file_name
    damaged.unlink()
    damaged.write_bytes(b"not a jar")
    home = tmp_path / "corrupt"
    done = cli("local", "up", "--home", str(home), env={"INGEST_CACHE": str(cache)})
    refused(done, "E-ARTEFACT-HASH", entry.coordinate, "rm ")
    assert not (home / "state.json").exists()


def test_an_artefact_that_cannot_be_fetched(cli, cache, tmp_path):
    entry = artefacts.group("kafka")[0]
    (cache / "artefacts" / entry.group / entry.file_name).unlink()
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    home = tmp_path / "absent"
    env = {"INGEST_CACHE": str(cache), "JAVA_TOOL_OPTIONS": nowhere}
    done = cli("local", "up", "--home", str(home), env=env)
    assert done.returncode == 4
    assert "E-ARTEFACT-ABSENT" in done.stderr
    assert entry.coordinate in done.stderr
    assert "Traceback" not in done.stderr
    assert not (home / "state.json").exists()


def test_the_embedded_stack_tells_scripts_how_to_connect(cli, stack):
    done = cli("local", "status", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(facts["mysql"]) >= {"host", "port", "user", "password_file"}
    assert facts["kafka"]["bootstrap_servers"] == stack.kafka().bootstrap_servers
    assert facts["connect"]["url"] == stack.connect().url
    assert all(part["healthy"] for part in facts["parts"].values())
