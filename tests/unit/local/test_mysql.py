"""The embedded MySQL's data folder: it has its name when it is whole, and not before."""

import pytest

from ingest.local import mysql
from ingest.local.mysql import MySql
from ingest.local.mysqld import Mysqld
from ingest.model.errors import IngestError

SERVER = """#!/bin/sh
case "$1" in --version) echo 'mysqld  Ver 8.0.33 for Linux on x86_64'; exit;; esac
for one; do case "$one" in --datadir=*) data="${one#--datadir=}";; esac; done
mkdir "$data" && touch "$data/mysql.ibd"
[ -e "$0.interrupted" ] && exit 1
touch "$data/whole"
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Makes the first file of its data, then the rest, unless it is interrupted."""
    binary = tmp_path / "mysqld"
    binary.write_text(SERVER)
    binary.chmod(0o755)
    monkeypatch.setattr(mysql.mysqld, "chosen", lambda _: Mysqld(binary, tmp_path, {}))
    monkeypatch.setattr(mysql.mysqld, "has_made_data", lambda *_: None)
    monkeypatch.setattr(mysql.process, "start", lambda *_, **__: "started")
    return binary


def test_a_first_start_that_was_interrupted_leaves_no_data_that_a_later_one_would_take_for_whole(
    server, tmp_path
):
    interrupted, data = tmp_path / "mysqld.interrupted", tmp_path / "home" / "mysql" / "data"
    interrupted.touch()
    for _ in range(2):
        with pytest.raises(IngestError, match="could not create its data folder"):
            MySql(tmp_path / "home", 1).start()
        assert not data.exists()
    interrupted.unlink()
    assert MySql(tmp_path / "home", 1).start() == "started"
    assert {one.name for one in data.iterdir()} == {"mysql.ibd", "whole"}
    assert not data.with_name("data.part").exists()


def test_data_that_are_there_are_left_alone(server, tmp_path):
    data = tmp_path / "home" / "mysql" / "data"
    data.mkdir(parents=True)
    (data / "mysql.ibd").write_text("of before")
    assert MySql(tmp_path / "home", 1).start() == "started"
    assert (data / "mysql.ibd").read_text() == "of before"
