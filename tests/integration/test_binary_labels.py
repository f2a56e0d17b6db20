"""ENUM and SET of the binary character set, which Debezium reads in no snapshot of its own: they end equal, too."""

import json
import time

import pytest

from ingest.config import pipeline_file
from ingest.model import reasons
from ingest.source.connector import Connector, desired

LABELS = "m ENUM('x','3D','it''s','é') NOT NULL, n ENUM('=','-','3D') DEFAULT NULL, s SET('p','3')"
ROWS = "(1, '3D', '-', 'p,3'), (2, 'it''s', '=', ''), (3, 'é', NULL, NULL), (4, 'x', '3D', '3')"
KEYED = ("bl.keyed", "bl.`od d.t`")


def made(mysql):
    mysql.database("bl")
    mysql.sql(
        "ALTER DATABASE bl CHARACTER SET binary",
        *(
            f"CREATE TABLE {one} (id INT PRIMARY KEY, {LABELS}, v VARCHAR(9), hidden INT DEFAULT 7 INVISIBLE)"
            for one in KEYED
        ),
        f"CREATE TABLE bl.bag (id INT, {LABELS}) DEFAULT CHARSET = binary",
        *(f"INSERT INTO {one} (id, m, n, s) VALUES {ROWS}" for one in (*KEYED, "bl.bag")),
    )


@pytest.mark.long
def test_they_are_equal_by_a_snapshot_by_the_stream_and_taken_again(cli, mysql):
    made(mysql)
    file = cli.init("bl", "bl.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict
    mysql.sql(
        *(f"UPDATE {one} SET n = '3D', s = 'p' WHERE id = 3" for one in (*KEYED, "bl.bag")),
        *(f"DELETE FROM {one} WHERE id = 1" for one in (*KEYED, "bl.bag")),
        # Another than the one that the connector was made for, and one that has no such label any more.
        f"CREATE TABLE bl.later (id INT PRIMARY KEY, {LABELS})",
        f"INSERT INTO bl.later VALUES {ROWS}",
    )
    for table in ("bl.keyed", "bl.later", "bl.bag"):
        asked = cli("resync", str(file), table)
        assert "a blocking snapshot, as it has" in asked.stdout + asked.stderr
    cli.until_mended(file)
    equal, verdict = cli.audit(file)
    assert equal, verdict
    plan = Connector(pipeline_file.load(file)).plan()
    assert plan.action == "nothing", "what the snapshot has read is not asked of MySQL for ever"


@pytest.mark.long
def test_what_another_snapshot_has_read_is_quarantined_and_put_right_by_taking_the_table_again(
    cli, mysql
):
    mysql.database("bl2")
    mysql.sql(
        "CREATE TABLE bl2.t (id INT PRIMARY KEY, n ENUM('a','3D') CHARACTER SET binary)",
        "INSERT INTO bl2.t VALUES (1, '3D'), (2, NULL)",
        "CREATE TABLE bl2.other (id INT PRIMARY KEY)",
        "INSERT INTO bl2.other VALUES (1)",
    )
    file = cli.init("bl2", "bl2.*")
    connector = Connector(pipeline_file.load(file))
    without = desired(connector.pipeline)  # as an earlier version of ingest made it
    connector._call("PUT", f"/connectors/{connector.name}/config", json=without)
    deadline = time.monotonic() + 60
    while not (offset := connector.offset()) or offset.get("snapshot"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (done := cli.once(file)).returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert not equal
    differing = {table["name"]: table["differences"] for table in verdict["tables"]}
    assert differing == {"bl2.t": 2, "bl2.other": 0}, "none is guessed, not even the NULL"
    (waits,) = json.loads(cli("status", str(file), "--json").stdout)["waiting"]
    assert waits["reason"] == reasons.UNREAD_LABEL.of(column="'n'")
    assert cli("resync", str(file), "bl2.t").returncode == 0
    cli.until_mended(file)
    equal, verdict = cli.audit(file)
    assert equal, verdict
