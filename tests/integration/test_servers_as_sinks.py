"""MySQL and Redis as sinks of a flow: what a killed batch leaves there, which rows are refused, and what they never do."""

import json
from contextlib import closing
from unittest.mock import patch

import pytest

from ingest.flows import flow_query
from ingest.model.errors import IngestError
from ingest.model.failpoints import OF_FLOWS
from tests.support.flows import OneFlow, at, dying, words

EACH = "SELECT word, at FROM words"
COUNTED = "SELECT word, count(*) n, max(at) newest FROM words GROUP BY word"
RESULTS = {"mysql": "counts", "connection": "results", "keys": ["word"]}


@pytest.fixture
def made(spark, tmp_path, server, redis, stack):
    """Makes a flow with both servers at hand, and an empty table `counts`."""
    server.database("results")
    server.sql(
        "CREATE TABLE results.counts (word VARCHAR(8) COLLATE utf8mb4_0900_bin PRIMARY KEY, n INT, newest DATETIME(6))"
    )
    with closing(redis.client()) as client:
        client.flushall()
    mysql = stack.mysql()
    connections = {
        "results": {
            "url": f"mysql://root@127.0.0.1:{mysql.port}/results",
            "password": {"file": str(mysql.secret("root"))},
        },
        "cache": {"url": redis.url, "password": {"file": str(redis.secret)}},
    }

    def flow(function, **settings):
        return OneFlow(spark, tmp_path, function, connections=connections, **settings)

    return flow


def counts(server):
    return dict(server.sql("SELECT word, n FROM results.counts"))


def kept(redis, prefix="counts"):
    """By key: the row as JSON, or None where it is gone."""
    with closing(redis.client()) as client:
        return {
            key.removeprefix(f"{prefix}:"): json.loads(row)
            if (row := client.hget(key, "row"))
            else None
            for key in client.keys(f"{prefix}:*")
        }


def test_a_batch_that_dies_behind_any_of_its_sinks_is_in_each_of_them_once(made, server, redis):
    server.sql("CREATE TABLE results.more LIKE results.counts")
    sinks = [
        {"delta": "out", "keys": ["word"]},
        RESULTS,
        {**RESULTS, "mysql": "more", "writes": "idempotent"},
        {"redis": "counts", "connection": "cache", "keys": ["word"]},
    ]
    flow = made(COUNTED, mode="update", sinks=sinks)
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


def test_rows_that_are_only_added_are_added_once(made, server):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    flow = made(EACH, sinks=[{"mysql": "lines", "connection": "results"}])
    for number in range(3):
        flow.put(words((at(number), "cat"), (at(number), "cat")))
    with patch.object(flow_query, "reached", dying("flow_written", times=2)):
        flow.run()
    rows = server.sql(
        "SELECT word, CAST(at AS CHAR), COUNT(*) FROM results.lines GROUP BY 1, 2 ORDER BY 2"
    )
    assert rows == [("cat", f"2026-01-01 12:0{number}:00.000000", 2) for number in range(3)]


@pytest.mark.parametrize("writes", ["transactional", "idempotent"])
def test_a_row_that_mysql_refuses_is_kept_with_its_reason_and_all_others_are_written(
    made, server, spark, writes
):
    flow = made(COUNTED, mode="update", sinks=[{**RESULTS, "writes": writes}])
    flow.put(words((at(1), "cat"), (at(1), "much too long"), (at(1), "dog"), (at(1), None)))
    with patch.object(flow_query, "reached", dying("flow_written")):
        status = flow.run()
    assert counts(server) == {"cat": 1, "dog": 1}
    held = spark.read.format("delta").load(flow.kept.refused).collect()
    assert sorted(
        (json.loads(one.row)["word"] or "", one.reason.split(":")[0]) for one in held
    ) == [
        ("", "1048"),
        ("much too long", "1406"),
    ]
    assert status.refused == 2


def test_complete_results_replace_the_table_s(made, server):
    flow = made(
        "SELECT word, count(*) n FROM words GROUP BY word", mode="complete", sinks=[RESULTS]
    )
    flow.put(words((at(1), "cat")))
    flow.run()
    server.sql("INSERT INTO results.counts VALUES ('stray', 1, NULL)")
    flow.put(words((at(1), "cat"), (at(2), "dog")))
    flow.run()
    assert counts(server) == {"cat": 2, "dog": 1}


@pytest.mark.parametrize(
    ("ddl", "sink", "said"),
    [
        ("DROP TABLE counts", {}, r"there is no such table.*CREATE TABLE `counts` \(`word` VARCHAR\(255\) COLLATE utf8mb4_0900_bin NOT NULL, `n` BIGINT"),
        ("ALTER TABLE counts DROP COLUMN newest", {}, "it has no column newest"),
        ("ALTER TABLE counts DROP PRIMARY KEY", {}, r"no PRIMARY KEY and no UNIQUE index of exactly \(word\)"),
        ("ALTER TABLE counts ADD UNIQUE (n)", {}, r"its UNIQUE index of \(n\) could find another row"),
        ("ALTER TABLE counts ENGINE=MyISAM", {}, "its engine is MyISAM"),
        ("ALTER TABLE counts MODIFY word VARCHAR(8) COLLATE utf8mb4_0900_ai_ci", {}, "to which texts are the same that are two to Spark"),
        ("ALTER TABLE counts MODIFY word VARBINARY(8)", {}, "its key word is VARBINARY, which does not compare as string does"),
        ("ALTER TABLE counts ADD COLUMN must INT NOT NULL", {}, "its column must is NOT NULL without a DEFAULT"),
        ("ALTER TABLE counts MODIFY n FLOAT", {}, "FLOAT, which holds 7 digits of bigint"),
        ("ALTER TABLE counts MODIFY word VARCHAR(80) COLLATE utf8mb4_0900_bin, DROP PRIMARY KEY, ADD PRIMARY KEY (word(3))", {}, r"no UNIQUE index of exactly \(word\)"),
        ("ALTER TABLE counts MODIFY word TEXT COLLATE utf8mb4_0900_bin NOT NULL, DROP PRIMARY KEY, ADD UNIQUE (word(99))", {}, r"no UNIQUE index of exactly \(word\)"),
        ("ALTER TABLE counts ADD UNIQUE (word(3))", {}, r"its UNIQUE index of \(word\) could find another row"),
        ("ALTER TABLE counts MODIFY word CHAR(8) COLLATE utf8mb4_0900_bin", {}, "its key word is CHAR, which does not compare as string does"),
        ("ALTER TABLE counts ADD UNIQUE ((n + 1))", {}, r"its UNIQUE index of \(an expression\) could find another row"),
        ("ALTER TABLE counts ADD COLUMN one INT NOT NULL DEFAULT 1, ADD UNIQUE (one)", {}, r"its UNIQUE index of \(one\) could find another row"),
        ("ALTER TABLE counts MODIFY n DOUBLE", {}, "its column n is DOUBLE, which holds 15 digits of bigint"),
        ("ALTER TABLE counts MODIFY newest DATE", {}, "its column newest is DATE, which holds the date alone of timestamp"),
        ("ALTER TABLE counts MODIFY newest TIME(6)", {}, "its column newest is TIME, which holds the time alone of timestamp"),
        ("DO 0", {"keys": ["WORD"]}, "brings no column WORD"),
        ("ALTER TABLE counts DROP PRIMARY KEY, MODIFY word VARCHAR(8) COLLATE utf8mb4_0900_bin, ADD UNIQUE (word)", {}, "its key word may be NULL"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_before_anything_is_written(
    made, server, ddl, sink, said
):
    server.sql("USE results", ddl)
    flow = made(COUNTED, mode="update", sinks=[{**RESULTS, **sink}])
    flow.put(words((at(1), "cat")))
    with pytest.raises(IngestError, match=said):
        flow.run()


def test_a_table_of_a_backup_is_not_gone_on_with_and_is_written_anew_where_that_is_said(
    made, server
):
    flow = made(COUNTED, mode="update", sinks=[RESULTS])
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


def test_a_process_that_wakes_up_writes_no_old_batch(made, server):
    flow = made(COUNTED, mode="update", sinks=[RESULTS])
    flow.put(words((at(1), "cat")))
    flow.run()
    flow.put(words((at(2), "cat")))
    flow.run()
    from ingest.flows.sinks import Batch, Sinks
    from ingest.lake.delta.commit import Committer

    record = flow.kept.record()
    sinks = Sinks(flow.pipeline, "f", "update", record, Committer(1))
    (sink,) = flow.pipeline.flows["f"].sinks
    old = flow.spark.createDataFrame([("cat", 1, None)], "word string, n bigint, newest timestamp")
    with pytest.raises(IngestError, match="it is behind batch 3, and this is batch 0"):
        sinks.write(sink, Batch(old, 1, 0))
    assert sinks.write(sink, Batch(old, 1, 3)) == 0, "it is there already"
    assert counts(server) == {"cat": 2}


def test_a_first_start_that_failed_is_followed_by_one_that_does_not(made, server):
    flow = made(COUNTED, mode="update", sinks=[RESULTS, {**RESULTS, "mysql": "more"}])
    flow.put(words((at(1), "cat")))
    with pytest.raises(IngestError, match="there is no such table"):
        flow.run()
    server.sql("CREATE TABLE results.more LIKE results.counts")
    flow.run()
    assert counts(server) == {"cat": 1}


def test_a_table_whose_place_is_lost_is_written_anew_and_not_doubled(made, server):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    sinks = [{"mysql": "lines", "connection": "results"}]
    flow = made(EACH, sinks=sinks)
    flow.put(words((at(1), "cat"), (at(1), "cat")))
    flow.run()
    server.sql("DROP TABLE results.ingest_flow_places")
    with pytest.raises(IngestError, match="what it has noted there is gone"):
        flow.run()
    flow.change(EACH, sinks=sinks, on_change="restart")
    flow.run()
    assert server.sql("SELECT COUNT(*) FROM results.lines") == [(2,)]


@pytest.mark.parametrize("edit", ["a comment", "another sink"])
def test_a_flow_that_is_edited_before_its_first_batch_is_done_empties_no_table(made, server, edit):
    """What stands there is somebody else's: no generation of the flow has written it."""
    server.sql("INSERT INTO results.counts VALUES ('mine', 7, NULL)")
    flow = made(COUNTED, mode="update", sinks=[RESULTS])
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


def test_a_sink_that_is_taken_out_and_put_back_gets_what_comes_from_then_on(made, server):
    both = [RESULTS, {"delta": "out", "keys": ["word"]}]
    flow = made(COUNTED, mode="update", sinks=both)
    for sinks, word in ((both, "cat"), (both[1:], "dog"), (both, "owl")):
        flow.change(COUNTED, mode="update", sinks=sinks)
        flow.put(words((at(1), word)))
        with patch.object(flow_query, "reached", dying("flow_written")):
            flow.run()
    assert counts(server) == {"cat": 1, "owl": 1}
    assert {row["word"]: row["n"] for row in flow.rows()} == {"cat": 1, "dog": 1, "owl": 1}


def test_one_that_is_put_back_while_a_batch_comes_again_that_it_has_already_gets_it_once(
    made, server
):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    lines = {"mysql": "lines", "connection": "results"}
    flow = made(EACH, sinks=[lines, {"delta": "out"}])
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


def test_what_mysql_would_round_off_or_take_for_a_lost_connection_is_refused_too(
    made, server, spark
):
    server.sql(
        "CREATE TABLE results.bent (id INT PRIMARY KEY, price DECIMAL(10,2), at DATETIME(3), whole INT, text LONGTEXT)"
    )
    rows = """SELECT CAST(word AS INT) id, CASE word WHEN '1' THEN 1.005 ELSE 1.500 END price,
      at + CASE word WHEN '2' THEN INTERVAL '0.0001' SECOND ELSE INTERVAL '0.001' SECOND END at,
      CASE word WHEN '3' THEN 1.5D ELSE 2D END whole, repeat('"', CASE word WHEN '4' THEN 40000000 ELSE 3 END) text FROM words"""
    flow = made(rows, sinks=[{**RESULTS, "mysql": "bent", "keys": ["id"]}])
    flow.put(words(*[(at(1), str(n)) for n in range(1, 6)]))
    flow.run()
    held = server.sql(
        "SELECT id, CAST(price AS CHAR), CAST(at AS CHAR), whole, text FROM results.bent"
    )
    assert held == [(5, "1.50", "2026-01-01 12:01:00.001", 2, '"""')]
    reasons = [row.reason for row in spark.read.format("delta").load(flow.kept.refused).collect()]
    assert sorted(one.partition(" ")[0] for one in reasons) == ["at", "it", "price", "whole"], (
        reasons
    )
