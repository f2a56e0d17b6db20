"""MySQL and Redis as sinks of a flow: which rows are refused, and what they never do."""

import json
from unittest.mock import patch

import pytest

from ingest.flows import flow_query
from ingest.model.errors import IngestError
from tests.support.flows import at, dying, words
from tests.support.server_sinks import COUNTED, EACH, RESULTS, counts


def test_rows_that_are_only_added_are_added_once(flow_to_servers, server):
    server.sql("CREATE TABLE results.lines (word VARCHAR(8), at DATETIME(6))")
    flow = flow_to_servers(EACH, sinks=[{"mysql": "lines", "connection": "results"}])
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
    flow_to_servers, server, spark, writes
):
    flow = flow_to_servers(COUNTED, mode="update", sinks=[{**RESULTS, "writes": writes}])
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


def test_complete_results_replace_the_table_s(flow_to_servers, server):
    flow = flow_to_servers(
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
    flow_to_servers, server, ddl, sink, said
):
    server.sql("USE results", ddl)
    flow = flow_to_servers(COUNTED, mode="update", sinks=[{**RESULTS, **sink}])
    flow.put(words((at(1), "cat")))
    with pytest.raises(IngestError, match=said):
        flow.run()


def test_a_process_that_wakes_up_writes_no_old_batch(flow_to_servers, server):
    flow = flow_to_servers(COUNTED, mode="update", sinks=[RESULTS])
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


def test_what_mysql_would_round_off_or_take_for_a_lost_connection_is_refused_too(
    flow_to_servers, server, spark
):
    server.sql(
        "CREATE TABLE results.bent (id INT PRIMARY KEY, price DECIMAL(10,2), at DATETIME(3), whole INT, text LONGTEXT)"
    )
    rows = """SELECT CAST(word AS INT) id, CASE word WHEN '1' THEN 1.005 ELSE 1.500 END price,
      at + CASE word WHEN '2' THEN INTERVAL '0.0001' SECOND ELSE INTERVAL '0.001' SECOND END at,
      CASE word WHEN '3' THEN 1.5D ELSE 2D END whole, repeat('"', CASE word WHEN '4' THEN 40000000 ELSE 3 END) text FROM words"""
    flow = flow_to_servers(rows, sinks=[{**RESULTS, "mysql": "bent", "keys": ["id"]}])
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
