"""A batch of a flow that writes to MySQL and Redis is killed at each place behind which it could be: each of them has it once."""

from unittest.mock import patch

from ingest.flows import flow_query
from ingest.model.failpoints import OF_FLOWS
from tests.support.flows import at, words
from tests.support.server_sinks import COUNTED, RESULTS, counts, kept


def test_a_batch_that_dies_behind_any_of_its_sinks_is_in_each_of_them_once(
    flow_to_servers, server, redis
):
    server.sql("CREATE TABLE results.more LIKE results.counts")
    sinks = [
        {"delta": "out", "keys": ["word"]},
        RESULTS,
        {**RESULTS, "mysql": "more", "writes": "idempotent"},
        {"redis": "counts", "connection": "cache", "keys": ["word"]},
    ]
    flow = flow_to_servers(COUNTED, mode="update", sinks=sinks)
    wanted = {}
    for number, place in enumerate(OF_FLOWS):
        new = ("cat", "dog", "cat", f"new-{number}")
        flow.put(words(*[(at(number), word) for word in new]))
        for word in new:
            wanted[word] = wanted.get(word, 0) + 1
        for nth in range(len(sinks) if place == "flow_written" else 1):
            left = [nth]

            def reached(name, batch, detail="", place=place, left=left):
                if name == place:
                    left[0] -= 1
                    if left[0] == -1:
                        raise OSError(f"it dies at {place}")

            with patch.object(flow_query, "reached", reached):
                flow.run()
            flow.put(words((at(number), "cat")))
            wanted["cat"] += 1
    flow.run()
    assert {row["word"]: row["n"] for row in flow.rows()} == wanted
    assert counts(server) == wanted
    assert dict(server.sql("SELECT word, n FROM results.more")) == wanted
    assert {key: row["n"] for key, row in kept(redis).items()} == wanted
