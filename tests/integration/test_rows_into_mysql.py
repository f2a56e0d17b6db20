"""Rows of a flow as MySQL takes them: none is changed on its way, and one that is refused holds no others."""

from dataclasses import dataclass
from unittest.mock import patch

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from ingest.config import connection_settings
from ingest.config.flow_sinks import FlowSink
from ingest.flows import mysql_rows, mysql_server, mysql_table


@dataclass
class Written:
    """A table `results.t` as rows go into it, by the first of its columns."""

    into: mysql_rows.Into

    def write(self, *rows):
        """What is said of those that are refused."""
        with mysql_server.transaction(self.into.server) as cursor:
            return [one.reason for one in mysql_rows.write(cursor, self.into, rows)]


@pytest.fixture
def results(stack):
    """That database, as a flow is connected to it."""
    mysql = stack.mysql()
    return connection_settings.Server(kind="mysql", name="results", host="127.0.0.1", port=mysql.port, user="root", ca=None, tls=False,
                                      password=mysql.secret("root").read_text(), database="results")  # fmt: skip


@pytest.fixture
def into(results):
    """The table, of columns of these types of Spark's, if it can take such rows."""

    def made(**columns):
        sink = FlowSink(mysql="t", connection="results", keys=tuple(columns)[:1])
        result = StructType([StructField(*one) for one in columns.items()])
        found = mysql_table.facts(results, "t")
        assert not mysql_table.unfit(found, sink, result)
        names = tuple(columns)
        rooms = mysql_table.rooms(found, names)
        return Written(mysql_rows.Into(results, "t", names, sink.keys, rooms))

    return made


@pytest.mark.parametrize(
    ("ddl", "row", "number"),
    [
        ("(k INT PRIMARY KEY, v INT) PARTITION BY RANGE (k) (PARTITION p VALUES LESS THAN (9))", (9, 9, False), 1526),
        ("(k INT PRIMARY KEY, v JSON)", (9, "[" * 101 + "]" * 101, False), 3157),
        ("(k INT PRIMARY KEY, v INT, g INT AS (k / v) STORED)", (9, 0, False), 1365),
        ("(k DATETIME(6) PRIMARY KEY, v INT)", ("+10000-01-01 00:00:00", None, True), 1292),
    ],
)  # fmt: skip
def test_one_row_that_mysql_cannot_take_holds_no_others(server, results, ddl, row, number):
    server.database("results")
    server.sql(f"CREATE TABLE results.t {ddl}")
    rooms = (mysql_rows.Room(),) * 2
    written = Written(mysql_rows.Into(results, "t", ("k", "v"), ("k",), rooms))
    other = ("2026-01-01" if row[-1] else 1, "1", False)
    (why,) = written.write(other, row)
    assert why.startswith(f"{number}: ")
    assert server.sql("SELECT COUNT(*) FROM results.t") == [(1,)]


@pytest.mark.parametrize("gone", [False, True])
def test_a_row_is_as_large_as_it_is_sent(server, results, gone):
    server.database("results")
    server.sql("CREATE TABLE results.t (k LONGTEXT, v INT)")
    (most,) = server.sql("SELECT @@global.max_allowed_packet")[0]
    into = mysql_rows.Into(results, "t", ("k", "v"), ("k",), (mysql_rows.Room(),) * 2)
    large, fitting = "😀" * (most // 4), "é" * (most // 2 - 200)
    (why,) = Written(into).write((large, 1, gone), (fitting, 1, gone))
    assert why == f"it is too large for max_allowed_packet ({most:,} bytes)"


def test_names_with_marks_of_the_client_s_own_are_names_like_others(server, results):
    names = ("k%s", "%v", "values (")
    server.database("results")
    server.sql("CREATE TABLE results.`100%` (`k%s` INT PRIMARY KEY, `%v` TEXT, `values (` TEXT)")
    into = mysql_rows.Into(results, "100%", names, ("k%s",), (mysql_rows.Room(),) * 3)
    for rows in (
        [(1, "a %s", "x", False), (2, "b", None, False)],
        [(1, "c", "%", False), (2, "", "", True)],
    ):
        assert Written(into).write(*rows) == []
    assert server.sql("SELECT * FROM results.`100%`") == [(1, "c", "%")]


def test_rows_that_are_large_together_go_in_several_statements(server, results):
    server.database("results")
    server.sql("CREATE TABLE results.t (id INT PRIMARY KEY, v MEDIUMTEXT, b MEDIUMBLOB)")
    room = mysql_rows.Room()
    into = mysql_rows.Into(results, "t", ("id", "v", "b"), ("id",), (room, room, room))
    rows = [(n, "'é" * 100_000, bytes(range(256)) * 500, False) for n in range(9)]
    said = []
    with mysql_server.transaction(results) as cursor:
        query = cursor._query
        with patch.object(cursor, "_query", lambda text: said.append(text) or query(text)):
            assert mysql_rows.write(cursor, into, rows) == []
    sizes = [len(one if isinstance(one, (bytes, bytearray)) else one.encode()) for one in said]
    assert max(sizes) < 1_100_000, sizes
    assert sum(size > 500_000 for size in sizes) in range(4, 10), sizes
    assert server.sql("SELECT COUNT(*), SUM(v = REPEAT('\\'é', 100000)), SUM(LENGTH(b)) FROM results.t") == [(9, 9, 9 * 128_000)]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "bent", "whole", "why"),
    [
        ("VARCHAR(3)", "ab  ", "ab ", "ends with blanks beyond the 3 that its column holds"),
        ("CHAR(3)", "ab ", "ab", "ends with a blank, and its column drops those"),
        ("ENUM('ab')", "ab ", "ab", "ends with a blank, and its column drops those"),
        ("TINYTEXT", "é" * 127 + "  ", "é" * 127 + " ", "ends with blanks beyond the 255 that its column holds"),
        ("BINARY(4)", b"ab", b"abcd", "has 2 bytes, and its column fills them up to 4"),
    ],
)  # fmt: skip
def test_no_blank_is_dropped_at_the_end_of_a_value_and_no_zero_is_added(
    server, into, kind, bent, whole, why
):
    server.database("results")
    server.sql(f"CREATE TABLE results.t (id INT PRIMARY KEY, v {kind})")
    of = BinaryType() if isinstance(bent, bytes) else StringType()
    written = into(id=IntegerType(), v=of)
    assert written.write((1, bent, False), (2, whole, False)) == [f"v {why}"]
    assert server.sql("SELECT * FROM results.t") == [(2, whole)]
