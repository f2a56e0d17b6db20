"""Tables that the lake has no place for, on the real chain: the others go on, and each remedy that is printed helps.

MySQL 8.0 has no type that is not known; a column that is named as ours takes the same way.
"""

import json

import pytest


@pytest.mark.long  # without the chain: tests/spark/batch/test_set_aside.py, tests/unit/schema/test_set_aside.py
def test_they_are_named_the_others_go_on_and_both_remedies_help(cli, mysql):
    mysql.database("aside")
    mysql.sql(
        "CREATE TABLE aside.good (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE aside.mended (id INT PRIMARY KEY, _ingest INT)",
        "CREATE TABLE aside.excluded (id INT PRIMARY KEY, _ingest INT)",
        *[f"INSERT INTO aside.{table} VALUES (1, 1)" for table in ("good", "mended", "excluded")],
    )
    file = cli.init("aside", "aside.*")
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    for table in ("mended", "excluded"):
        assert f"aside.{table}: has a column named '_ingest'" in done.stderr
    assert "set aside, the others go on" in done.stderr
    assert cli("status", str(file), "--fail-on-gap").returncode == 4
    equal, verdict = cli.audit(file)
    assert not equal
    found = {table["name"]: table for table in verdict["tables"]}
    assert found["aside.good"]["differences"] == 0
    assert found["aside.mended"]["differences"] >= 1

    mysql.sql(
        "ALTER TABLE aside.mended RENAME COLUMN _ingest TO v",
        "INSERT INTO aside.mended VALUES (2, 2)",
        "INSERT INTO aside.excluded VALUES (2, 2)",
    )
    file.write_text(file.read_text().replace('["aside.*"]', '["aside.*", "!aside.excluded"]'))
    for _ in range(2):  # the first one asks for the table that is mended
        done = cli.once(file)
        assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict
    status = cli("status", str(file), "--json", "--fail-on-gap")
    assert status.returncode == 0, status.stdout
    assert not [gap for gap in json.loads(status.stdout)["gaps"] if gap["open"]]
