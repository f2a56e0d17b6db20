"""Change logs on the real chain: one that is asked for later is filled from Kafka, and the audit folds it."""

import json

import pytest

from ingest.config.pipeline_file import load
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.topics import TableId

LATER = "\ndefaults: {targets: [mirror, change_log], change_log_from: kafka}\n"


@pytest.mark.long  # in memory the same laws hold over more (tests/spark/batch/test_change_log_filled.py)
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_a_log_that_is_asked_for_later_is_filled_from_kafka_whatever_dies_meanwhile(
    cli, server, engine
):
    db = f"later_{engine}"
    server.database(db)
    server.sql(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))",
        f"CREATE TABLE {db}.bag (n INT, v VARCHAR(20))",
        f"INSERT INTO {db}.t VALUES (1, 'a'), (2, 'b'), (3, '\u2028')",
        f"INSERT INTO {db}.bag VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
    )
    file = cli.init(db, f"{db}.*")
    text = file.read_text().replace("\nspark:\n", f"\nspark:\n  merge_engine: {engine}\n")
    file.write_text(text)
    assert cli.once(file).returncode == 0
    server.sql(
        f"UPDATE {db}.t SET v = 'x' WHERE id = 1",
        f"DELETE FROM {db}.t WHERE id = 2",
        f"DELETE FROM {db}.bag WHERE n = 1 LIMIT 1",
        f"ALTER TABLE {db}.t ADD c INT DEFAULT 7",
        f"INSERT INTO {db}.t VALUES (4, 'd', 8)",
    )
    assert cli.once(file).returncode == 0
    file.write_text(text + LATER)
    planned = json.loads(cli("plan", str(file), "--json").stdout)["lake"]
    begins = {one["table"]: one["sentence"] for one in planned if one["cause"] == "targets"}
    assert begins[f"{db}.t"].startswith("up to ")
    assert "Kafka still has" in begins[f"{db}.t"]
    for place in ("log_started", "log_committed"):
        torn = cli.once(file, INGEST_FAILPOINT=f"{place}~{db}.t:kill")
        assert torn.returncode < 0, torn.stderr
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    server.sql(f"UPDATE {db}.t SET v = 'y'", f"INSERT INTO {db}.bag VALUES (9, 'z')")
    assert cli.once(file).returncode == 0
    said = cli("audit", str(file), "--change-logs", "--json")
    found = json.loads(said.stdout)
    assert (said.returncode, found["equal"]) == (0, True), said.stderr
    logs = {one["name"]: one for one in found["change_logs"]}
    assert {name: (one["compared"], one["differences"]) for name, one in logs.items()} == {
        f"{db}.t": (3, 0),
        f"{db}.bag": (3, 0),
    }
    spark = cli.spark.read.format("delta")
    log = spark.load(load(file).change_log_path(TableId(db, "t")))
    told = log.filter(
        "operation = 'schema' AND committed_at > current_timestamp() - INTERVAL 1 HOUR"
    )
    assert [row.statement[:5] for row in told.collect()] == ["ALTER"]
    kinds = [entry.kind for entry in Ledger(load(file).lake.path).entries(50)]
    assert kinds.count("fill") == 2
