"""Both readers answer a request in the same form: of plain records, the same facts, counts and rows."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from ingest.batch.plain_reader import PlainReader
from ingest.batch.readers import Reader
from ingest.batch.record_reader import ReaderJob, ReadRequest, SparkRecords
from ingest.batch.spark_reader import SparkReader
from ingest.batch.stage_times import Stopwatch
from ingest.batch.table_definitions import Definitions
from ingest.lake.delta.commit import Committer
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model import reasons
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.testing.lake import Lake
from ingest.testing.source import Source

COLUMNS = {"id": "INT", "v": "VARCHAR(20)"}


@pytest.fixture(params=["driver", "spark"])
def asked(spark, tmp_path, request):
    """A request of two tables with a key and one without, none of it applied yet, and what its readers begin with; on each lane."""
    lake, source = Lake(spark, tmp_path / "lake", spark={"lane": request.param}), Source()
    for name, key in (("d.one", ["id"]), ("d.two", ["id"]), ("d.loose", [])):
        table = source.table(name, COLUMNS, key=key)
        table.insert(id=1, v="a")
        table.insert(id=2, v="b")
        if key:
            table.update(1, v="A")
            table.delete(2)
    for record in source.log:
        if record.topic == lake.name:
            lake.log.define(json.loads(record.value or b"{}"))
        else:
            lake.log.add(record)
    ranges = {place: (0, end) for place, end in lake.log.ends().items()}
    seen = Definitions(lake.pipeline, lake.log).in_force(Note(1, "c", ranges=ranges), None)
    with ThreadPoolExecutor(2) as pool:
        held = HeldBack(spark, str(lake.path), Committer(1))
        job = ReaderJob(spark, lake.pipeline, lake.log, pool, (), held, collects=True)
        request = ReadRequest(
            seen.note, seen.catalog, seen.aside, SparkRecords(lake.log.read), None
        )
        yield job, request
    lake.close()


def plain(request):
    return request.of({one for one in request.topics if not one.endswith("loose")})


def test_of_plain_records_both_readers_say_the_same(asked):
    job, request = asked
    request = plain(request)
    by_spark = SparkReader(job)
    (one, left), (other, rest) = (
        reader.read(request, Stopwatch()) for reader in (PlainReader(job), by_spark)
    )
    assert (left, rest) == ({}, {})
    assert one.facts == other.facts
    assert sorted(map(str, one.facts)) == ["d.one", "d.two"]
    assert one.counts == other.counts
    assert one.counts.changes == 8
    assert (one.ties, other.ties) == ((), [])
    # Spark's tasks hand over the newest change of each key alone.
    rows = 4 if job.pipeline.spark.lane == "driver" else 2
    assert {str(table): found.num_rows for table, found in one.rows.items()} == {"d.one": rows, "d.two": rows}  # fmt: skip
    assert other.fresh.count() == 8
    by_spark.release()


def test_what_the_driver_leaves_is_spark_s_and_both_are_one_reading(asked):
    job, request = asked
    reader, watch = Reader(job), Stopwatch()
    read = reader.read(request, watch)
    assert sorted(map(str, read.facts)) == ["d.loose", "d.one", "d.two"]
    assert sorted(map(str, read.rows)) == ["d.one", "d.two"]
    assert [*read.left.values()] == ["it has no key"]
    assert read.counts.changes == 10
    tables = read.fresh.select(F.col("table")).distinct().collect()
    assert [row.table for row in tables] == ["loose"]
    assert list(watch.stages) == ["read", "decode"]
    reader.release()


def test_a_reader_that_has_to_leave_all_of_it_does_not_try(asked):
    job, request = asked
    late = ReadRequest(**{**vars(request), "late": True})
    found, left = PlainReader(job).read(late, watch := Stopwatch())
    assert found is None
    assert left == dict.fromkeys(request.topics, "all of it came late to Spark")
    assert watch.stages == {}


def test_a_table_that_stands_before_a_ddl_leaves_no_other_to_spark(asked):
    job, request = asked
    paused = {"d.two": Position(0, 1, 1)}
    request = plain(request)
    request = replace(request, note=replace(request.note, paused=paused))
    read, left = PlainReader(job).read(request, Stopwatch())
    assert sorted(map(str, read.facts)) == ["d.one"]
    assert left == {job.pipeline.topic(TableId("d", "two")): reasons.PAUSED.of()}
