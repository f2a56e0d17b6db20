"""`fetch` and `ahead`: what librdkafka brings of a range, when ever it does, is what Spark reads of it."""

import random
import time

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ingest.batch.parts import Parts
from ingest.config import pipeline_file
from ingest.kafka import broker, fetch, record_stream
from ingest.kafka.batch_ranges import KafkaLog
from ingest.kafka.fetch import Fetcher, FetchError
from ingest.kafka.prefetch import Ahead, expected
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.offset_ranges import filled
from tests.support.server import Cli


@pytest.fixture(scope="module")
def pipeline(stack, server, spark, tmp_path_factory):
    """Two topics with snapshot rows, which are applied, changes, which are not, and a marker behind each transaction
    of Connect's.
    """
    cli = Cli(stack, tmp_path_factory.mktemp("fetch"), spark)
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
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cli.folder)  # the lake's path is relative
        yield pipeline_file.load(file)
    connectors = f"{stack.connect().url}/connectors"
    for name in httpx.get(connectors, timeout=30).json():
        httpx.delete(f"{connectors}/{name}", timeout=30)


def ends_of(pipeline):
    """Where the topics end once all of it has come."""
    deadline, names = time.monotonic() + 60, ["fetch.fetch.a", "fetch.fetch.b"]
    before, ends = {}, broker.end_offsets(pipeline, names)
    while min(ends.values()) < 13 or ends != before:  # 12 records each, and a marker at least
        assert time.monotonic() < deadline
        time.sleep(1)
        before, ends = ends, broker.end_offsets(pipeline, names)
    return ends


def spark_s(spark, pipeline, ranges):
    rows = record_stream.range_(pipeline, spark, ranges).collect()
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
        fetcher, drawn = Fetcher(fetch.settings(pipeline)), random.Random(at_once + kept)
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


@pytest.fixture
def asked(monkeypatch):
    """The ranges that were fetched when they were asked for."""
    found, records = {}, Fetcher.records

    def noted(self, ranges, enough=None, keyed=()):
        if enough is None:
            found.update(filled(ranges))
        return records(self, ranges, enough, keyed)

    monkeypatch.setattr(Fetcher, "records", noted)
    return found


def begun(pipeline, *topics):
    """All that is to be fetched ahead has come."""
    ahead = Ahead(pipeline)
    ahead.begin(topics or {"fetch.fetch.a", "fetch.fetch.b"})
    ahead._begun.result(60)
    return ahead


def test_records_that_came_ahead_are_used_where_a_batch_begins_where_they_do(
    spark, pipeline, asked, monkeypatch
):
    ends = ends_of(pipeline)
    whole = spark_s(spark, pipeline, {place: (0, end) for place, end in ends.items()})
    starts = Ledger(pipeline.lake.path).last().ends
    assert all(starts[place] + 10 <= ends[place] for place in ends)
    monkeypatch.setattr(fetch, "_RECORDS_AT_ONCE", 3)
    first, second = sorted(ends)
    cuts = {end: {place: (starts[place], starts[place] + end) for place in ends} for end in (1, 8)}
    both = {place: (starts[place], ends[place]) for place in ends}
    for ranges, of_now in (
        (both, {}),
        (cuts[1], {}),
        (cuts[8], {}),
        ({first: both[first]}, {}),
        ({first: both[first], second: (0, ends[second])}, {second: (0, ends[second])}),
        ({place: (starts[place] + 1, ends[place]) for place in ends}, None),
    ):
        ahead = begun(pipeline)
        asked.clear()
        part = brought(ahead, ranges)
        assert {place: value for place, (value, _) in part.items()} == {
            place: value
            for place, (value, _) in whole.items()
            if place[:2] in ranges and place[2] in range(*ranges[place[:2]])
        }
        # Behind the last record stand markers, of which nobody knows without asking.
        fetched = {place for place in part if place[2] in range(*asked.get(place[:2], (0, 0)))}
        wanted = ranges if of_now is None else of_now
        assert fetched == {place for place in part if place[:2] in wanted}
        asked.clear()
        assert brought(ahead, ranges) == part  # once more, and nothing is left of it
        assert asked == filled(ranges)
        ahead.close()
    ahead = begun(pipeline, second[0])
    asked.clear()
    brought(ahead, both)
    assert asked[first] == both[first]
    assert asked.get(second) != both[second]
    ahead.close()
    ahead = begun(pipeline)
    ahead.forget()
    asked.clear()
    brought(ahead, both)
    assert asked == both
    ahead.close()


def test_an_end_before_all_has_come_leaves_the_rest_to_be_fetched(pipeline, asked):
    ends = ends_of(pipeline)
    starts = Ledger(pipeline.lake.path).last().ends
    both = {place: (starts[place], ends[place]) for place in ends}
    wanted = brought(Fetcher(fetch.settings(pipeline)), both)
    for rest in (0.0, 0.02, 0.05, 0.1, 0.2):  # before its first look at Kafka, and between any two
        ahead = Ahead(pipeline)
        ahead.begin({topic for topic, _ in ends})
        time.sleep(rest)
        assert brought(ahead, both).keys() == wanted.keys()
        ahead.close()


def test_what_is_fetched_ahead_is_what_the_first_part_takes(pipeline):
    """Spark's first range is only how far to come at least."""
    ends = ends_of(pipeline)
    for limit in (1, 7, 15, 1000):
        settings = pipeline.spark.model_copy(update={"max_changes_per_batch": limit})
        few = pipeline.model_copy(update={"spark": settings})
        newest = Ledger(pipeline.lake.path).last()
        ranges = {place: (newest.ends[place], end) for place, end in ends.items()}
        first = Parts(few, KafkaLog(None, few, None, None)).next(newest, ranges, exact=False)
        assert filled(first.ranges) == expected(newest.ends, broker.partitions(few), limit)


def test_records_of_a_topic_that_is_made_again_are_not_used(pipeline, asked):
    topic, place = "fetch.again.t", ("fetch.again.t", 0)
    admin = AdminClient(broker.connection(pipeline))

    def made(values):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        producer = Producer(broker.connection(pipeline))
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0

    made([b"old", b"old"])
    ahead = begun(pipeline, topic)
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 60
    while topic in broker.data_topics(pipeline):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    made([b"new", b"new"])
    asked.clear()
    found = brought(ahead, {place: (0, 2)})
    assert [value for value, _ in found.values()] == [b"new", b"new"]
    assert asked == {place: (0, 2)}
    ahead.close()
    admin.delete_topics([topic])[topic].result(30)


def test_keys_come_with_the_records_of_topics_that_they_are_wanted_of(spark, pipeline):
    ends = ends_of(pipeline)
    ranges = {place: (0, end) for place, end in ends.items()}
    rows = record_stream.range_(pipeline, spark, ranges).collect()
    keys = {(r.topic, r.offset): bytes(r.key) for r in rows if r.topic == "fetch.fetch.a"}
    assert len(keys) == 12
    fetcher, found = Fetcher(fetch.settings(pipeline)), {}
    for part in fetcher.records(ranges, keyed=["fetch.fetch.a"]):
        for (topic, _), records in part.items():
            if records.num_rows:
                assert ("key" in records.column_names) == (topic == "fetch.fetch.a")
            if "key" in records.column_names:
                found |= {(topic, r["offset"]): r["key"] for r in records.to_pylist()}
    fetcher.close()
    assert found == keys
