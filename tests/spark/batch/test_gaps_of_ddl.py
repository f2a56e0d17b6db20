"""What only MySQL knows behind a DDL: an open gap says so, and the table is asked for."""

from contextlib import closing
from dataclasses import replace

import pytest

from ingest.source.resync import Requests
from ingest.testing.debezium import Record, compact, schema_record
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.support.lanes import LANES


@pytest.fixture
def asked(monkeypatch):
    """Tables that are asked for."""
    found = []
    monkeypatch.setattr(Requests, "ask", lambda _, tables, **more: found.extend(tables))
    return found


@pytest.fixture
def lake(spark, tmp_path):
    with closing(Lake(spark, tmp_path / "lake", spark=LANES["driver"][0])) as found:
        yield found


@pytest.mark.parametrize("stands", [False, True], ids=["an empty table", "rows that stand there"])
def test_of_rows_that_a_partition_took_with_it_an_open_gap_says_so(lake, asked, stands):
    """Amid a batch, which is not carried over it: whose rows they were, no event tells."""
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    if stands:
        lake.follow(source)
    table.insert(id=2)
    table._define("ALTER TABLE `d`.`t` DROP PARTITION p0")
    table.insert(id=3)
    lake.follow(source)
    (gap,) = lake.batches.newest.gaps
    assert gap.reason == "only MySQL knows which rows are there behind DROP PARTITION"
    assert gap.is_open
    assert asked == [gap.table] == ["d.t"]
    assert_rows(lake.table(table), table.rows)


def test_of_a_name_that_another_table_had_an_open_gap_says_that_its_rows_may_be_there_still(
    lake, asked
):
    """Renamed out of the patterns a table goes without a word; as in a log that is rotated, another is made under its name."""
    source = Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    lake.follow(source)
    table._rows.clear()
    columns = list(table.columns.values())
    made = schema_record(
        *(table.name, source._next(), columns, table.key), ddl="CREATE TABLE d.t (…)", kind="CREATE",
        snapshot=False, committed_at=source.now,
    )  # fmt: skip
    source.log.append(Record(source.name, compact(made)))
    table.insert(id=2, v=2)
    lake.follow(source)
    (gap,) = lake.batches.newest.gaps
    assert gap.reason == (
        "only MySQL knows which rows are there behind CREATE TABLE of a name that another table had"
    )
    assert gap.is_open
    assert asked == ["d.t"]


def test_of_columns_that_go_and_come_back_by_a_change_that_comes_late_an_open_gap_says_so(
    lake, asked
):
    """Of a topic of several partitions, of which one is read behind the others."""
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    lake.follow(source)
    table.insert(id=3)
    late = replace(source.log.pop(), partition=1)
    table.add_column("b", "INT", 7)
    table.update(2, b=9)
    lake.follow(source)
    assert not lake.batches.newest.gaps
    source.log.append(late)
    lake.follow(source)
    assert [one.reason for one in lake.batches.newest.gaps if one.is_open] == [
        "only MySQL knows what columns held that another partition had brought before a change from before them came"
    ]
    assert asked == ["d.t"]


@pytest.fixture
def log(spark, tmp_path):
    """A lake that keeps tables without a key as logs."""
    settings = {"tables": {"d.*": {"append_only": True}}}
    with closing(Lake(spark, tmp_path / "lake", **settings)) as found:
        yield found


NOTHING_COMES = (
    *("ALTER TABLE `d`.`t` DROP PARTITION p0", "ALTER TABLE `d`.`t` TRUNCATE PARTITION p0"),
    "CREATE TABLE `d`.`t` (v INT)",
)


@pytest.mark.parametrize("statement", NOTHING_COMES)
def test_a_log_of_which_rows_only_go_is_not_missing_any_and_keeps_them(log, asked, statement):
    """The usual purge, by partition or by rotation."""
    source = Source()
    table = source.table("d.t", {"v": "INT"}, rows=[{"v": 1}])
    log.follow(source)
    table.insert(v=2)
    kind = statement.split()[0]
    made = schema_record(
        *(table.name, source._next(), list(table.columns.values()), ()), ddl=statement, kind=kind,
        snapshot=False, committed_at=source.now,
    )  # fmt: skip
    source.log.append(Record(source.name, compact(made)))
    table.insert(v=3)
    log.follow(source)
    assert (log.batches.newest.gaps, asked) == ((), [])
    assert sorted(row.v for row in log.table(table).collect()) == [1, 2, 3]


def test_what_only_mysql_knows_of_a_log_is_an_open_gap_that_nothing_answers_by_itself(log, asked):
    source = Source()
    table = source.table("d.t", {"v": "INT"}, rows=[{"v": 1}])
    log.follow(source)
    table._define("ALTER TABLE `d`.`t` EXCHANGE PARTITION p0 WITH TABLE `x`.`y`")
    table.insert(v=2)
    log.follow(source)
    (gap,) = log.batches.newest.gaps
    assert (gap.is_open, asked) == (True, [])
    assert any("it is not taken again by itself" in one for one in log.said)
    log.start()
    log.batches.ask_again()
    assert asked == []
    assert sorted(row.v for row in log.table(table).collect()) == [1, 2]


def test_a_column_with_a_default_that_mysql_computes_takes_no_row_from_a_log(log, asked):
    source = Source()
    table = source.table("d.t", {"v": "INT"}, rows=[{"v": 1}, {"v": 7}])
    log.follow(source)
    table.delete({"v": 7})
    table.add_column("at", "INT")
    added = source.log.pop()
    computed = added.value.replace(b"ADD `at` INT", b"ADD `at` INT DEFAULT (UNIX_TIMESTAMP())")
    source.log.append(replace(added, value=computed))
    table.insert(v=2, at=3)
    log.follow(source)
    (gap,) = log.batches.newest.gaps
    assert gap.reason == "only MySQL knows what existing rows hold in the new column 'at'"
    assert (gap.is_open, asked) == (True, [])
    assert sorted(row.v for row in log.table(table).collect()) == [1, 2, 7]


def test_a_table_with_a_key_is_taken_again_though_its_pattern_says_append_only(log, asked):
    """There it means nothing: its rows go with those of the source."""
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    log.follow(source)
    table._define("ALTER TABLE `d`.`t` DROP PARTITION p0")
    table.insert(id=2)
    log.follow(source)
    assert [gap.is_open for gap in log.batches.newest.gaps] == [True]
    assert asked == ["d.t"]
