"""`fetch`: what librdkafka brings of a range is what Spark reads of it."""

import random
import time

import pytest

from ingest import config, fetch, kafka, source
from ingest.fetch import Fetcher, FetchError


@pytest.fixture
def pipeline(cli, server):
    """Two topics with snapshot rows, changes, and a marker behind each transaction of Connect's."""
    server.database("fetch")
    server.sql(
        "CREATE TABLE fetch.a (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE fetch.b (id INT PRIMARY KEY, v VARCHAR(20))",
        *(f"INSERT INTO fetch.{name} VALUES (1, 's'), (2, 's')" for name in "ab"),
    )
    file = cli.init("fetch", "fetch.*")
    cli("run", str(file), "--once")
    for number in range(20):
        server.sql(f"INSERT INTO fetch.{'ab'[number % 2]} VALUES ({number + 10}, 'x')")
    return config.load(file)


def ends_of(pipeline):
    """Where the topics end once all of it has come."""
    deadline, names = time.monotonic() + 60, ["fetch.fetch.a", "fetch.fetch.b"]
    before, ends = {}, kafka.end_offsets(pipeline, names)
    while min(ends.values()) < 13 or ends != before:  # 12 records each, and a marker at least
        assert time.monotonic() < deadline
        time.sleep(1)
        before, ends = ends, kafka.end_offsets(pipeline, names)
    return ends


def spark_s(spark, pipeline, ranges):
    rows = source.range_(spark, pipeline, ranges).collect()
    return {(r.topic, r.partition, r.offset): (bytes(r.value), r.run) for r in rows}


def brought(fetcher, ranges):
    return {
        (*place, row["offset"]): (row["value"], row["run"])
        for part in fetcher.records(ranges)
        for place, records in part.items()
        for row in records.to_pylist()
    }


def assert_named(part, whole):
    """The last snapshot row of each partition has its run; no record has another's."""
    last = {}
    for place, (value, run) in sorted(part.items()):
        assert run in (None, whole[place][1])
        if b'"op":"r"' in value:
            last[place[:2]] = place
    for place in last.values():
        assert part[place][1] == whole[place][1]


def test_every_cut_of_the_log_is_brought_as_spark_reads_it_and_nothing_that_is_not_there(
    spark, pipeline, monkeypatch
):
    ends = ends_of(pipeline)
    whole = spark_s(spark, pipeline, {place: (0, end) for place, end in ends.items()})
    assert len(whole) == 24
    assert {run is not None for value, (_, run) in whole.items()} == {True}
    monkeypatch.setattr(fetch, "_TOGETHER", 3)
    for at_once, kept in ((100, 2**26), (2, 2**26), (100, 400)):  # as it is, in pieces, and all
        monkeypatch.setattr(fetch, "_RECORDS_AT_ONCE", at_once)
        monkeypatch.setattr(fetch, "_KEPT", kept)
        fetcher, drawn = Fetcher(pipeline), random.Random(at_once + kept)
        at, found = dict.fromkeys(ends, 0), {}
        while at != ends:  # ends of ranges fall upon records, upon markers, and between
            upto = {place: min(ends[place], at[place] + drawn.randrange(8)) for place in at}
            part = brought(fetcher, {place: (at[place], upto[place]) for place in at})
            assert_named(part, whole)
            found |= part
            at = upto
        assert {place: value for place, (value, _) in found.items()} == {
            place: value for place, (value, _) in whole.items()
        }
        place, end = min(ends.items())
        with pytest.raises(FetchError):
            list(fetcher.records({place: (end + 5, end + 9)}))
        fetcher.close()
