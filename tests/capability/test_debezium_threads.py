"""What Debezium's snapshot by several threads loses, and how it cuts a table: why `snapshot.max.threads` stays 1."""

import itertools
import json
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import TopicPartition

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.source.connector import Connector, desired
from tests.support.server import Cli

ROWS = 50_000
BAGS = ("b1", "b2", "b3", "b4", "b5", "b6")


@contextmanager
def snapshotting(stack, server, folder, name, threads):
    """A connector that has just begun, with so many threads."""
    pipeline = pipeline_file.load(Cli(stack, folder).init(name, f"{name}.*"))
    settings = desired(pipeline) | {"snapshot.max.threads": str(threads)}
    Connector(pipeline)._call("PUT", f"/connectors/{name}/config", json=settings)
    try:
        yield pipeline
    finally:
        Connector(pipeline).delete()


def until_streaming(pipeline):
    offset = Connector(pipeline).offset
    end = time.monotonic() + 120
    while not (found := offset()) or found.get("snapshot"):
        assert time.monotonic() < end, "it does not stream"
        time.sleep(0.1)


def rows(pipeline, table):
    """The ids of all that came of a table, snapshot and stream, up to the row with the id 0."""
    with closing(broker.client(pipeline)) as consumer:
        consumer.assign([TopicPartition(f"{pipeline.name}.{table}", 0, 0)])
        end = time.monotonic() + 60
        while time.monotonic() < end:
            message = consumer.poll(1)
            if message is None or message.error():
                continue
            row = json.loads(message.value())["after"]
            if row["id"] == 0:
                return
            yield row["id"]
    raise AssertionError("the row that was inserted last has not come")


@pytest.mark.long
@pytest.mark.parametrize(("threads", "doubles"), [(1, False), (4, True)])
def test_what_is_inserted_while_a_snapshot_reads_comes_twice_by_several_threads_alone(
    stack, server, tmp_path, threads, doubles
):
    name = f"threads{threads}"
    server.database(name)
    numbers = ", ".join(f"({number})" for number in range(1, ROWS + 1))
    bags = [f"{name}.{bag}" for bag in BAGS]  # without a key: twice in Kafka is twice in the lake
    server.sql(
        f"CREATE TABLE {name}.a_long_one (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.a_long_one VALUES {numbers}",
        *(f"CREATE TABLE {bag} (id INT)" for bag in bags),
    )
    ended = threading.Event()

    def write():
        for number in itertools.count(1):
            server.sql(*(f"INSERT INTO {bag} VALUES ({number})" for bag in bags))
            if ended.wait(0.05):
                return

    with snapshotting(stack, server, tmp_path, name, threads) as pipeline:
        writing = threading.Thread(target=write)
        writing.start()
        until_streaming(pipeline)
        ended.set()
        writing.join(60)
        server.sql(*(f"INSERT INTO {bag} VALUES (0)" for bag in bags))
        twice = {
            bag: [one for one, times in Counter(rows(pipeline, bag)).items() if times > 1]
            for bag in bags
        }
    assert any(twice.values()) is doubles, twice


@pytest.mark.long
def test_several_threads_cut_a_table_by_an_enum_in_two_orders_and_leave_rows_out(
    stack, server, tmp_path
):
    server.database("cut")
    server.sql(
        "CREATE TABLE cut.t (e ENUM('z', 'y', 'a'), id INT, PRIMARY KEY (e, id))",
        "INSERT INTO cut.t VALUES ('z', 1), ('y', 2), ('a', 3)",
    )
    with snapshotting(stack, server, tmp_path, "cut", 2) as pipeline:
        until_streaming(pipeline)
        server.sql("INSERT INTO cut.t VALUES ('z', 0)")
        assert set(rows(pipeline, "cut.t")) < {1, 2, 3}
