"""Tables that join later, on the real chain: the lake has each whole, and nobody did anything but running the pipeline."""

import json

import pytest
import yaml

from ingest.model import reasons
from ingest.source.connector import Connector
from tests.support.own_lab import own_lab

UNKNOWN_TABLES = "inconsistent.schema.handling.mode"
COLUMNS = """id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a', 'b,c') NOT NULL DEFAULT 'a', s SET('x', 'y'),
    t TIME(3), d DATETIME(6), c VARCHAR(9) CHARACTER SET latin1, u MEDIUMINT UNSIGNED, b BIT(10)"""
ROW = "('b,c', 'x,y', '-25:00:00.5', '2026-01-02 03:04:05.678901', 'é', 7, b'1000000001')"


@pytest.fixture
def lab(stack, tmp_path, request):
    with own_lab(stack, tmp_path / "later", request.param, tables=()) as found:
        yield found


def insert(table, times=1):
    return f"INSERT INTO {table} (e, s, t, d, c, u, b) VALUES {', '.join([ROW] * times)}"


def take(lab, *patterns):
    """The pipeline file takes these."""
    lab.write_pipeline()
    content = yaml.safe_load(lab.file.read_text())
    content["source"]["tables"] = list(patterns)
    lab.file.write_text(yaml.safe_dump(content))


def equal(lab, cli, seconds=180):
    """Everything is applied and no table is incomplete; then the audit compares every value."""
    lab.until_equal(seconds)
    same, verdict = cli.audit(lab.file)
    assert same, verdict


def stop(lab):
    lab.job.kill()
    lab.job = None


def joined(lab):
    """Tables with a gap that says so, and whether it is open."""
    entry = lab.entry()
    gaps = entry.gaps if entry else ()
    return {gap.table: gap.is_open for gap in gaps if reasons.JOINED.is_in(gap.reason)}


def passes_over(lab):
    """Whether the connector passes over tables that it does not know."""
    return UNKNOWN_TABLES in Connector(lab.pipeline()).current()


@pytest.mark.long
@pytest.mark.parametrize("lab", ["wider"], indirect=True)
def test_a_widened_pattern_takes_each_table_whole_also_where_the_job_is_killed_meanwhile(lab, cli):
    lab.sql(
        "DROP DATABASE IF EXISTS wider",
        "CREATE DATABASE wider",
        "CREATE TABLE wider.stays (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE wider.keyed ({COLUMNS})",
        "CREATE TABLE wider.bag (a INT, b ENUM('x', 'y'))",
        "CREATE TABLE wider.empty (id INT PRIMARY KEY)",
        "CREATE TABLE wider.back (id INT PRIMARY KEY, v INT)",
        "INSERT INTO wider.stays VALUES (1, 1)",
        insert("wider.keyed", 3),
        "INSERT INTO wider.bag VALUES (1, 'x'), (1, 'x'), (2, 'y')",
        "INSERT INTO wider.back VALUES (1, 1), (2, 2), (3, 3)",
    )
    take(lab, "wider.stays", "wider.back")
    lab.disarm()
    lab.start()
    lab.until(lambda: lab.entry() is not None, "a first batch")
    stop(lab)
    take(lab, "wider.stays")  # `back` is excluded for a while
    lab.start()
    lab.sql("UPDATE wider.stays SET v = 2")
    lab.until(lambda: lab.lake_rows("stays") == lab.source_rows("stays"), "going on without `back`")
    stop(lab)
    lab.sql(  # of a table that is excluded, and of which the connector would know the columns of before
        "ALTER TABLE wider.back ADD COLUMN w ENUM('p', 'q') NOT NULL DEFAULT 'q', MODIFY v VARCHAR(9)",
        "UPDATE wider.back SET v = 'nine' WHERE id = 1",
        "DELETE FROM wider.back WHERE id = 2",
        "INSERT INTO wider.back VALUES (4, 'four', 'p')",
    )
    take(lab, "wider.*")
    status = cli("status", str(lab.file), "--json")
    assert set(json.loads(status.stdout)["joining"]) == {
        *(f"wider.{table}" for table in ("keyed", "bag", "empty", "back")),
    }
    lab.start()
    lab.sql(  # of tables that the connector does not know
        insert("wider.keyed"),
        "UPDATE wider.keyed SET u = 8 WHERE id = 1",
        "INSERT INTO wider.bag VALUES (3, 'x')",
        "INSERT INTO wider.back VALUES (5, 'five', 'p')",
        "DELETE FROM wider.bag WHERE a = 2",
        "CREATE TABLE wider.fresh (id INT PRIMARY KEY)",
        "INSERT INTO wider.fresh VALUES (1)",
    )
    lab.until(lambda: bool(joined(lab)), "the gaps")
    lab.kill("driver")
    assert all(joined(lab).values())
    status = json.loads(cli("status", str(lab.file), "--json").stdout)
    assert {gap["table"] for gap in status["gaps"] if gap["open"]} >= {
        f"wider.{table}" for table in ("keyed", "bag", "empty", "back")
    }
    lab.start()
    lab.sql(insert("wider.keyed"), "INSERT INTO wider.bag VALUES (4, 'y')")
    equal(lab, cli)
    assert not any(joined(lab).values())
    lab.until(lambda: not passes_over(lab), "the connector's task fails where it does not know one")
    lab.sql(insert("wider.keyed"), "DELETE FROM wider.keyed WHERE id = 2")
    lab.sql("UPDATE wider.back SET v = 'six', w = 'p' WHERE id = 3")
    lab.sql("DELETE FROM wider.bag WHERE a = 1 LIMIT 1", "INSERT INTO wider.fresh VALUES (2)")
    equal(lab, cli)


@pytest.mark.long
def test_runs_with_once_call_it_incomplete_and_take_it_whole_one_after_the_other(cli, mysql):
    mysql.database("runs")
    mysql.sql(
        "CREATE TABLE runs.stays (id INT PRIMARY KEY)",
        f"CREATE TABLE runs.later ({COLUMNS})",
        "INSERT INTO runs.stays VALUES (1)",
        insert("runs.later", 2),
    )
    file = cli.init("runs", "runs.*")
    wide = file.read_text()
    file.write_text(wide.replace('["runs.*"]', '["runs.stays"]'))
    assert file.read_text() != wide
    assert cli.once(file).returncode == 0
    mysql.sql(insert("runs.later"))
    file.write_text(wide)
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    assert "runs.later: the table joined later" in done.stderr
    assert cli("status", str(file), "--fail-on-gap").returncode == 4
    mysql.sql(insert("runs.later"))  # which the connector does not know, or knows by now
    same, verdict = cli.audit(file)
    assert not same
    if verdict["outcome"] == "different":
        (found,) = [table for table in verdict["tables"] if table["name"] == "runs.later"]
        assert "incomplete: the table joined later" in found["note"]
    cli.until_mended(file)
    assert cli.once(file).returncode == 0
    same, verdict = cli.audit(file)
    assert same, verdict
    assert cli("status", str(file), "--fail-on-gap").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("lab", ["moved"], indirect=True)
def test_a_table_that_is_renamed_into_the_pattern_or_made_is_taken_whole_while_the_job_runs(
    lab, cli
):
    lab.sql(
        "DROP DATABASE IF EXISTS outside",
        "CREATE DATABASE outside",
        "DROP DATABASE IF EXISTS moved",
        "CREATE DATABASE moved",
        "CREATE TABLE moved.stays (id INT PRIMARY KEY)",
        "INSERT INTO moved.stays VALUES (1)",
        # The connector knows none of these, since they are there before it is.
        f"CREATE TABLE outside.old ({COLUMNS})",
        "CREATE TABLE outside.old_bag (a INT)",
        insert("outside.old", 2),
        "INSERT INTO outside.old_bag VALUES (1), (1)",
    )
    lab.begin("moved.*")
    equal(lab, cli)
    lab.sql(
        f"CREATE TABLE outside.new ({COLUMNS})",
        "CREATE TABLE outside.new_bag (a INT)",
        insert("outside.new", 2),
        "INSERT INTO outside.new_bag VALUES (1), (1)",
        *[f"RENAME TABLE outside.{t} TO moved.{t}" for t in ("old", "old_bag", "new", "new_bag")],
        f"CREATE TABLE moved.made ({COLUMNS})",
        "CREATE TABLE moved.made_bag (a INT)",
        *[insert(f"moved.{table}") for table in ("old", "new", "made")],
        *[f"INSERT INTO moved.{table}_bag VALUES (2)" for table in ("old", "new", "made")],
        "DELETE FROM moved.old WHERE id = 1",
        "DELETE FROM moved.new WHERE id = 1",
    )
    lab.until(lambda: "moved.old" in joined(lab), "naming what was renamed into the pattern")
    equal(lab, cli, 300)
    unknown, told = {"moved.old", "moved.old_bag"}, {"moved.new", "moved.new_bag"}
    # Of those that were made while it ran it has forgotten some where its task ended at a change of the others before it had told them.
    assert unknown <= set(joined(lab)) <= unknown | told
    assert not any(joined(lab).values())
    lab.until(lambda: not passes_over(lab), "the connector's task fails where it does not know one")
    lab.sql(*[insert(f"moved.{table}") for table in ("old", "new", "made")])
    lab.sql(*[f"DELETE FROM moved.{table}_bag WHERE a = 2" for table in ("old", "new", "made")])
    equal(lab, cli)
