"""The generator of hostile values: what every suite draws from."""

import random

import pytest

from ingest.sample.declared import declared
from ingest.sample.values import NULL, drawn, exact, inexact, literal, values
from ingest.schema.type_table import ENTRIES

KINDS = [
    "TINYINT",
    "BOOLEAN",
    "BIGINT UNSIGNED",
    "DECIMAL(65,30)",
    "DECIMAL(5,0) UNSIGNED",
    "FLOAT",
    "DOUBLE PRECISION",
    "BIT(64)",
    "CHAR(3)",
    "VARCHAR(40) CHARACTER SET latin1",
    "TEXT",
    "VARBINARY(9)",
    "DATE NOT NULL",
    "DATETIME(6)",
    "TIMESTAMP(3) NULL",
    "TIME(2)",
    "YEAR",
    r"ENUM('a','x,y','it''s')",
    r"SET('p','b\\c')",
    "JSON",
    "POINT",
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_draws_the_same_values(kind):
    first, second = (
        [drawn(random.Random(7), kind).sql for _ in range(5)],
        [literal(random.Random(7), kind) for _ in range(5)],
    )
    assert first == second


@pytest.mark.parametrize("kind", KINDS)
def test_boundaries_of_a_type_differ_and_none_is_null(kind):
    every = values(kind)
    assert len({one.sql for one in every}) == len(every) > 1
    assert NULL not in every


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.mysql)
def test_every_row_of_the_type_table_has_values(entry):
    column = entry.column
    size = ",".join(str(one) for one in (column.length, column.scale) if one is not None)
    kind = f"{column.type_name}({size})" if size else column.type_name
    if column.type_name in ("ENUM", "SET"):
        kind = f"{column.type_name}('a','b')"
    if column.charset:
        kind += f" CHARACTER SET {column.charset}"
    assert len(values(kind)) > 1


@pytest.mark.parametrize(
    ("text", "name", "charset"),
    [
        ("TEXT CHARACTER SET latin1", "TEXT", "latin1"),
        ("VARCHAR(9) CHARACTER SET utf8 COLLATE utf8_bin", "VARCHAR", "utf8"),
        ("CHAR VARYING(9)", "VARCHAR", "utf8mb4"),
        ("REAL UNSIGNED", "DOUBLE UNSIGNED", "utf8mb4"),
        ("VARCHAR(9) ASCII BINARY", "VARCHAR", "latin1"),
        ("VARCHAR(9) UNICODE", "VARCHAR", "ucs2"),
    ],
)
def test_a_type_is_taken_apart_as_it_is_declared(text, name, charset):
    assert (declared(text).name, declared(text).charset) == (name, charset)
    assert len(values(text)) > 1


def test_what_python_takes_for_equal_is_told_apart():
    zeros = [one for one in values("DOUBLE") if one.lake == 0]
    assert len(zeros) == 2
    assert exact(0.0) != exact(-0.0)


def test_texts_hold_what_has_gone_wrong_before():
    texts = "".join(one.lake for one in values("VARCHAR(40)"))
    for character in "\0\x85\u2028\u2029\r\n'\"\\`%𠮷\U0010ffff\ufffe\u0301":
        assert character in texts
    assert {"", " ", "a "} <= {one.lake for one in values("TEXT")}


def test_texts_that_a_character_set_has_no_place_for_are_not_drawn():
    rng = random.Random(1)
    for _ in range(300):
        drawn(rng, "VARCHAR(9) CHARACTER SET latin1").lake.encode("cp1252")


def test_a_column_that_is_never_null_has_no_moment_that_stands_for_a_zero_date():
    assert "'1970-01-01'" in [one.sql for one in values("DATE")]
    assert "'1970-01-01'" not in [one.sql for one in values("DATE NOT NULL")]
    assert [one.sql for one in inexact("DATE NOT NULL")] == ["'0000-00-00'", "'1970-01-01'"]


@pytest.mark.parametrize("kind", ["FLOAT", "YEAR", "JSON", "DATE", "DATETIME(6)", "TIMESTAMP NULL"])
def test_what_is_not_exact_is_apart(kind):
    exactly = {one.sql for one in values(kind)}
    assert inexact(kind)
    assert not exactly & {one.sql for one in inexact(kind)}
