"""Statements as applications write them, in the stream: the lake ends as MySQL's own tables are.

Debezium reads a statement by a grammar of its own and keeps its words, where a snapshot has MySQL's (``tests.ddl.spellings``
shows them all).
"""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from tests.kills.lab import Lab
from tests.support.lake import read

NAME = "spelt"
MADE = {
    # Comes as true and false, whatever the number.
    "truth": ("id INT PRIMARY KEY, b BOOLEAN NOT NULL DEFAULT TRUE, c BOOL", "1, 2, -1"),
    # Comes with seven digits of seventeen.
    "real": ("id INT PRIMARY KEY, r REAL, s REAL(20,6) UNSIGNED", "1, -2147482681.5, 2147482681.123457"),
    # Comes as NULL.
    "float4": ("id INT PRIMARY KEY, f FLOAT4, g FLOAT4 UNSIGNED", "1, 0.5, 1.5"),
    # Comes without the zero bytes at its end.
    "byte": ("id INT PRIMARY KEY, b BINARY, c CHAR BYTE", "1, x'00', x'00'"),
    # Become another type before anybody has looked.
    "looked_at_late": ("id INT PRIMARY KEY, r REAL, b BOOLEAN", "1, 2147482681, 2"),
    # Come by the wrong character set, or as text where MySQL has bytes.
    "ascii": ("id INT PRIMARY KEY, v VARCHAR(9) ASCII", "1, 'ä'"),
    "collated": ("id INT PRIMARY KEY, v VARCHAR(9)", "1, 'ö'"),
    "octets": ("id INT PRIMARY KEY, v VARCHAR(9) BYTE", "1, 'abcd'"),
    "binary": ("id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET binary, w CHAR(5) BYTE", "1, 'abcd', 'ab'"),
    # Debezium's key is one that MySQL no longer has.
    "unkeyed": ("id INT NOT NULL UNIQUE, v INT", "1, 1"),
    "cased": ("Id INT, part INT, v SERIAL, PRIMARY KEY (PART, iD)", "1, 2, 3"),
    "names": (
        "id INTEGER PRIMARY KEY, a DOUBLE PRECISION, b NUMERIC(7,2), c NATIONAL VARCHAR(9), d LONG VARCHAR, e NCHAR VARYING(9), f CHAR(9) BINARY, g VARCHARACTER(9), h LONG VARBINARY, i INT8 UNSIGNED",
        "1, 0.1, 1.50, 'ä', 'ö', 'ü', 'a', 'b', x'00ff', 18446744073709551615",
    ),
}  # fmt: skip
ALTERED = (
    # A default that is a word, and others that are no literal of their type.
    f"ALTER TABLE {NAME}.altered ADD COLUMN c BOOLEAN NOT NULL DEFAULT TRUE",
    f"INSERT INTO {NAME}.altered (id) VALUES (3)",
    f"ALTER TABLE {NAME}.altered ADD (d INT NOT NULL DEFAULT x'41', e VARCHAR(9) NOT NULL DEFAULT TRUE, f VARCHAR(9) NOT NULL DEFAULT 'it''s', g DECIMAL(5,2) NOT NULL DEFAULT 1e1)",
    f"UPDATE {NAME}.altered SET c = 5 WHERE id = 2",
)


@pytest.mark.long
def test_streamed_statements_in_every_spelling_end_as_mysql_has_them(stack, tmp_path):
    lab = Lab(stack, tmp_path, name=NAME, tables=("altered", "remade", *MADE))
    lab.sql(
        f"DROP DATABASE IF EXISTS {NAME}",
        f"CREATE DATABASE {NAME}",
        f"CREATE TABLE {NAME}.altered (id INT PRIMARY KEY, v VARCHAR(9))",
        f"INSERT INTO {NAME}.altered VALUES (1, 'a'), (2, NULL)",
    )
    lab.begin()
    try:
        lab.until(lambda: lab.entry() is not None, "the snapshot", 180)
        lab.sql(*ALTERED)
        # An application that installs itself, and nothing in the table yet.
        lab.sql(
            f"DROP TABLE IF EXISTS {NAME}.remade",
            f"CREATE TABLE {NAME}.remade (id INT PRIMARY KEY, v BOOLEAN)",
        )
        # What is told by MySQL alone.
        for table, (columns, values) in MADE.items():
            options = "COLLATE latin1_bin" if table == "collated" else ""
            lab.sql(
                f"CREATE TABLE {NAME}.{table} ({columns}) {options}",
                f"INSERT INTO {NAME}.{table} VALUES ({values})",
            )
        lab.sql(
            f"ALTER TABLE {NAME}.unkeyed DROP INDEX id",
            f"INSERT INTO {NAME}.unkeyed VALUES (1, 2), (1, 1)",
        )
        lab.sql(f"ALTER TABLE {NAME}.looked_at_late MODIFY r DOUBLE, MODIFY b TINYINT")
        lab.until_equal(240)
        lab.sql(
            f"INSERT INTO {NAME}.truth VALUES (2, 3, 0)",
            f"UPDATE {NAME}.truth SET b = 7 WHERE id = 1",
            f"INSERT INTO {NAME}.real VALUES (2, 0.1234567890123456, 0)",
            f"INSERT INTO {NAME}.ascii VALUES (2, 'é')",
            f"UPDATE {NAME}.octets SET v = 'abcdefgh'",
            f"DELETE FROM {NAME}.unkeyed WHERE v = 2",
            f"INSERT INTO {NAME}.remade VALUES (1, 4)",
        )
        lab.until_equal(120)
    finally:
        lab.close()
    said = (lab.folder / "job.log").read_text()
    assert "comes as true or false" in said
    assert "comes cut to single precision" in said
    assert "comes as NULL" in said
    assert "its key is (id) to us and () to MySQL" in said
    types = {
        f.name: str(f.type) for f in DeltaTable(str(lab.lake / NAME / "octets")).schema().fields
    }
    assert "binary" in types["v"]
    assert read(lab.lake / NAME / "truth").num_rows == 2
