"""Facts about Debezium, with our connector settings, that correctness leans on: read off Kafka."""

import json
import time

import pytest
from confluent_kafka import TopicPartition

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.source.connector import Connector
from tests.support.server import Cli

COLUMNS = (
    "id INT PRIMARY KEY, inv INT DEFAULT 9, dt DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), "
    "e ENUM('a','b') DEFAULT 'b', big BIGINT UNSIGNED, d DECIMAL(20,10), tm TIME(6), y DATE, "
    "tiny TINYINT(1), b BIT(1)"
)


@pytest.fixture(scope="module")
def messages(stack, server, tmp_path_factory):
    """Everything that a few statements bring, per topic: (key, value) in offset order."""
    server.database("cap")
    server.sql(
        f"CREATE TABLE cap.t ({COLUMNS})",
        "INSERT INTO cap.t VALUES (1, NULL, NULL, NULL, 18446744073709551615, 1E-10, "
        "'-838:59:59', '0001-01-01', 127, b'1')",
        "CREATE TABLE cap.bag (a INT)",
        "INSERT INTO cap.bag VALUES (1)",
    )
    cli = Cli(stack, tmp_path_factory.mktemp("cap"))
    pipeline = pipeline_file.load(cli.init("cap", "cap.*"))
    connector = Connector(pipeline)
    connector.apply()
    end = time.monotonic() + 60
    while not (connector.offset() and not connector.offset().get("snapshot")):
        assert time.monotonic() < end
        time.sleep(0.2)
    server.sql(
        "UPDATE cap.t SET id = 2 WHERE id = 1",
        "INSERT INTO cap.t (id, tiny) VALUES (3, 2), (4, 0)",
        "REPLACE INTO cap.t (id, tiny) VALUES (3, 5)",
        "DELETE FROM cap.t WHERE id = 4",
        "TRUNCATE cap.t",
        "ALTER TABLE cap.t ADD COLUMN extra INT",
        "INSERT INTO cap.bag VALUES (2)",
        "DELETE FROM cap.bag WHERE a = 1",
    )
    found: dict[str, list] = {}
    consumer = broker.client(pipeline)
    wanted = {"cap": 9, "cap.cap.t": 8, "cap.cap.bag": 3}
    consumer.assign([TopicPartition(topic, 0, 0) for topic in wanted])
    while time.monotonic() < end and any(len(found.get(t, ())) < n for t, n in wanted.items()):
        message = consumer.poll(1)
        if message is not None and not message.error():
            pair = (message.key(), json.loads(message.value()) if message.value() else None)
            found.setdefault(message.topic(), []).append(pair)
    consumer.close()
    connector.delete()
    return found


def rows(messages, topic="cap.cap.t"):
    return [value for _, value in messages[topic]]


def place(value):
    source = value["source"]
    return (source["file"], source["pos"], source["row"])


def test_null_stays_null_and_does_not_become_the_default(messages):
    after = rows(messages)[0]["after"]
    assert (after["inv"], after["dt"], after["e"]) == (None, None, None)


def test_values_are_exact(messages):
    after = rows(messages)[0]["after"]
    assert after["big"] == 18446744073709551615
    assert after["d"] == "0.0000000001"
    assert after["tm"] == -3020399000000
    assert after["y"] == -719162
    assert (after["tiny"], after["b"]) == (127, True)


def test_a_key_change_is_a_delete_and_a_create_at_one_place(messages):
    delete, create = rows(messages)[1:3]
    assert (delete["op"], create["op"]) == ("d", "c")
    assert place(delete) == place(create)


def test_positions_only_grow_and_rows_of_one_event_are_numbered(messages):
    places = [place(value) for value in rows(messages)]
    assert places == sorted(places)
    first, second = rows(messages)[3:5]
    assert (place(first)[:2], first["source"]["row"], second["source"]["row"]) == (
        place(second)[:2],
        0,
        1,
    )


def test_replace_on_the_primary_key_is_one_update_and_truncate_arrives(messages):
    assert [value["op"] for value in rows(messages)] == ["r", "d", "c", "c", "c", "u", "d", "t"]


def test_a_table_without_a_key_has_null_keys_and_whole_images(messages):
    bag = messages["cap.cap.bag"]
    assert [key for key, _ in bag] == [None, None, None]
    assert bag[-1][1]["before"] == {"a": 1}


def test_no_null_records_are_written(messages):
    assert all(value is not None for value in rows(messages))


def test_snapshot_rows_carry_the_position_of_their_schema_records(messages):
    create = next(
        value
        for value in rows(messages, "cap")
        if any(c["type"] == "CREATE" and c["id"] == '"cap"."t"' for c in value["tableChanges"])
    )
    assert place(create)[:2] == place(rows(messages)[0])[:2]


def test_a_ddl_lies_strictly_between_the_rows_around_it_and_brings_all_columns(messages):
    alter = rows(messages, "cap")[-1]
    (change,) = alter["tableChanges"]
    assert change["type"] == "ALTER"
    assert len(change["table"]["columns"]) == 11
    truncate = rows(messages)[-1]
    assert place(truncate) < place(alter) < place(rows(messages, "cap.cap.bag")[1])


def test_schema_records_of_other_databases_do_not_come(messages):
    named = {c["id"].split('"')[1] for v in rows(messages, "cap") for c in v["tableChanges"]}
    assert named == {"cap"}
