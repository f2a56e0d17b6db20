"""Random histories of one table: DDL and DML in any order, drawn from a seed.

Every statement is one that MySQL takes, a strict one unless it says otherwise, so a history needs no repair; what it leads to is
whatever MySQL says at the end. Types, defaults, attributes and clauses are spelt as the grammar allows, at random
(``spelt``, ``definition``); what a spelling is written as in full stands in ``tests.ddl.corpus``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ingest.sample.values import literal


@dataclass
class Shape:
    """The table as the statements so far have made it. ``columns``: name to type."""

    name: str
    keyed: bool
    columns: dict[str, str] = field(default_factory=dict)
    never_null: set[str] = field(default_factory=set)
    made: int = 0
    rows: int = 0

    def new_name(self) -> str:
        self.made += 1
        return f"c{self.made}"


DRAWN = {
    "VARCHAR(20)": "NVARCHAR(20)",  # some of its spellings are of three bytes a character
    "TEXT": "VARCHAR(60)",  # which it may become
}
"""As what values are drawn, where a type's own would not fit what it is spelt as or becomes."""

NO_MORE_SO = ("'1582-10-", "'9999-12-31 23:59:59")
"""What a DATETIME that a DATE or DATETIME(3) becomes does not hold, or not exactly (docs/types.md)."""


def _hostile(kind: str) -> Callable[[random.Random], str]:
    def draw(rng: random.Random) -> str:
        while (text := literal(rng, DRAWN.get(kind, kind))).startswith(NO_MORE_SO):
            pass
        return text

    return draw


TYPES: dict[str, Callable[[random.Random], object]] = {
    **{
        kind: _hostile(kind)
        for kind in (
            *("TINYINT", "SMALLINT UNSIGNED", "INT", "BIGINT", "DECIMAL(10,2)", "VARCHAR(20)", "TEXT", "DATE"),
            *("DATETIME(3)", "TIMESTAMP NULL", "ENUM('a','b','c')", "TINYINT(1)", "BIGINT UNSIGNED"),
            *("VARCHAR(9) CHARACTER SET latin1", "VARBINARY(9)", "BIT(9)", "YEAR"),
        )
    },
    "DOUBLE": lambda r: r.randint(-1000, 1000) / 8,  # a DECIMAL(20,1) has no place for great ones
}  # fmt: skip
"""Types and how a value of each is written in SQL: the one place where values are drawn."""

SPELT = {
    "TINYINT": ("TINYINT", "INT1", "TINYINT SIGNED", "tinyint(4)"),
    "SMALLINT UNSIGNED": ("SMALLINT UNSIGNED", "INT2 UNSIGNED", "SMALLINT(5) UNSIGNED ZEROFILL"),
    "INT": ("INT", "INTEGER", "INT4", "INT(11)", "INT SIGNED"),
    "BIGINT": ("BIGINT", "INT8", "BIGINT(20)", "BIGINT SIGNED"),
    "DECIMAL(10,2)": (
        "DECIMAL(10,2)",
        "DEC(10,2)",
        "NUMERIC(10,2)",
        "FIXED(10,2)",
        "numeric (10, 2)",
    ),
    "DOUBLE": ("DOUBLE", "DOUBLE PRECISION", "REAL", "FLOAT8", "FLOAT(53)"),
    "VARCHAR(20)": (
        *(
            "VARCHAR(20)",
            "CHARACTER VARYING(20)",
            "CHAR VARYING(20)",
            "VARCHARACTER(20)",
            "NVARCHAR(20)",
        ),
        *(
            "NATIONAL VARCHAR(20)",
            "NCHAR VARYING(20)",
            "VARCHAR(20) BINARY",
            "VARCHAR(20) COLLATE utf8mb4_bin",
        ),
        *(
            "NATIONAL CHARACTER VARYING(20)",
            "VARCHAR(20) CHARSET utf8mb4",
            "VARCHAR(20) CHAR SET 'utf8mb4'",
        ),
    ),
    "TEXT": ("TEXT", "TEXT(5000)", "TEXT CHARACTER SET utf8mb4"),
    "TIMESTAMP NULL": ("TIMESTAMP NULL",),
    "TINYINT(1)": ("BOOLEAN", "BOOL", "TINYINT(1)", "boolean"),
    "BIGINT UNSIGNED": ("BIGINT UNSIGNED", "INT8 UNSIGNED", "BIGINT UNSIGNED ZEROFILL"),
    "VARCHAR(9) CHARACTER SET latin1": (
        *("VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9) ASCII", "VARCHAR(9) COLLATE latin1_bin"),
        *("VARCHAR(9) CHARSET LATIN1", "VARCHAR(9) COLLATE 'latin1_bin'"),
    ),
    "VARBINARY(9)": ("VARBINARY(9)", "VARCHAR(9) BYTE", "VARCHAR(9) CHARACTER SET binary"),
}
"""How else a type is said."""

DEFAULTS = {
    "INT": ("7", "-7", "+7", "- 7", "'7'", "TRUE", "x'41'", "0x41", "b'101'", "1e2", "1.5", "(1 + 1)", "N'7'"),
    "BIGINT": ("7", "-9007199254740993", "FALSE", "0x41", "'7'"),
    "TINYINT": ("7", "TRUE", "false", "'7'", "b'1'"),
    "SMALLINT UNSIGNED": ("7", "TRUE", "007", "x'41'"),
    "TINYINT(1)": ("TRUE", "FALSE", "1", "'0'", "true", "2", "b'1'"),
    "BIGINT UNSIGNED": ("18446744073709551615", "0xFFFFFFFFFFFFFFFF", "0", "TRUE"),
    "DECIMAL(10,2)": ("1.50", "1", ".5", "-1.5e1", "1E-2", "'1.005'", "TRUE", "0x41"),
    "DOUBLE": ("0.125", "1e3", "TRUE", "-2"),
    "VARCHAR(20)": (
        *("''", "'TRUE'", "TRUE", "'NULL'", "7", "-7.50", "1e2", "N'a'", "_utf8mb4'ä'", "x'41'", "0x41", "'it''s'"),
        *("'it\\'s'", "'a\\\\b'", "'a\\nb'", "' a '", "'a, DEFAULT (7)'", "'漢'", "'a\u2028b'", "('ab')", "'CURRENT_TIMESTAMP'"),
    ),
    "DATE": ("'2020-01-01'", "20200101", "(CURRENT_DATE)"),
    "DATETIME(3)": ("'2020-01-01 00:00:00'", "CURRENT_TIMESTAMP(3)", "NOW(3)", "CURRENT_TIMESTAMP(3) ON UPDATE NOW(3)"),
    "ENUM('a','b','c')": ("'b'", "'B'"),
    "BIT(9)": ("b'101'", "5", "x'05'"),
    "VARBINARY(9)": ("x'00ff'", "'a'"),
    "YEAR": ("2020", "'20'"),
    "VARCHAR(9) CHARACTER SET latin1": ("'ab'", "_latin1 x'e4'", "'ä'"),
}  # fmt: skip
"""What may stand behind DEFAULT; the rows that are there get what MySQL makes of it."""

ATTRIBUTES = (
    "COMMENT 'it''s, a ; ( '",
    'COMMENT "DEFAULT 9"',
    "/*!80000 COMMENT 'versioned' */",
    "/* DROP COLUMN id, */",
    "COLUMN_FORMAT DYNAMIC",
)


def spelt(rng: random.Random, kind: str) -> str:
    """The type in one of its spellings."""
    return rng.choice(SPELT.get(kind, (kind,)))


def definition(rng: random.Random, kind: str) -> str:
    """The type, and at times what may follow it and changes nothing."""
    more = f" {rng.choice(ATTRIBUTES)}" if rng.random() < 0.3 else ""
    return spelt(rng, kind) + more


def any_case(rng: random.Random, name: str) -> str:
    """The name of a column, as somebody may write it who refers to it."""
    return rng.choice((name, name, name.upper(), f"`{name}`"))


RETYPED = {
    "TINYINT": ("INT", "BIGINT", "DECIMAL(12,2)", "VARCHAR(20)"),
    "SMALLINT UNSIGNED": ("INT", "BIGINT", "VARCHAR(20)"),
    "INT": ("BIGINT", "DECIMAL(14,4)", "VARCHAR(20)", "DOUBLE"),
    "BIGINT": ("VARCHAR(20)", "DECIMAL(30,5)"),
    "DECIMAL(10,2)": ("DECIMAL(14,4)", "DECIMAL(12,1)", "DOUBLE", "VARCHAR(20)"),
    "DOUBLE": ("DECIMAL(20,1)",),
    "VARCHAR(20)": ("VARCHAR(60)", "TEXT", "CHAR(60)"),
    "TEXT": ("VARCHAR(60)", "LONGTEXT"),
    "DATE": ("DATETIME", "VARCHAR(20)"),
    "DATETIME(3)": ("DATETIME(6)", "DATETIME", "DATE"),
    "TIMESTAMP NULL": ("DATETIME", "TIMESTAMP(6) NULL"),
    "ENUM('a','b','c')": ("ENUM('z','a','b','c')", "VARCHAR(20)"),
    "TINYINT(1)": ("INT", "BIGINT"),
    "BIGINT UNSIGNED": ("DECIMAL(30,5)", "VARCHAR(20)"),
    "VARCHAR(9) CHARACTER SET latin1": ("VARCHAR(20)", "TEXT"),
    "VARBINARY(9)": ("VARBINARY(20)", "BLOB"),
    "BIT(9)": ("BIT(16)",),
    "YEAR": ("INT", "SMALLINT UNSIGNED"),
}
"""What a type may become with any value that :data:`TYPES` draws."""


LOOSE = "SET SESSION sql_mode = ''"
"""Said before a statement that a strict session refuses."""

WRITTEN = {
    0: """
        CREATE TABLE {t} (id INT PRIMARY KEY, a INT, p INT, g INT AS (a + 1) STORED)
        INSERT INTO {t} (id, a, p) VALUES (1, 1, 9), (2, 2, 9), (3, NULL, 9)
        INSERT INTO {t} (id, a) VALUES (4, 4)
        UPDATE {t} SET a = 5 WHERE id = 4
        DELETE FROM {t} WHERE id = 2
        ALTER TABLE {t} MODIFY g INT AS (a + 2) STORED
        INSERT INTO {t} (id, a) VALUES (5, 5)
        ALTER TABLE {t} CHANGE g h BIGINT AS (a + 3) STORED
        ALTER TABLE {t} MODIFY p INT AS (a * 2) STORED FIRST
        UPDATE {t} SET a = 7 WHERE id = 1
        ALTER TABLE {t} RENAME COLUMN h TO i
        INSERT INTO {t} (id, a) VALUES (6, 6)
    """,
    1: """
        CREATE TABLE {t} (id INT, s SET('a','b'), v SET('a','b'), e ENUM('a','b'), PRIMARY KEY (id, s))
        INSERT INTO {t} VALUES (1, 'a,b', 'a,b', 'a'), (2, 'b', 'b', 'b'), (3, '', NULL, NULL)
        INSERT INTO {t} VALUES (4, 'a,b', 'a,b', 'b')
        UPDATE {t} SET e = 'a' WHERE id = 4
        DELETE FROM {t} WHERE id = 2
        ALTER TABLE {t} MODIFY v SET('b','a'), MODIFY e ENUM('b','a')
        UPDATE {t} SET e = 'b' WHERE id = 1
        ALTER TABLE {t} MODIFY s SET('b','c','a') NOT NULL
        INSERT INTO {t} VALUES (5, 'a,b', 'a,b', 'b')
        DELETE FROM {t} WHERE id = 4
        ALTER TABLE {t} MODIFY v SET('b','c','a')
        INSERT INTO {t} VALUES (6, 'a,b,c', 'a,c', 'b')
    """,
    2: """
        CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(200), b VARBINARY(256), c TINYTEXT CHARACTER SET latin1)
        INSERT INTO {t} VALUES (1, REPEAT('漢', 200), REPEAT('b', 256), REPEAT('ä', 255)), (2, '漢', 'b', 'ä')
        INSERT INTO {t} VALUES (3, NULL, NULL, NULL)
        UPDATE {t} SET a = 'a' WHERE id = 3
        DELETE FROM {t} WHERE id = 2
        {loose}; ALTER TABLE {t} MODIFY a TINYTEXT
        INSERT INTO {t} VALUES (4, '漢', 'b', REPEAT('ö', 255))
        {loose}; ALTER TABLE {t} MODIFY b TINYBLOB
        {loose}; ALTER TABLE {t} MODIFY c TINYTEXT CHARACTER SET utf8mb4
        UPDATE {t} SET b = 'c' WHERE id = 3
        ALTER TABLE {t} MODIFY a TEXT, MODIFY b BLOB
        INSERT INTO {t} VALUES (5, REPEAT('漢', 200), REPEAT('b', 256), 'ä')
    """,
    3: """
        CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b VARCHAR(9), v INT)
        INSERT INTO {t} VALUES (1, NULL, NULL, 1), (2, NULL, NULL, 1), (3, 3, 'c', 1)
        INSERT INTO {t} VALUES (4, NULL, 'd', 1)
        UPDATE {t} SET v = 2 WHERE id = 4
        DELETE FROM {t} WHERE id = 3
        {loose}; ALTER TABLE {t} MODIFY a INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)
        UPDATE {t} SET v = 3 WHERE id = 1
        INSERT INTO {t} VALUES (5, 5, NULL, 1)
        {loose}; ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)
        UPDATE {t} SET v = 4 WHERE id = 2
        DELETE FROM {t} WHERE id = 4
        INSERT INTO {t} VALUES (6, 6, 'f', 1)
    """,
    4: """
        CREATE TABLE {t} (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN MAXVALUE)
        INSERT INTO {t} VALUES (1, 1), (2, 2), (11, 11), (21, 21)
        INSERT INTO {t} VALUES (12, 12)
        UPDATE {t} SET a = 7 WHERE id = 2
        DELETE FROM {t} WHERE id = 1
        ALTER TABLE {t} TRUNCATE PARTITION p1
        INSERT INTO {t} VALUES (13, 13)
        ALTER TABLE {t} DROP PARTITION p0
        CREATE TABLE {t}x (id INT PRIMARY KEY, a INT)
        INSERT INTO {t}x VALUES (14, 14), (15, 15)
        ALTER TABLE {t} EXCHANGE PARTITION p1 WITH TABLE {t}x
        INSERT INTO {t} VALUES (22, 22)
    """,
    5: """
        CREATE TABLE {t} (id INT PRIMARY KEY, s VARCHAR(9), h CHAR(32) AS (MD5(s)) STORED, n DECIMAL(9,1), q VARCHAR(20) AS (CONCAT(n)) STORED) CHARACTER SET latin1
        INSERT INTO {t} (id, s, n) VALUES (1, 'ä', 1), (2, 'a', 2), (3, NULL, NULL)
        INSERT INTO {t} (id, s, n) VALUES (4, 'ö', 4)
        UPDATE {t} SET n = 5 WHERE id = 4
        DELETE FROM {t} WHERE id = 2
        ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4
        INSERT INTO {t} (id, s, n) VALUES (5, 'ü', 5)
        ALTER TABLE {t} MODIFY n DECIMAL(14,4)
        UPDATE {t} SET s = 'ß' WHERE id = 4
        INSERT INTO {t} (id, s, n) VALUES (6, 'é', 7)
    """,
}
"""Histories of the first seeds, which are not drawn: what MySQL does to each row without an event of it. A statement
for each line."""


def in_a_session(statement: str) -> list[str]:
    """The statement, and what is said before it where it is a loose session's."""
    loose = statement.startswith(f"{LOOSE}; ")
    return [LOOSE, statement.removeprefix(f"{LOOSE}; ")] if loose else [statement]


def statements(name: str, seed: int, length: int = 8) -> Iterator[str]:
    """The whole history of a table; the first statement creates it."""
    if seed in WRITTEN:
        lines = WRITTEN[seed].replace("{loose}", LOOSE).replace("{t}", name).strip().split("\n")
        yield from (line.strip() for line in lines)
        return
    rng = random.Random(seed)
    shape = Shape(name, keyed=rng.random() < 0.75)
    for _ in range(rng.randint(1, 4)):
        shape.columns[shape.new_name()] = rng.choice(list(TYPES))
    keys = (
        "id INT PRIMARY KEY",
        "id INTEGER KEY",
        "PRIMARY KEY (ID), id INT",
        "id INT4 NOT NULL, PRIMARY KEY (Id)",
    )
    key = rng.choice(keys) if shape.keyed else "id INT"
    columns = ", ".join([key, *(f"{c} {definition(rng, t)}" for c, t in shape.columns.items())])
    if rng.random() < 0.3:
        yield f"DROP TABLE IF EXISTS {name}"
    create = rng.choice(("CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    options = rng.choice(
        (
            "",
            "",
            "COMMENT 'it''s, a ; ( '",
            "ENGINE=InnoDB DEFAULT CHARSET utf8mb4",
            "COLLATE utf8mb4_bin",
        )
    )
    yield f"{create} {name} ({columns}) {options}"
    yield from _rows(rng, shape, rng.randint(0, 12))
    for _ in range(length):
        yield _ddl(rng, shape)
        yield from _rows(rng, shape, rng.randint(0, 4))


def _rows(rng: random.Random, shape: Shape, count: int) -> Iterator[str]:
    known = {c: t for c, t in shape.columns.items() if t in TYPES or c in shape.never_null}
    for _ in range(count):
        values = {
            c: "NULL" if rng.random() < 0.2 and c not in shape.never_null else _value(rng, t)
            for c, t in known.items()
        }
        kind = rng.random()
        if kind < 0.55 or not shape.rows:
            names = ", ".join(["id", *values])
            row = ", ".join([str(shape.rows), *values.values()])
            yield f"INSERT INTO {shape.name} ({names}) VALUES ({row})"
            shape.rows += 1
        elif kind < 0.85 and values:
            column = rng.choice(list(values))
            low = rng.randrange(shape.rows)
            yield f"UPDATE {shape.name} SET {column} = {values[column]} WHERE id BETWEEN {low} AND {low + 2}"
        else:
            yield f"DELETE FROM {shape.name} WHERE id = {rng.randrange(shape.rows)}"


def _value(rng: random.Random, kind: str) -> str:
    """A value of this type, or of one that a column was given later, as MySQL takes it."""
    if kind in TYPES:
        return str(TYPES[kind](rng))
    return "'2024-02-29 01:02:03'" if kind.startswith(("DATE", "TIMESTAMP")) else "1"


def _ddl(rng: random.Random, shape: Shape) -> str:
    name, columns = shape.name, list(shape.columns)
    act = rng.choice(
        ("add", "add", "drop", "rename", "change", "retype", "retype", "several", "other")
    )
    if not columns or act == "add":
        return f"ALTER TABLE {name} {_add(rng, shape)}"
    column = rng.choice(columns)
    if act == "drop":
        del shape.columns[column]
        return f"ALTER TABLE {name} DROP {rng.choice(('', 'COLUMN '))}{any_case(rng, column)}"
    if act == "rename":
        said = any_case(rng, column)
        return f"ALTER TABLE {name} RENAME COLUMN {said} TO {_renamed(shape, column)}"
    if act == "change":
        kind, said = shape.columns[column], any_case(rng, column)
        return f"ALTER TABLE {name} CHANGE {said} {_renamed(shape, column)} {definition(rng, kind)} FIRST"
    if act == "retype" and RETYPED.get(shape.columns[column]):
        shape.columns[column] = rng.choice(RETYPED[shape.columns[column]])
        return f"ALTER TABLE {name} MODIFY {column} {definition(rng, shape.columns[column])}"
    if act == "several" and len(columns) > 1:
        return f"ALTER TABLE {name} {_several(rng, shape, column)}"
    kind = rng.random()
    if kind < 0.3:
        return f"TRUNCATE TABLE {name}"
    if kind < 0.6:
        return (
            f"ALTER TABLE {name} MODIFY COLUMN {column} {spelt(rng, shape.columns[column])} FIRST"
        )
    return f"ALTER TABLE {name} COMMENT = 'history {rng.randint(0, 999)}'"


def _renamed(shape: Shape, column: str) -> str:
    """A new name for a column; its place among the columns is kept."""
    new = shape.new_name()
    shape.columns = {new if c == column else c: t for c, t in shape.columns.items()}
    if column in shape.never_null:
        shape.never_null.add(new)
    return new


def _add(rng: random.Random, shape: Shape) -> str:
    first, said = _new(rng, shape)
    if rng.random() < 0.2:
        return f"ADD ({first} {said}, {' '.join(_new(rng, shape))})"
    column = rng.choice(("", "COLUMN "))
    return f"ADD {column}{first} {said}{rng.choice(('', '', ' FIRST', ' AFTER id'))}"


def _new(rng: random.Random, shape: Shape) -> tuple[str, str]:
    """Name and definition of a new column."""
    name, kind = shape.new_name(), rng.choice(list(TYPES))
    shape.columns[name] = kind
    said, how = definition(rng, kind), rng.random()
    if kind in DEFAULTS and how < 0.6:
        null = rng.choice(("NOT NULL", "NOT NULL", ""))
        if null:
            shape.never_null.add(name)
        default = rng.choice(DEFAULTS[kind])
        if null and default == "'B'":  # which MySQL 8.4 takes of a column with NULLs alone
            default = "'b'"
        parts = [null, f"DEFAULT {default}"]
        rng.shuffle(parts)
        return name, " ".join([said, *parts])
    # MySQL refuses a zero date there; YEAR 0000 comes as 2000 by a snapshot (docs/types.md).
    if how > 0.8 and kind not in ("DATE", "DATETIME(3)", "TIMESTAMP NULL", "YEAR"):
        shape.never_null.add(name)
        return name, f"{said} NOT NULL"
    return name, said


def _several(rng: random.Random, shape: Shape, a: str) -> str:
    kind = rng.choice(list(TYPES))
    del shape.columns[a]
    shape.never_null.discard(a)
    shape.columns[a] = kind  # dropped, and another column takes its name
    return f"DROP COLUMN {a}, ADD COLUMN {a} {definition(rng, kind)}, {_add(rng, shape)}"
