"""As of which moment Debezium reads a table that was asked for, and which place its rows carry."""

import itertools
import json
import threading
import time
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.model.position import Position
from ingest.source import resync_signal
from ingest.source.connector import Connector, is_snapshotting
from ingest.source.resync_request import Request
from tests.support.server import Cli


@pytest.mark.long
def test_rows_of_a_blocking_snapshot_hold_changes_that_are_streamed_behind_them(
    stack, server, tmp_path
):
    server.database("moments")
    server.sql("CREATE TABLE moments.bag (id INT)")
    pipeline = pipeline_file.load(Cli(stack, tmp_path).init("moments", "moments.*"))
    broker.ensure_topic(pipeline, resync_signal.signal_topic(pipeline))
    connector, ended = Connector(pipeline), threading.Event()

    def write(client):
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            for number in itertools.count(1):
                cursor.execute(f"INSERT INTO moments.bag VALUES ({number * 10 + client})")
                if ended.is_set():
                    return

    try:
        connector.apply()
        until(lambda: not is_snapshotting(connector.offset()), "the stream")
        clients = [threading.Thread(target=write, args=(one,)) for one in (1, 2)]
        for client in clients:
            client.start()
        place = Position(0, 1, 4)
        resync_signal.put(pipeline, [Request("now", "moments.bag", "BLOCKING", place)])
        until(lambda: any(op == "r" for op, _, _ in messages(pipeline)), "rows of the snapshot")
        ended.set()
        for client in clients:
            client.join(60)
        server.sql("INSERT INTO moments.bag VALUES (0)")
        until(lambda: any(number == 0 for _, number, _ in messages(pipeline)), "the last row")
        found = messages(pipeline)
    finally:
        ended.set()
        connector.delete()
    read = {number: at for op, number, at in found if op == "r"}
    streamed = {number: at for op, number, at in found if op == "c"}
    assert [one for one in read if one in streamed and streamed[one] > read[one]]


def messages(pipeline):
    """Of all that came by now: `op`, the row's number, and its place."""
    topic, found = f"{pipeline.name}.moments.bag", []
    end = broker.end_offsets(pipeline, [topic]).get((topic, 0), 0)
    with closing(broker.client(pipeline)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(found) < end:
            message = consumer.poll(10)
            assert message is not None
            value = json.loads(message.value())
            source = value["source"]
            found.append((value["op"], value["after"]["id"], (source["file"], source["pos"])))
    return found


def until(is_so, what, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.5)
