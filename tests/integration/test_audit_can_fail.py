"""The audit is worth something only because it can fail."""

import json

from delta.tables import DeltaTable

from ingest.lake.manifest.manifest_reader import Ledger


def test_a_snapshot_over_many_batches_is_equal_and_every_tampering_is_named(cli, mysql, spark):
    mysql.database("bank")
    mysql.sql(
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, owner VARCHAR(40), balance DECIMAL(12,2))",
        "CREATE TABLE bank.log (who VARCHAR(20), what INT)",
        "SET SESSION cte_max_recursion_depth = 10000",
        "INSERT INTO bank.accounts WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 "
        "FROM n WHERE i < 4000) SELECT i, CONCAT('o', i), i / 4 FROM n",
        "INSERT INTO bank.log VALUES ('a', 1), ('a', 1), ('b', 2)",
    )
    file = cli.init("bank", "bank.*")
    text = file.read_text()
    file.write_text(
        text.replace("driver_memory: 1g", "driver_memory: 1g\n  max_changes_per_batch: 700")
    )
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    lake = cli.folder / "lake" / "bank"
    batches = Ledger(str(lake)).entries(100)
    assert len(batches) >= 5
    assert sum(batch.changes for batch in batches) == 4003
    equal, verdict = cli.audit(file)
    assert equal, verdict

    accounts = DeltaTable.forPath(spark, str(lake / "bank" / "accounts"))
    accounts.update("id = 17", {"owner": "'someone else'"})
    accounts.delete("id = 18")
    spark.sql(
        f"INSERT INTO delta.`{lake}/bank/accounts` SELECT 90001, owner, balance, _ingest "
        f"FROM delta.`{lake}/bank/accounts` WHERE id = 19"
    )
    DeltaTable.forPath(spark, str(lake / "bank" / "log")).delete(
        "who = 'a' AND _ingest.ordinal = 2"
    )
    mysql.sql("SET sql_log_bin = 0", "UPDATE bank.accounts SET balance = 0.01 WHERE id = 20")

    done = cli("audit", str(file), "--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == 1
    assert verdict["equal"] is False
    found = {
        (table["name"], example["key"], example["found"])
        for table in verdict["tables"]
        for example in table["examples"]
    }
    assert found == {
        ("bank.accounts", "id=17", "differs"),
        ("bank.accounts", "id=18", "missing in the lake"),
        ("bank.accounts", "id=90001", "only in the lake"),
        ("bank.accounts", "id=20", "differs"),
        ("bank.log", "who=a, what=1", "missing in the lake"),
    }
