import random
from dataclasses import replace

import pytest

from tests.applications.packages import Debian, Unavailable
from tests.applications.rows import Column, literal
from tests.applications.scripts import statements

COLUMN = Column(
    "c", "enum", "enum('a','it''s','x,y','')", False, 4, None, None, None, "utf8mb4", "", False
)


def test_a_script_is_cut_as_the_mysql_client_cuts_it():
    script = """
-- a comment; with a semicolon
CREATE TABLE t (a INT, -- another; one
  b TEXT); # and; this
/* and; this */ INSERT INTO t VALUES (1, 'a;b'), (2, "c;--d"), (3, 'it''s \\'; so');
/*!40101 SET NAMES utf8 */;
DELIMITER //
CREATE FUNCTION f() RETURNS INT BEGIN RETURN 1; END //
DELIMITER ;
SELECT 1--1, `a;b` FROM t"""
    found = [" ".join(one.split()) for one in statements(script)]
    assert found == [
        "CREATE TABLE t (a INT, b TEXT)",
        "INSERT INTO t VALUES (1, 'a;b'), (2, \"c;--d\"), (3, 'it''s \\'; so')",
        "/*!40101 SET NAMES utf8 */",
        "CREATE FUNCTION f() RETURNS INT BEGIN RETURN 1; END",
        "SELECT 1--1, `a;b` FROM t",
    ]


def test_every_label_of_an_enum_is_drawn():
    rng = random.Random(1)
    assert {literal(rng, COLUMN) for _ in range(100)} == {"'a'", "'it''s'", "'x,y'", "''"}


def test_the_same_seed_draws_the_same_rows():
    column = replace(COLUMN, kind="varchar", length=20, nullable=True)
    first, second = (
        [literal(rng, column) for _ in range(50)] for rng in (random.Random(7), random.Random(7))
    )
    assert first == second
    assert "NULL" in first


def test_a_package_that_is_not_what_is_pinned_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("INGEST_CACHE", str(tmp_path))
    package = Debian("p", "1", "trixie", "0" * 64)
    package.path.parent.mkdir(parents=True)
    package.path.write_bytes(b"other")
    with pytest.raises(AssertionError, match="not what is pinned"):
        package.text("any")


def test_a_package_that_cannot_be_had_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("INGEST_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="apt-get"):
        Debian("p", "1", "trixie", "0" * 64).text("any")
