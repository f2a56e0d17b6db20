"""A change log that is asked for later and filled from Kafka is what it would be had it been there from the beginning."""

from collections import Counter
from contextlib import suppress
from datetime import date
from unittest.mock import patch

import pytest

from ingest.batch.change_logs import ChangeLogs
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.conformance.targets import Crash
from tests.spark.batch.test_change_log import SOURCE, operations
from tests.spark.batch.test_change_log_goes_on import torn
from tests.support.change_log import folded, frozen, log_of, place, rows_of

MIRROR = {"targets": ["mirror"]}
LOGGED = {"targets": ["mirror", "change_log"]}
FROM_KAFKA = {**LOGGED, "change_log_from": "kafka"}


def written(source):
    """Two tables with all that a log may hold."""
    columns = {"id": "INT", "v": "VARCHAR(20)"}
    table = source.table("d.t", columns, ["id"], rows=[{"id": 0, "v": "a"}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}, {"n": 1}])
    for number in range(1, 6):
        table.insert(id=number, v="line\u2028separator")
        bag.insert(n=number)
    table.update(1, v="")
    table.update(2, id=20)
    table.delete(3)
    bag.delete({"n": 1})
    table.add_column("c", "INT", default=7)
    table.insert(id=7, v="x", c=1)
    bag.truncate()
    bag.insert(n=9)
    table.rename_column("v", "w")
    table.update(7, w="y")
    return table, bag


def told(lake, table):
    """All that a log says, but for the batches' numbers."""
    return Counter(frozen(row | {"batch_id": 0}) for row in log_of(lake, table))


@pytest.fixture
def known(spark, tmp_path):
    """A lake of which each table has had a change log from the beginning."""
    made = []

    def open_lake(**settings):
        made.append(Lake(spark, tmp_path / "known", defaults=LOGGED, **settings))
        return made[-1]

    yield open_lake
    for one in made:
        one.close()


@pytest.mark.parametrize("engine", ["delta-rs", pytest.param("spark", marks=pytest.mark.long)])
def test_it_is_what_it_would_be_had_it_been_there_from_the_beginning(logged, known, engine):
    source, spark = Source(), {"merge_engine": engine}
    table, bag = written(source)
    one = known(spark=spark)
    one.follow(source)
    logged(spark=spark, defaults=MIRROR).follow(source, 3)
    other = logged(spark=spark, defaults=FROM_KAFKA)
    for name in ("d.t", "d.bag"):
        assert told(other, name) == told(one, name)
    assert len([said for said in other.said if "Kafka still had" in said]) == 2
    other.start()
    table.insert(id=100, w="z")
    bag.insert(n=100)
    for lake in (one, other):
        lake.follow(source)
    for name in ("d.t", "d.bag"):
        assert told(other, name) == told(one, name)


@pytest.mark.parametrize(
    "at", [pytest.param("log_started", marks=pytest.mark.long), "log_committed"]
)
def test_one_that_is_torn_while_it_is_filled_is_filled_once(logged, at):
    source = Source()
    table, bag = written(source)
    logged(defaults=MIRROR).follow(source, 2)
    for _ in range(2):
        with suppress(Crash), torn(at):
            logged(defaults=FROM_KAFKA)
    lake = logged(defaults=FROM_KAFKA)
    table.delete(5)
    lake.follow(source)
    found = [(*place(row), row["operation"]) for row in log_of(lake)]
    assert len(found) == len(set(found)), "none is there twice"
    assert folded(log_of(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    changes = [row for row in found if row[-1] == "insert"]
    assert len(changes) == 7


def test_what_kafka_has_lost_is_missing_behind_a_mark(logged):
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    table.insert(id=3)
    table.insert(id=4)
    lake = logged(defaults=MIRROR)
    lake.follow(source)
    lake.log.lost = {(table.topic, 0): 3}
    lake = logged(defaults=FROM_KAFKA)
    assert [row["operation"] for row in log_of(lake)] == ["begin", "insert"]
    table.insert(id=5)
    lake.follow(source)
    assert [row["after"]["id"] for row in log_of(lake) if row["after"]] == [4, 5]
    lake.log.lost = {(table.topic, 0): 5}
    assert len(log_of(logged(defaults=FROM_KAFKA))) == 3, (
        "what it has stays, and is not filled again"
    )


def test_where_kafka_has_nothing_any_more_it_begins_with_the_next_change(logged):
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake = logged(defaults=MIRROR)
    lake.follow(source)
    lake.log.lost = {(table.topic, 0): 1}
    lake = logged(defaults=FROM_KAFKA)
    table.insert(id=2)
    lake.follow(source)
    assert operations(lake) == [("begin", "stream"), ("insert", "stream")]


def test_what_waits_in_quarantine_comes_once_when_it_is_taken_in(logged):
    source = Source()
    table = source.table("d.t", {"id": "INT", "d": "DATE NOT NULL"}, ["id"])
    for number in (1, 2):
        table.insert(id=number, d=date(1970, 1, number))
    table.update(1, d=date(1980, 1, 1))
    lake = logged(defaults=MIRROR)
    lake.follow(source, quarantine=True)
    assert lake.quarantined().count() == 2, "one that could be of two, and what waits behind it"
    lake = logged(source={**SOURCE, "epoch_dates": "keep"}, defaults=FROM_KAFKA)
    assert operations(lake) == [("insert", "stream")]
    lake.batches.replay()
    assert folded(log_of(lake), ["id"]) == Counter(map(frozen, table.rows))
    assert len(rows_of(lake.pipeline.change_log_path(table.name))) == 3


def test_rows_that_a_later_snapshot_did_not_find_are_gone_from_it(logged):
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    table.insert(id=3)
    lake = logged(defaults=MIRROR)
    lake.follow(source)
    del table._rows[0]  # as by a foreign key's cascade, which no log has
    table.snapshot()
    lake.follow(source)
    lake.settle()
    assert_rows(lake.live(table), table.rows)
    lake = logged(defaults=FROM_KAFKA)
    assert folded(log_of(lake), ["id"]) == Counter(map(frozen, table.rows))
    assert ("void", "resync") in operations(lake)


def test_a_table_whose_log_cannot_be_filled_stands_still_and_the_others_go_on(logged):
    source = Source()
    table, bag = written(source)
    logged(defaults=MIRROR).follow(source)

    def fails(self, log, batch, wanted, at):
        if str(batch.facts.table) == "d.t":
            raise ValueError("no room")
        return appended(self, log, batch, wanted, at)

    appended = ChangeLogs.append
    with patch.object(ChangeLogs, "append", fails):
        lake = logged(defaults=FROM_KAFKA)
    assert "its change log: ValueError: no room" in lake.batches.newest.tables["d.t"].stopped
    table.insert(id=50)
    bag.insert(n=50)
    lake.follow(source)
    assert_rows(lake.live(bag), bag.rows)
    assert folded(log_of(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    lake = logged(defaults=FROM_KAFKA)
    lake.apply(lake.log.ends())
    assert_rows(lake.live(table), table.rows)
    assert ("begin", "stream") not in operations(lake)
    assert operations(lake).count(("insert", "stream")) == 8
