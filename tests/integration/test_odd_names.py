"""Databases that are not the sample one: names that break careless tools."""

import pytest

from ingest.model.topics import TableId

DB = "we`ird db.1"
ODD = {
    "select": "id INT PRIMARY KEY, `from` VARCHAR(20)",
    "a b": "`x y` INT PRIMARY KEY, `c.d` VARCHAR(20), `q``t` INT",
    "dotted.name": "id INT PRIMARY KEY, v INT",
    "tick`s": "id INT PRIMARY KEY, v INT",
    "订单": "`编号` INT PRIMARY KEY, `金额` DECIMAL(10,2)",
    "n" * 64: "id INT PRIMARY KEY, v INT",
    "percent%20": "id INT PRIMARY KEY, v INT",
    "_hidden": "id INT PRIMARY KEY, v INT",
    "Cas": "Id INT PRIMARY KEY, V INT",
}


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def rows(name, columns):
    values = {2: "(1, 7), (2, NULL)", 3: "(1, 'a', 7), (2, NULL, NULL)"}[
        columns.count(",") + 1 - columns.count("(10,2)")
    ]
    return f"INSERT INTO {quoted(DB)}.{quoted(name)} VALUES {values}"


def test_odd_names_end_equal(cli, mysql):
    mysql.database(DB)
    for name, columns in ODD.items():
        mysql.sql(f"CREATE TABLE {quoted(DB)}.{quoted(name)} ({columns})", rows(name, columns))
    file = cli.init("odd", f"{quoted(DB)}.*")
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    mysql.sql(
        f"UPDATE {quoted(DB)}.`a b` SET `c.d` = 'it''s', `q``t` = -1 WHERE `x y` = 2",
        f"DELETE FROM {quoted(DB)}.{quoted('tick`s')} WHERE id = 1",
        f"INSERT INTO {quoted(DB)}.`订单` VALUES (3, -0.01)",
    )
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict
    assert {table["name"] for table in verdict["tables"]} == {
        str(TableId(DB, name)) for name in ODD
    }
    assert sum(table["source_rows"] for table in verdict["tables"]) == 2 * len(ODD)


@pytest.mark.long
def test_tables_whose_topics_would_collide_are_routed_apart_or_refused_by_name(cli, mysql):
    mysql.database("clash")
    for name in ("a_b", "a$b", "a-b"):
        mysql.sql(
            f"CREATE TABLE clash.{quoted(name)} (id INT PRIMARY KEY, v VARCHAR(9))",
            f"INSERT INTO clash.{quoted(name)} VALUES (1, '{name}')",
        )
    file = cli.init("cla_sh", "clash.*")  # a name that Debezium escapes, too
    assert "topic_names: escaped" in file.read_text()
    plain = cli.folder / "plain.yaml"
    plain.write_text(file.read_text().replace("topic_names: escaped", "topic_names: plain"))
    refused = cli.once(plain)
    assert refused.returncode == 2
    assert "`a$b`" in refused.stderr
    assert "`a_b`" in refused.stderr
    assert not (cli.folder / "lake").exists()
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert (equal, len(verdict["tables"])) == (True, 3)
