"""What a MySQL that goes away means, whenever it goes."""

from types import SimpleNamespace

import pymysql
import pytest

from ingest import mysql
from ingest.config import Source
from ingest.errors import IngestError

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
