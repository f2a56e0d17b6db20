"""gh-ost and pt-online-schema-change, statement by statement, while the job runs."""

import itertools
from collections import Counter

import pytest
from deltalake import DeltaTable

from ingest.source.connector import Connector
from tests.ddl.online import SHADOWS, gh_ost, pt_osc
from tests.kills.lab import Lab
from tests.support.lake import read


def test_online_schema_changes_under_traffic_end_equal(stack, tmp_path):
    online(stack, tmp_path, "osc")


@pytest.mark.long
def test_they_do_when_the_connector_s_task_begins_anew_before_the_swap(stack, tmp_path):
    """Debezium 3.6.1 forgets the columns of tables that it leaves out then, and goes on reading changes by those of the table that had
    the name before: a new column was missing from each.
    """

    online(stack, tmp_path, "oscagain", anew=True)


def online(stack, tmp_path, name, *, anew=False):
    """Both tools. ``anew``: the connector's task begins anew while rows are copied, behind the statement that made the new table."""
    patterns = [f"{name}.*", *(f"!{name}.{shadow}" for shadow in SHADOWS)]
    lab = Lab(stack, tmp_path, name=name, tables=("g", "p"))
    lab.settings["source"] = {"tables": patterns}
    lab.sql(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    for table in lab.tables:
        rows = ", ".join(f"({n}, 'v{n}', {n})" for n in range(1, 181))
        lab.sql(
            f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), n INT)",
            f"INSERT INTO {name}.{table} VALUES {rows}",
        )
    count, copied = itertools.count(1), Counter()

    def traffic(table: str) -> None:
        n = next(count)
        lab.sql(
            f"INSERT INTO {name}.{table} (v, n) VALUES ('new {n}', {n})",
            f"UPDATE {name}.{table} SET v = CONCAT('touched ', {n}), n = n + 1 WHERE id % 10 = {n % 10}",
            f"DELETE FROM {name}.{table} WHERE id = {n * 5}",
        )

    def copying(table: str) -> None:
        copied[table] += 1
        traffic(table)
        if anew and copied[table] == 5:
            for act in (Connector(lab.pipeline()).restart, lambda: traffic(table)):
                lab.until(lambda: lab.lake_rows(table) == lab.source_rows(table), "delivered", 120)
                act()
            lab.until(lambda: lab.lake_rows(table) == lab.source_rows(table), "again", 120)

    lab.begin()
    try:
        lab.until_equal(300)
        before = {table: DeltaTable(str(lab.lake / name / table)).version() for table in lab.tables}
        gh_ost(lab, "g", lambda: copying("g"))
        traffic("g")
        pt_osc(lab, "p", lambda: copying("p"))
        traffic("p")
        lab.until_equal(400)
        # Equal a moment before that is certain: a table's end is told after its last row.
        lab.until(lambda: not any(g.is_open for g in lab.entry().gaps), "closing gaps", 200)
        lab.until_equal()
    finally:
        lab.close()
    for table, version in before.items():
        old = DeltaTable(str(lab.lake / name / table), version=version)
        assert [field.name for field in old.schema().fields][:3] == ["id", "v", "n"]
        assert read(lab.lake / name / table, version).num_rows == 180
        now = DeltaTable(str(lab.lake / name / table))
        assert {field.name: str(field.type) for field in now.schema().fields}["n"].count("long")
        extra = read(lab.lake / name / table).column("extra").to_pylist()
        assert set(extra) == {"made by the copy"}
    assert not list((lab.lake / name).glob("_*"))
    assert sorted(path.name for path in (lab.lake / name).iterdir()) == ["g", "p"]
