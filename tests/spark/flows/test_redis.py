"""Redis as a sink of a flow: the newest row of each key, and never back."""

import json
from contextlib import closing
from unittest.mock import patch

import pytest

from ingest.config.connection_settings import Server
from ingest.flows import flow_query, redis_sink
from ingest.flows.refused_rows import MOST, Refused
from ingest.flows.refused_table import RefusedRows
from ingest.model.errors import IngestError
from ingest.testing.source import Source
from tests.support.flows import OneFlow, at, dying, words

LATEST = """SELECT coalesce(after.id, before.id) id, after.name name, operation, position
FROM words WHERE operation IN ('read', 'insert', 'update', 'delete')"""


def test_redis_keeps_the_newest_row_of_each_key_and_no_older_write_brings_one_back(
    spark, tmp_path, logged, redis
):
    source, lake = Source(), logged()
    table = source.table(
        "d.t", {"id": "INT", "name": "VARCHAR(9)"}, ["id"], rows=[{"id": 1, "name": "a"}]
    )
    lake.follow(source)
    sink = {
        "redis": "t",
        "connection": "cache",
        "keys": ["id"],
        "version": "position",
        "deleted": "operation = 'delete'",
    }
    connections = {"cache": {"url": redis.url, "password": {"file": str(redis.secret)}}}
    words = {"words": {"change_log": "d.t"}}
    flow = OneFlow(spark, tmp_path, LATEST, inputs=words, sinks=[sink], connections=connections)
    flow.pipeline = lake.pipeline.model_copy(
        update={"flows": flow.pipeline.flows, "connections": flow.pipeline.connections}
    )
    table.insert(id=2, name="b")
    table.update(1, name="c")
    table.delete(2)
    table.insert(id=3, name="d:%")
    lake.follow(source)
    with patch.object(flow_query, "reached", dying("flow_written")):
        flow.run()
    with closing(redis.client()) as client:
        before = {key: client.hgetall(key) for key in client.keys("t:*")}
        assert {
            key: json.loads(one["row"])["name"] if "row" in one else None
            for key, one in before.items()
        } == {
            "t:1": "c",
            "t:2": None,
            "t:3": "d:%",
        }
        server = Server(kind="redis", name="cache", host="127.0.0.1", port=redis.port, user="", ca=None, tls=False,
                        password=redis.secret.read_text(), database="0")  # fmt: skip
        into = redis_sink.Into(server, "t", ("id", "name"), ("id",))
        old = [
            (2, "b", False, "0" * len(before["t:2"]["version"])),
            (1, "a", False, "0" * len(before["t:1"]["version"])),
        ]
        assert list(redis_sink.by_key(into, iter(old))) == []
        assert {key: client.hgetall(key) for key in client.keys("t:*")} == before
        client.set("t:9", "something else")
        refused = list(redis_sink.by_key(into, iter([(9, "x", False, "1"), (10, "y", False, "1")])))
        assert [json.loads(row)["id"] for row, _ in refused] == [9]
        assert client.get("t:9") == "something else"
        assert json.loads(client.hget("t:10", "row"))["name"] == "y"


def test_more_refused_rows_than_can_be_the_rows_fault_stop_the_flow(spark, tmp_path):
    held = RefusedRows(spark, str(tmp_path / "refused"), None, "app", "c")
    with pytest.raises(IngestError, match="refuses more than 10,000 rows of one batch"):
        held.keep("mysql:t", 0, [Refused("{}", "no")] * (MOST + 1))


def test_versions_that_are_made_in_another_way_are_newer_than_those_of_before(
    spark, tmp_path, redis
):
    connections = {"cache": {"url": redis.url, "password": {"file": str(redis.secret)}}}
    sink = {"redis": "w", "connection": "cache", "keys": ["word"]}
    flow = OneFlow(
        spark,
        tmp_path,
        "SELECT word, at FROM words",
        sinks=[{**sink, "version": "at"}],
        connections=connections,
    )
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.change("SELECT word, 'now' is FROM words", sinks=[sink])
    flow.put(words((at(0), "cat")))
    flow.run()
    with closing(redis.client()) as client:
        assert json.loads(client.hget("w:cat", "row")) == {"word": "cat", "is": "now"}


@pytest.fixture
def begun_again(spark, tmp_path, redis):
    """A flow whose versions are made in another way than at first, and a client; what is written in it is `now` from then on."""
    with closing(redis.client()) as client:
        client.flushall()
        connections = {"cache": {"url": redis.url, "password": {"file": str(redis.secret)}}}
        sink = {"redis": "w", "connection": "cache", "keys": ["word"]}
        first = [{**sink, "version": "at"}]
        flow = OneFlow(spark, tmp_path, TOLD, sinks=first, connections=connections)
        flow.put(words((at(1), "cat")))
        flow.run()
        (owner,) = client.keys("ingest:flow:*")
        before = client.hgetall(owner)
        flow.change(TOLD, sinks=[sink])
        flow.put(words((at(2), "cat")))
        flow.run()
        assert client.hget(owner, "epoch") == "2"
        yield flow, client, owner, before


TOLD = "SELECT word, at FROM words"


def told(client):
    return json.loads(client.hget("w:cat", "row"))["at"][11:16]


def test_what_redis_has_lost_of_a_flow_does_not_have_it_pass_over_all_that_comes(begun_again):
    flow, client, owner, before = begun_again

    def lost():
        client.delete(owner)

    def older():
        client.delete(owner)
        client.hset(owner, mapping=before)

    lost()
    for minute, loses in enumerate((lambda: None, lost, older), start=3):
        flow.put(words((at(minute), "cat")))

        def reached(name, *_, loses=loses):
            if name == "flow_started":
                loses()

        with patch.object(flow_query, "reached", reached):
            flow.run()
        assert told(client) == f"12:0{minute}"


def test_a_flow_that_another_has_followed_brings_nothing_back_whatever_redis_has_lost(redis):
    with closing(redis.client()) as client:
        client.flushall()
        server = Server(kind="redis", name="cache", host="127.0.0.1", port=redis.port, user="", ca=None, tls=False,
                        password=redis.secret.read_text(), database="0")  # fmt: skip
        old = redis_sink.begin(server, "o", "by a", 0)
        new = redis_sink.begin(server, "o", "by b", old)
        assert (old, new) == (1, 2)
        assert redis_sink.epoch(server, "o", "by a", old) == 0, "it is followed"
        assert redis_sink.epoch(server, "o", "by b", new) == new
        client.delete("o")
        assert redis_sink.epoch(server, "o", "by a", old) == 2, "it cannot know"
        later = redis_sink.epoch(server, "o", "by b", new)
        assert later == 3, "that somebody else has its number is no number of its own"
        assert redis_sink.epoch(server, "o", "by b", new) == later
        assert redis_sink.epoch(server, "o", "by a", old) == 0
