"""A change log as a history: each row as it was, from when until when."""

from pyspark.sql import functions as F

from ingest.flows import row_history
from ingest.testing.source import Source
from tests.support.totals_shop import CUSTOMERS

KIND = "operation string, position int, batch_id int, committed_at int, origin string, before struct<id: int, b: int>, after struct<id: int, b: int>"
ROW = {"id": 1, "b": None}


def told(spark, changes, key=()):
    """From when until when each was so, 0 for still. A change: operation, position, batch, before, after; MySQL committed it at its position."""
    rows = [
        (
            operation,
            at,
            batch,
            None if operation == "restart" else at,
            "snapshot" if operation == "read" else "stream",
            before,
            after,
        )
        for operation, at, batch, before, after in changes
    ]
    found = row_history.of(spark.createDataFrame(rows, KIND), key).collect()
    return sorted((one.valid_from or 0, one.valid_to or 0) for one in found)


def test_of_rows_that_are_alike_the_first_that_goes_is_the_first_that_came(spark):
    changes = [
        ("insert", 1, 1, None, ROW),
        ("insert", 2, 1, None, ROW),
        ("delete", 3, 1, ROW, None),
    ]
    assert told(spark, changes) == [(1, 3), (2, 0)]


def test_what_a_default_changed_ends_with_the_next_event_of_its_key(spark):
    given = {"id": 1, "b": 5}
    changes = [
        ("insert", 1, 1, None, ROW),
        ("update", 2, 1, given, {"id": 1, "b": 6}),
        ("insert", 4, 2, None, given),
    ]
    assert told(spark, changes, ["id"]) == [(1, 2), (2, 4), (4, 0)]


def test_a_row_that_goes_behind_a_truncate_is_none_that_the_truncate_had_ended(spark):
    changes = [
        ("insert", 1, 1, None, ROW),
        ("truncate", 2, 1, None, None),
        ("insert", 3, 1, None, ROW),
        ("insert", 4, 1, None, ROW),
        ("delete", 5, 2, ROW, None),
    ]
    assert told(spark, changes) == [(1, 2), (3, 5), (4, 0)]


def test_of_a_snapshot_that_begins_again_in_one_place_the_first_attempt_s_rows_are_ended(spark):
    changes = [
        ("read", 5, 1, None, ROW),
        ("restart", 5, 2, None, None),
        ("read", 5, 2, None, ROW),
        ("insert", 6, 3, None, {"id": 2, "b": 2}),
        ("delete", 7, 4, ROW, None),
    ]
    assert told(spark, changes) == [(0, 5), (0, 7), (6, 0)]


def test_a_history_tells_how_a_row_was_at_an_event(spark, tmp_path, logged):
    source, lake = Source(), logged()
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    lake.follow(source)
    customers.update(1, region="south")
    customers.insert(id=2, region="west")
    customers.delete(2)
    customers.update(1, region="north")
    lake.follow(source)
    customers.insert(id=3, region="east")
    customers.truncate()
    customers.insert(id=4, region="new")
    lake.follow(source)
    log = lake.changes("d.customers", today=True)
    told = F.col("committed_at").isNotNull()
    moment = F.timestamp_seconds(F.col("position.file") * 1_000_000 + F.col("position.pos"))
    log = log.withColumn("committed_at", F.when(told, moment))
    at = {
        (row.operation, row.after and row.after.region): row.committed_at for row in log.collect()
    }
    assert len({*at.values()}) > 6
    rows = row_history.of(log, ["id"]).orderBy("id", F.col("valid_to").asc_nulls_last()).collect()
    assert [(row.id, row.region, row.valid_from, row.valid_to) for row in rows] == [
        (1, "north", None, at["update", "south"]),
        (1, "south", at["update", "south"], at["update", "north"]),
        (1, "north", at["update", "north"], at["truncate", None]),
        (2, "west", at["insert", "west"], at["delete", None]),
        (3, "east", at["insert", "east"], at["truncate", None]),
        (4, "new", at["insert", "new"], None),
    ]
