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
