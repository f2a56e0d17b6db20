"""Flows into MySQL and Redis that are begun anew, edited, or whose tables are not what they were: what the servers hold then."""

from unittest.mock import patch

import pytest

from ingest.flows import flow_query
from ingest.model.errors import IngestError
from tests.support.flows import at, dying, words
from tests.support.server_sinks import COUNTED, EACH, RESULTS, counts


def test_a_table_of_a_backup_is_not_gone_on_with_and_is_written_anew_where_that_is_said(
    flow_to_servers, server
):
    flow = flow_to_servers(COUNTED, mode="update", sinks=[RESULTS])
    for number in range(2):
        flow.put(words((at(number), "cat"), (at(number), f"w{number}")))
        flow.run()
    server.sql(
        "UPDATE results.ingest_flow_places SET batch = 0",
        "DELETE FROM results.counts WHERE word = 'w1'",
    )
    flow.put(words((at(9), "dog")))
    with pytest.raises(
        IngestError,
        match="it is older than its checkpoint: it is behind batch 0, and that behind 3",
    ):
        flow.run()
    assert counts(server) == {"cat": 2, "w0": 1}
    flow.change(
        COUNTED,
        mode="update",
        sinks=[RESULTS],
        on_change="restart",
    )
    flow.run()
    assert counts(server) == {"cat": 2, "w0": 1, "w1": 1, "dog": 1}


def test_a_first_start_that_failed_is_followed_by_one_that_does_not(flow_to_servers, server):
    flow = flow_to_servers(COUNTED, mode="update", sinks=[RESULTS, {**RESULTS, "mysql": "more"}])
    flow.put(words((at(1), "cat")))
    with pytest.raises(IngestError, match="there is no such table"):
        flow.run()
    server.sql("CREATE TABLE results.more LIKE results.counts")
    flow.run()
    assert counts(server) == {"cat": 1}


def test_a_table_whose_place_is_lost_is_written_anew_and_not_doubled(flow_to_servers, server):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    sinks = [{"mysql": "lines", "connection": "results"}]
    flow = flow_to_servers(EACH, sinks=sinks)
    flow.put(words((at(1), "cat"), (at(1), "cat")))
    flow.run()
    server.sql("DROP TABLE results.ingest_flow_places")
    with pytest.raises(IngestError, match="what it has noted there is gone"):
        flow.run()
    flow.change(EACH, sinks=sinks, on_change="restart")
    flow.run()
    assert server.sql("SELECT COUNT(*) FROM results.lines") == [(2,)]


@pytest.mark.parametrize("edit", ["a comment", "another sink"])
def test_a_flow_that_is_edited_before_its_first_batch_is_done_empties_no_table(
    flow_to_servers, server, edit
):
    """What stands there is somebody else's: no generation of the flow has written it."""
    server.sql("INSERT INTO results.counts VALUES ('mine', 7, NULL)")
    flow = flow_to_servers(COUNTED, mode="update", sinks=[RESULTS])
    flow.put(words((at(1), "cat")))
    with (
        patch.object(flow_query, "reached", dying("flow_started", times=9)),
        pytest.raises(IngestError),
    ):
        flow.run()
    if edit == "a comment":
        flow.change(f"{COUNTED} -- as of today", mode="update", sinks=[RESULTS])
    else:
        more = {"delta": "out", "keys": ["word"]}
        flow.change(COUNTED, mode="update", sinks=[RESULTS, more])
    flow.run()
    assert counts(server) == {"mine": 7, "cat": 1}


def test_a_sink_that_is_taken_out_and_put_back_gets_what_comes_from_then_on(
    flow_to_servers, server
):
    both = [RESULTS, {"delta": "out", "keys": ["word"]}]
    flow = flow_to_servers(COUNTED, mode="update", sinks=both)
    for sinks, word in ((both, "cat"), (both[1:], "dog"), (both, "owl")):
        flow.change(COUNTED, mode="update", sinks=sinks)
        flow.put(words((at(1), word)))
        with patch.object(flow_query, "reached", dying("flow_written")):
            flow.run()
    assert counts(server) == {"cat": 1, "owl": 1}
    assert {row["word"]: row["n"] for row in flow.rows()} == {"cat": 1, "dog": 1, "owl": 1}


def test_one_that_is_put_back_while_a_batch_comes_again_that_it_has_already_gets_it_once(
    flow_to_servers, server
):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    lines = {"mysql": "lines", "connection": "results"}
    flow = flow_to_servers(EACH, sinks=[lines, {"delta": "out"}])
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.put(words((at(2), "dog")))
    for sinks in ([lines, {"delta": "out"}], [{"delta": "out"}]):
        flow.change(EACH, sinks=sinks)
        with (
            patch.object(flow_query, "reached", dying("flow_written", times=9)),
            pytest.raises(IngestError),
        ):
            flow.run()
    flow.change(EACH, sinks=[lines, {"delta": "out"}])
    flow.run()
    assert sorted(word for (word,) in server.sql("SELECT word FROM results.lines")) == [
        "cat",
        "dog",
    ]
