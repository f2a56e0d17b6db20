"""What a MySQL that goes away means, whenever it goes."""

from types import SimpleNamespace

import pymysql
import pytest

from ingest.config.source_settings import Source
from ingest.model.errors import Exit, IngestError
from ingest.model.topics import TableId
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
    monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
    with pytest.raises(IngestError) as away, mysql.connected(SOURCE):
        raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
    assert (away.value.code, away.value.may_pass, closed) == ("E-MYSQL-AWAY", True, [1])


def test_another_error_of_the_server_stays_what_it_is(monkeypatch):
    connection = SimpleNamespace(cursor=Cursor, close=lambda: None)
    monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
    with pytest.raises(pymysql.OperationalError), mysql.connected(SOURCE):
        raise pymysql.OperationalError(1142, "SELECT command denied")


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
