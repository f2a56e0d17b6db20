"""A mirror that keeps deleted rows, on the real chain: the plan names it, and the audit compares what counts."""

import json

import pytest
from deltalake import DeltaTable

from ingest.config import pipeline_file

KEPT = "\ntables:\n  soft.kept: {deletes: soft}\n"


@pytest.mark.long
def test_deleted_rows_are_kept_and_the_lake_is_equal(cli, mysql):
    mysql.database("soft")
    mysql.sql(
        "CREATE TABLE soft.kept (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE soft.plain (id INT PRIMARY KEY, v INT)",
        *[f"INSERT INTO soft.{table} VALUES (1, 1), (2, 2), (3, 3)" for table in ("kept", "plain")],
    )
    file = cli.init("soft", "soft.*")
    file.write_text(file.read_text() + KEPT)
    assert cli.once(file).returncode == 0
    targets = json.loads(cli("plan", str(file), "--json").stdout)["targets"]
    assert targets == {"soft.kept": "soft_deletes"}, "only what is not simply mirrored is named"
    mysql.sql(
        "DELETE FROM soft.kept WHERE id = 2",
        "DELETE FROM soft.plain WHERE id = 2",
        "UPDATE soft.kept SET v = 9 WHERE id = 3",
        "INSERT INTO soft.kept VALUES (4, 4)",
    )
    assert cli.once(file).returncode == 0
    equal, verdict = cli.audit(file)
    assert equal, verdict
    lake = pipeline_file.load(file).lake.path
    found = DeltaTable(f"{lake}/soft/kept").to_pyarrow_table().to_pylist()
    rows = {row["id"]: row for row in found}
    assert {key: row["_ingest"]["op"] == "d" for key, row in rows.items()} == {
        1: False,
        2: True,
        3: False,
        4: False,
    }
    assert rows[2]["v"] == 2, "as it was when it was deleted"
    mysql.sql("TRUNCATE TABLE soft.kept", "INSERT INTO soft.kept VALUES (2, 7)")
    assert cli.once(file).returncode == 0
    equal, verdict = cli.audit(file)
    assert equal, verdict
