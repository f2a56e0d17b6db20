"""`dedup: both`: what Spark's state store lets through, on Spark's own stream."""

import json

import pytest
from pyspark.sql import functions as F

from ingest.changes.envelope import PLACE
from ingest.kafka import record_stream
from ingest.kafka.record_stream import SCHEMA


def change(pos, op="c", row=0):
    source = {"file": "log.000001", "pos": pos, "row": row, "gtid": None}
    return json.dumps({"op": op, "source": source}).encode()


@pytest.fixture
def stream(spark, tmp_path):
    """Writes records as a source's next batch, and drains a query over all of them; each has a checkpoint."""
    source, checkpoint = str(tmp_path / "records"), str(tmp_path / "checkpoint")

    def batch(records, through):
        rows = [("p.d.t", 0, offset, None, None, value, "") for offset, value in records]
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(source)
        found = []
        query = (
            through(spark.readStream.schema(SCHEMA).parquet(source))
            .writeStream.foreachBatch(lambda frame, _: found.append(frame.collect()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [row for rows in found for row in rows]

    return batch


def now(stream):
    return record_stream.unseen(stream, "1 hour")


def whole(stream):
    """As it was until records no longer went to the state's tasks."""
    return (
        stream.withColumn("_seen_at", F.current_timestamp())
        .withWatermark("_seen_at", "1 hour")
        .withColumn("_identity", record_stream.identity())
        .dropDuplicatesWithinWatermark(["_identity"])
        .drop("_seen_at", "_identity")
    )


def test_of_a_change_that_comes_again_only_the_first_place_comes_through(stream):
    first = stream([(0, change(10)), (1, change(20)), (2, change(10))], now)
    assert all(set(row.asDict()) == {*PLACE} for row in first)
    assert {row.offset for row in first} in (
        {0, 1},
        {2, 1},
    )  # which of two in one batch: the state's choice
    assert {row.offset for row in stream([(3, change(20)), (4, change(20, "d"))], now)} == {4}


def test_a_record_that_says_no_place_in_the_log_is_never_a_repetition(stream):
    assert len(stream([(0, b"{}"), (1, b"{}"), (2, None), (3, change(1, "r")), (4, change(1, "r"))], now)) == 5  # fmt: skip


def test_what_an_older_ingest_has_remembered_is_remembered(stream):
    assert {row.offset for row in stream([(0, change(10)), (1, change(20))], whole)} == {0, 1}
    assert {row.offset for row in stream([(2, change(20)), (3, change(30))], now)} == {3}
