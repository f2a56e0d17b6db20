"""What a MySQL that goes away means, whenever it goes."""

import socket
from contextlib import nullcontext
from types import SimpleNamespace

import pymysql
import pytest

from ingest.config.source_settings import Source
from ingest.model.errors import Exit, IngestError
from ingest.model.topics import TableId
from ingest.schema.mysql_types import unquoted
from ingest.source import mysql

SOURCE = Source.model_validate(
    {"mysql": "mysql://u@127.0.0.1:1", "password": {"env": "HOME"}, "tables": ["a.*"]}
)


class Cursor(SimpleNamespace):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_a_server_that_dies_in_the_middle_of_a_query_is_away_and_that_may_pass(monkeypatch):
    closed = []
    connection = SimpleNamespace(cursor=Cursor, close=lambda: closed.append(1))
    monkeypatch.setattr(mysql, "Connection", lambda **_: connection)
    with pytest.raises(IngestError) as away, mysql.connected(SOURCE):
        raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
    assert (away.value.code, away.value.may_pass, closed) == ("E-MYSQL-AWAY", True, [1])


def test_another_error_of_the_server_stays_what_it_is(monkeypatch):
    connection = SimpleNamespace(cursor=Cursor, close=lambda: None)
    monkeypatch.setattr(mysql, "Connection", lambda **_: connection)
    with pytest.raises(pymysql.OperationalError), mysql.connected(SOURCE):
        raise pymysql.OperationalError(1142, "SELECT command denied")


def test_a_server_that_takes_connections_and_says_nothing_is_away():
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # whose kernel answers, as of a suspended process
        url = f"mysql://u@127.0.0.1:{silent.getsockname()[1]}"
        source = SOURCE.model_copy(update={"mysql": url})
        with pytest.raises(IngestError) as away, mysql.connected(source, read_timeout=0.2):
            pass
    assert (away.value.code, away.value.may_pass) == ("E-MYSQL-AWAY", True)
    assert "timed out" in str(away.value)


def test_a_server_that_is_lost_while_grants_are_looked_at_lacks_no_grant(monkeypatch):
    def lost(_):
        raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")

    connection = SimpleNamespace(cursor=lambda: Cursor(execute=lost), close=lambda: None)
    monkeypatch.setattr(mysql, "Connection", lambda **_: connection)
    with pytest.raises(IngestError) as away:
        mysql.refuse_unreadable(SOURCE, [TABLE])
    assert (away.value.code, away.value.may_pass) == ("E-MYSQL-AWAY", True)


FIT = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_value_options": "",
    "binlog_transaction_compression": "OFF",
    "gtid_mode": "ON",
}
TABLE = TableId("a", "t")


def facts(version="8.0.33", **variables):
    found = {name: value for name, value in {**FIT, **variables}.items() if value is not None}
    return mysql.ServerFacts(version, found, frozenset(["ALL PRIVILEGES"]), (TABLE,))


@pytest.mark.parametrize("version", ["8.0.33", "8.4.5-log", "9.7.0", "8.0.mysql_aurora.3.08.2"])
def test_a_mysql_that_lacks_newer_variables_is_no_worse(version):
    bare = facts(version, binlog_row_value_options=None, binlog_transaction_compression=None)
    assert mysql.refuse_unfit(SOURCE, bare) == [TABLE]
    assert facts(version, gtid_mode=None).gtid_mode == "OFF"


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("11.8.3-MariaDB-1+b1-log", "MariaDB"),
        ("5.5.5-10.11.2-MariaDB", "MariaDB"),
        ("8.0.11-TiDB-v7.5.0", "TiDB"),
        ("5.7.44-log", "5.7.44"),
        ("", "version"),
    ],
)
def test_what_is_no_mysql_of_version_8_is_refused_before_anything_else(version, named):
    with pytest.raises(IngestError, match=named) as refused:
        mysql.refuse_unfit(SOURCE, mysql.ServerFacts(version))
    assert (refused.value.code, refused.value.exit_code) == ("E-MYSQL-VERSION", Exit.REFUSED)
    assert "MySQL of version 8.0 or later" in refused.value.remedy


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("log_bin", "OFF", "log_bin=binlog"),
        ("log_bin", None, "log_bin=binlog"),
        ("binlog_format", "STATEMENT", "binlog_format = ROW"),
        ("binlog_row_image", None, "binlog_row_image = FULL"),
        ("binlog_row_value_options", "PARTIAL_JSON", "binlog_row_value_options = ''"),
        ("binlog_transaction_compression", "ON", "binlog_transaction_compression = OFF"),
    ],
)
def test_a_binlog_that_does_not_fit_is_refused_by_the_variable_s_name(variable, value, remedy):
    with pytest.raises(IngestError, match=variable) as refused:
        mysql.refuse_unfit(SOURCE, facts(**{variable: value}))
    assert refused.value.code == "E-MYSQL-BINLOG"
    assert remedy in refused.value.remedy
    assert "sessions that were open before" in refused.value.remedy


def test_a_server_that_pads_what_it_answers_is_refused():
    with pytest.raises(IngestError, match="PAD_CHAR_TO_FULL_LENGTH") as refused:
        mysql.refuse_unfit(SOURCE, facts(sql_mode="STRICT_TRANS_TABLES,PAD_CHAR_TO_FULL_LENGTH"))
    assert refused.value.code == "E-MYSQL-PADS"
    assert mysql.refuse_unfit(SOURCE, facts(sql_mode="STRICT_TRANS_TABLES"))


class Answers(SimpleNamespace):
    """A cursor that answers each statement by what is in it; what is an exception is raised."""

    def execute(self, statement, *_):
        self.now = next(answer for sign, answer in self.answers.items() if sign in statement)
        if isinstance(self.now, Exception):
            raise self.now

    def fetchall(self):
        return self.now

    def fetchone(self):
        return self.now[0]


def granted(monkeypatch, *lines):
    cursor = Answers(
        answers={
            "VERSION": [("8.0.33",)],
            "VARIABLES": list(FIT.items()),
            "GRANTS": [(line,) for line in lines],
            "TABLES": [("a", "t")],
        }
    )
    monkeypatch.setattr(mysql, "connected", lambda _: nullcontext(cursor))
    return mysql.server_facts(SOURCE)


READS = "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT"


@pytest.mark.parametrize(
    "lines",
    [
        ["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`"],
        ["GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"],
        [f"GRANT SELECT, {READS} ON *.* TO `u`@`%`", "GRANT BACKUP_ADMIN ON *.* TO `u`@`%`"],
        [f"GRANT {READS} ON *.* TO `u`@`%`", "GRANT SELECT ON `a`.* TO `u`@`%`"],
        [f"GRANT {READS} ON *.* TO `u`@`%`", "GRANT `role`@`%` TO `u`@`%`"],
    ],
)
def test_who_may_read_the_binlog_is_let_in(monkeypatch, lines):
    assert mysql.refuse_unfit(SOURCE, granted(monkeypatch, *lines)) == [TABLE]


@pytest.mark.parametrize(
    ("lines", "lacks"),
    [
        (["GRANT USAGE ON *.* TO `u`@`%`", "GRANT ALL PRIVILEGES ON `a`.* TO `u`@`%`"], "RELOAD"),
        (
            [
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `reload`@`%`",
                "GRANT SELECT ON `a`.* TO `reload`@`%`",
            ],
            "RELOAD",
        ),
        (["GRANT USAGE ON *.* TO `ALL PRIVILEGES ON *.* TO `@`%`"], "RELOAD"),
        (["GRANT RELOAD ON *.* TO `u`@`%`", "GRANT `replication slave`@`%` TO `u`@`%`"], "SLAVE"),
    ],
)
def test_a_grant_on_one_database_or_a_name_is_none_of_the_server_s(monkeypatch, lines, lacks):
    with pytest.raises(IngestError, match=lacks) as refused:
        mysql.refuse_unfit(SOURCE, granted(monkeypatch, *lines))
    assert refused.value.code == "E-MYSQL-GRANT"


RENAMED = pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax")
NO_CLIENT = pymysql.OperationalError(
    1227, "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s)"
)


@pytest.mark.parametrize(
    "answers", [{"SHOW MASTER": NO_CLIENT}, {"SHOW MASTER": RENAMED, "SHOW BINARY": NO_CLIENT}]
)
def test_who_may_not_see_where_the_binlog_ends_is_told_which_grant_is_missing(answers):
    with pytest.raises(IngestError, match="REPLICATION CLIENT privilege") as refused:
        mysql.reached(Answers(answers=answers))
    assert refused.value.code == "E-MYSQL-GRANT"
    assert "GRANT REPLICATION CLIENT" in refused.value.remedy


def test_any_other_refusal_of_the_server_s_stays_what_it_is():
    with pytest.raises(pymysql.OperationalError):
        mysql.reached(Answers(answers={"SHOW": pymysql.OperationalError(1053, "shutdown")}))


@pytest.mark.parametrize(
    ("full", "labels"),
    [
        (r"enum('a\\','b')", ["a\\", "b"]),
        (r"enum('a\nb','c')", ["a\nb", "c"]),
        (r"set('it''s','x\\''y')", ["it's", "x\\'y"]),
        (r"enum('a\\nb','0\0','a" + "\x1a" + r"','b\r','c" + "\t" + r"d','%','" + "\"')",
         ["a\\nb", "0\0", "a\x1a", "b\r", "c\td", "%", '"']),
        ("enum('','a,b',')')", ["", "a,b", ")"]),
        ("varchar(9)", []),
    ],
)  # fmt: skip
def test_labels_are_what_the_information_schema_quotes(full, labels):
    row = ("c", full.partition("(")[0], full, "YES", "utf8mb4")
    answers = {"STATISTICS": [], "COLUMNS": [row]}
    told = mysql.told(Answers(answers=answers), [TABLE])[TABLE]
    assert [unquoted(one) for one in told.columns[0].labels] == labels


@pytest.mark.parametrize(
    ("base", "full", "kind"),
    [
        ("enum", "enum('signed','unsigned')", "ENUM"),
        ("set", "set('unsigned')", "SET"),
        ("int", "int unsigned", "INT UNSIGNED"),
        ("decimal", "decimal(9,2) unsigned zerofill", "DECIMAL UNSIGNED"),
    ],
)
def test_a_label_is_no_part_of_a_type_s_name(base, full, kind):
    assert mysql._column("c", base, full, "YES", None).type_name == kind
