"""A table that is renamed out of the patterns, and made again under its name, as logs are rotated; and what only looks like that."""

import json

from ingest.schema.ddl import REPLACED


def gaps(cli, file):
    """Reasons of all gaps, open and closed."""
    return [one["reason"] for one in json.loads(cli("status", str(file), "--json").stdout)["gaps"]]


def test_the_rows_of_the_table_before_go_and_nothing_else_passes_for_another_table(cli, mysql):
    mysql.database("rot")
    mysql.database("attic")
    mysql.sql(
        "CREATE TABLE rot.log (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "CREATE TABLE rot.bag (v INT)",
        "CREATE TABLE rot.stays (id INT PRIMARY KEY, flag BOOLEAN)",
        "INSERT INTO rot.log (v) VALUES (1), (2), (3)",
        "INSERT INTO rot.bag VALUES (1)",
        "INSERT INTO rot.stays VALUES (1, TRUE)",
    )
    file = cli.init("rot", "rot.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    # As applications do that set up their tables at each start: MySQL's log has the statement, and nothing was made.
    mysql.sql(
        "USE rot",
        "CREATE TABLE IF NOT EXISTS stays (id INT PRIMARY KEY, flag BOOLEAN)",
        "INSERT INTO stays VALUES (2, FALSE)",
    )
    assert (done := cli.once(file)).returncode == 0, done.stderr
    # Of several tables in one blocking snapshot Debezium calls the first one's DROP a snapshot's.
    for table in ("rot.bag", "rot.stays"):
        assert (done := cli("resync", str(file), table)).returncode == 0, done.stderr
    cli.until_mended(file)
    assert not any(REPLACED in reason for reason in gaps(cli, file)), gaps(cli, file)
    equal, verdict = cli.audit(file)
    assert equal, verdict
    mysql.sql(
        "RENAME TABLE rot.log TO attic.log_01",
        "CREATE TABLE rot.log (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO rot.log (v) VALUES (7)",
    )
    cli.until_mended(file)
    assert any(REPLACED in reason for reason in gaps(cli, file)), gaps(cli, file)
    equal, verdict = cli.audit(file)
    assert equal, verdict
