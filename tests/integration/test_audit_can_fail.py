"""The audit is worth something only because it can fail."""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable

from ingest.config import pipeline_file
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.topics import TableId
from ingest.observe import table_comparison
from ingest.observe.audit import Audit
from ingest.observe.table_comparison import ComparedTable, Comparison
from ingest.source import mysql as source_mysql


def test_a_snapshot_over_many_batches_is_equal_and_every_tampering_is_named(cli, mysql, spark):
    mysql.database("bank")
    mysql.sql(
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, owner VARCHAR(40), balance DECIMAL(12,2))",
        "CREATE TABLE bank.log (who VARCHAR(20), what INT)",
        "CREATE TABLE bank.papers (id INT PRIMARY KEY, kind ENUM('signed','unsigned'), how SET('unsigned','x'))",
        "INSERT INTO bank.papers VALUES (1, 'unsigned', 'x,unsigned'), (2, 'signed', '')",
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
    assert sum(batch.changes for batch in batches) == 4005
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


@contextmanager
def busy(mysql, statement):
    """A server on which somebody commits all the time; there is a moment between two commits, and none is as long as an audit."""
    stop = threading.Event()

    def write():
        with mysql.connect() as connection, connection.cursor() as cursor:
            while not stop.wait(0.5):
                cursor.execute(statement)
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass
class Meanwhile(Audit):
    """A row comes to `busy.beats` once the lake has caught up."""

    mysql: Any = None

    def _tables(self, cursor, entry):
        self.mysql.sql("INSERT INTO busy.beats VALUES ()")
        for _ in range(600):
            if self._beyond_applied(entry):
                return super()._tables(cursor, entry)
            time.sleep(0.1)
        raise AssertionError("it did not come to Kafka")


def test_what_differs_is_different_also_on_a_server_that_is_written_to_all_the_time(
    cli, mysql, spark
):
    """Elsewhere, and in another table that is captured."""
    mysql.database("busy")
    mysql.database("beside")
    mysql.sql(
        "CREATE TABLE busy.quiet (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE busy.beats (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE TABLE busy.bag (d DATE, v INT)",
        "CREATE TABLE beside.t (id INT PRIMARY KEY AUTO_INCREMENT)",
        "INSERT INTO busy.quiet VALUES (1, 1), (2, 2)",
        "INSERT INTO busy.beats VALUES (1)",
        "SET SESSION sql_mode = ''",
        "INSERT INTO busy.bag VALUES ('0000-00-00', 1), ('2024-05-00', 1), ('2024-05-01', 1)",
    )
    file = cli.init("busy", "busy.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    mysql.sql("SET sql_log_bin = 0", "UPDATE busy.quiet SET v = 3 WHERE id = 2")
    DeltaTable.forPath(spark, str(cli.folder / "lake" / "busy" / "busy" / "bag")).update(
        "d = '2024-05-01'", {"v": "2"}
    )
    wanted = {
        ("busy.quiet", "id=2", "differs"),
        ("busy.bag", "d=2024-05-01, v=1", "missing in the lake"),
        ("busy.bag", "d=2024-05-01, v=2", "only in the lake"),
    }

    def named(seconds):
        done = cli("audit", str(file), "--json", "--wait", str(seconds))
        verdict = json.loads(done.stdout)
        assert done.returncode == 1, verdict
        return {
            (table["name"], example["key"], example["found"])
            for table in verdict["tables"]
            for example in table["examples"]
        }

    with busy(mysql, "INSERT INTO beside.t VALUES ()"):
        assert named(180) == wanted
    # What has come to Kafka of another table meanwhile hides nothing; and that one is compared as it was published.
    pipeline = pipeline_file.load(file)
    DeltaTable.forPath(spark, pipeline.path(TableId("busy", "beats"))).delete("id = 1")
    verdict = Meanwhile(pipeline, spark, print, 60, mysql).execute()
    assert verdict.outcome == "different"
    assert {one.name for one in verdict.tables if one.differences} == {"busy.quiet", "busy.bag"}


def test_a_ddl_that_is_not_applied_yet_is_no_difference(cli, mysql):
    mysql.database("late")
    mysql.sql("CREATE TABLE late.t (id INT PRIMARY KEY)", "INSERT INTO late.t VALUES (1)")
    file = cli.init("late", "late.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    mysql.sql("ALTER TABLE late.t ADD c INT NOT NULL DEFAULT 5")
    done = cli("audit", str(file), "--json", "--wait", "20")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"]) == (3, "behind"), verdict
    assert "has not applied 'ALTER TABLE" in verdict["reason"]
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict


def test_a_row_that_mysql_cannot_hash_is_not_passed_over(cli, mysql, spark):
    mysql.database("large")
    mysql.sql(
        "CREATE TABLE large.t (id INT PRIMARY KEY, b LONGBLOB)",
        "CREATE TABLE large.bag (b LONGBLOB)",
        "INSERT INTO large.t SELECT 1, REPEAT('x', 9000000)",
        "INSERT INTO large.t SELECT id + 1, 'small' FROM large.t",
        "INSERT INTO large.bag SELECT b FROM large.t",
        "SET GLOBAL max_allowed_packet = 16777216",
    )
    try:
        file = cli.init("large", "large.*")
        with source_mysql.connected(pipeline_file.load(file).source) as cursor:
            for name in ("t", "bag"):
                columns = source_mysql.columns(cursor, TableId("large", name))
                key = columns[:1]
                table = ComparedTable(TableId("large", name), columns, key, "", None, "true", False)
                (found,) = Comparison(spark, cursor).results([table])
                assert (found.differences, found.note) == (2, table_comparison.TOO_LARGE)
    finally:
        mysql.sql("SET GLOBAL max_allowed_packet = 67108864")
