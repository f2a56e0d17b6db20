"""A row that the connector cannot read, on the real chain: its table is left out, the others go on, the next run takes it whole."""

import json

import pytest


@pytest.mark.long
def test_a_row_of_another_image_leaves_its_table_out_until_the_next_run(cli, mysql):
    mysql.database("leftout")
    mysql.sql(
        *[
            f"CREATE TABLE leftout.{table} (id INT PRIMARY KEY, v INT)"
            for table in ("sick", "well")
        ],
        *[f"INSERT INTO leftout.{table} VALUES (1, 1), (2, 2)" for table in ("sick", "well")],
    )
    file = cli.init("leftout", "leftout.*")
    assert cli.once(file).returncode == 0
    mysql.sql(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE leftout.sick SET v = 9 WHERE id = 1",
        "SET SESSION binlog_row_image = 'FULL'",
        "UPDATE leftout.sick SET v = 8 WHERE id = 2",
        "UPDATE leftout.well SET v = 9 WHERE id = 1",
    )
    done = cli.once(file)
    assert done.returncode == 4, done.stderr
    assert "E-TABLE-STOPPED" in done.stderr
    assert "leftout.sick" in done.stderr
    status = cli("status", str(file), "--json", "--fail-on-gap")
    assert status.returncode == 4
    said = json.loads(status.stdout)
    assert [one["table"] for one in said["left_out"]] == ["leftout.sick"]
    equal, verdict = cli.audit(file)
    assert not equal
    found = {table["name"]: table["differences"] for table in verdict["tables"]}
    assert found["leftout.well"] == 0
    for _ in range(5):  # a run to the end asks for the table, and leaves its rows to a later one
        done = cli.once(file)
        assert done.returncode == 0, done.stderr
        equal, verdict = cli.audit(file)
        if equal:
            break
    assert equal, verdict
    assert json.loads(cli("status", str(file), "--json").stdout)["left_out"] == []
