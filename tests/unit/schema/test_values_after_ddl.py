"""Values of existing rows after a DDL: what is the same in every session is known, of all else MySQL is asked.

Names and results are those of ``tests.ddl.spellings`` on MySQL 8.0.33 and Debezium 3.6.1.
"""

from dataclasses import replace

import pytest

from ingest.model.position import Position
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.evolution import Held, InPlace, Nothing
from ingest.schema.mysql_types import Column, column_type
from tests.support.declared_tables import ID, T, of, version
from tests.support.mutants import Mutant

INT, TINY, BIG, TEN = ("INT",), ("BOOLEAN",), ("BIGINT UNSIGNED",), ("DECIMAL", 10, 2)
TEXT, CHAR, DOUBLE = ("VARCHAR", 20), ("CHAR", 5), ("DOUBLE",)


ENUM = ("ENUM", 1)


def added(kind, definition, labels=()):
    """What existing rows get, as (default, is it known), of a column that a statement adds."""
    type_name, length, scale = (*kind, None, None)[:3]
    optional = "NOT NULL" not in definition
    new = Column("c", type_name, length, scale, optional, default="…", labels=labels)
    if "DEFAULT" not in definition or "DEFAULT NULL" in definition:
        new = replace(new, default=None)
    ddl = f"ALTER TABLE t ADD COLUMN c {definition}"
    version = SchemaVersion(T, Position(0, 1, 9), "ALTER", (ID, new), ("id",), ddl)
    plan = evolution.plan(Held({"id": "int"}), version, [ID])
    assert isinstance(plan, InPlace)
    return dict(plan.defaults).get("c"), not plan.unknown


@pytest.mark.parametrize(
    ("kind", "definition", "value"),
    [
        (TINY, "BOOLEAN NOT NULL DEFAULT TRUE", "1"),
        (TINY, "BOOL NOT NULL DEFAULT false", "0"),
        (TINY, "BOOLEAN NOT NULL", "0"),
        (INT, "INT NOT NULL DEFAULT TRUE", "1"),
        (INT, "INT NOT NULL DEFAULT '7'", "7"),
        (INT, "INT NOT NULL DEFAULT - 7", "-7"),
        (INT, "INT NOT NULL DEFAULT +007", "7"),
        (INT, "INT DEFAULT NULL", None),
        (INT, "INT COMMENT 'DEFAULT 9' DEFAULT 7 NOT NULL", "7"),
        (INT, "INT NOT NULL /*!80000 DEFAULT 7 */ /* DEFAULT 8 */", "7"),
        (INT, "INT NOT NULL DEFAULT 7 -- DEFAULT 8", "7"),
        (BIG, "BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615", "18446744073709551615"),
        (TEN, "DECIMAL(10,2) NOT NULL DEFAULT .5", "0.5"),
        (TEN, "DECIMAL(10,2) NOT NULL DEFAULT TRUE", "1"),
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT TRUE", "1"),
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT 'TRUE'", "TRUE"),
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT 'NULL'", "NULL"),
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT 'it''s'", "it's"),
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT 'a, DEFAULT (7)'", "a, DEFAULT (7)"),
        (TEXT, 'VARCHAR(20) NOT NULL DEFAULT "d""q"', 'd"q'),
        (CHAR, "CHAR(5) NOT NULL DEFAULT 'a '", "a"),
        (DOUBLE, "DOUBLE NOT NULL DEFAULT 0.1", "0.1"),
    ],
)
def test_a_default_that_is_the_same_in_every_session_is_taken_from_the_statement(
    kind, definition, value
):
    assert added(kind, definition) == (value, True)


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        *[(INT, f"INT NOT NULL DEFAULT {text}") for text in ("x'41'", "0x41", "b'101'", "0b101", "N'7'", "_latin1'7'")],
        *[(INT, f"INT NOT NULL DEFAULT {text}") for text in ("1.5", "'1.5'", "1e2", "' 7 '", "(7)", "(1 + 1)")],
        (INT, "INT DEFAULT 5 DEFAULT 6"),
        (TINY, "BOOLEAN NOT NULL DEFAULT 200"),
        *[(TEN, f"DECIMAL(10,2) NOT NULL DEFAULT {text}") for text in ("1.005", "1E-2", "0x41", "1e1")],
        *[(TEXT, f"VARCHAR(20) NOT NULL DEFAULT {text}") for text in ("-7.50", "1e2", "x'41'", "0x41", "'a\\\\b'", "'ä'")],
        *[(TEXT, f"VARCHAR(20) NOT NULL DEFAULT {text}") for text in ("_utf8mb4'a'", "n'a'", "'a\u2028b'", "(UUID())", "'a' 'b'")],
        (TEXT, "VARCHAR(20) NOT NULL DEFAULT 'a' COLLATE utf8mb4_bin"),
        (DOUBLE, "DOUBLE NOT NULL DEFAULT -0.0"),
        (("DOUBLE", 5, 1), "DOUBLE(5,1) NOT NULL DEFAULT 0.25"),
        (("DATE",), "DATE NOT NULL DEFAULT '2020-01-01'"),
        (("BIT", 9), "BIT(9) NOT NULL DEFAULT b'101'"),
        (("DECIMAL", 65, 30), "DECIMAL(65,30) NOT NULL DEFAULT 1.5"),
    ],
)  # fmt: skip
def test_a_default_that_only_mysql_can_read_has_the_table_taken_again(kind, definition):
    assert added(kind, definition) == (None, False)


def test_a_default_of_an_enum_is_one_of_its_labels_or_asked_for():
    labels = ("'it''s'", "'b'")
    assert added(ENUM, "ENUM('it''s','b') NOT NULL DEFAULT 'it''s'", labels) == ("it's", True)
    assert added(ENUM, "ENUM('it''s','b') NOT NULL DEFAULT 'B'", labels) == (None, False)


def changed(before, after, ddl="ALTER TABLE t …", key=("id",)):
    held = Held({"id": "int", "v": column_type(before).delta})
    version = SchemaVersion(T, Position(0, 1, 9), "ALTER", (ID, after), key, ddl)
    return evolution.plan(held, version, [ID, before])


def text(type_name, length=None, charset="utf8mb4"):
    return of(type_name, length, charset=charset)


def labelled(type_name, *labels, charset=None):
    return of(type_name, labels=tuple(f"'{label}'" for label in labels), charset=charset)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of("VARCHAR", 9), of("CHAR", 9)),  # spaces at the end go
        (of("BIT", 5), of("BIT", 9)),  # two bytes instead of one
        (of("DECIMAL", 65, 30), of("DECIMAL", 65, 10)),
        (of("DECIMAL", 10, 2), of("DECIMAL UNSIGNED", 10, 2)),
        (of("DOUBLE"), of("DOUBLE", 7, 2)),
        (of("FLOAT"), of("DOUBLE", 7, 2)),
        (of("INT"), of("DOUBLE UNSIGNED")),
        (of("INT"), of("DECIMAL UNSIGNED", 12, 0)),
        (of("TEXT", 70000), of("TEXT")),
        (of("VARBINARY", 5), of("BINARY", 5)),
        (of("INT"), of("INT", optional=False)),
        (text("VARCHAR", 200), text("TINYTEXT")),  # 800 bytes into 255
        (text("VARCHAR", 16384), text("TEXT")),
        (text("VARCHAR", 256, "latin1"), text("TINYTEXT", charset="latin1")),
        (text("VARCHAR", 65000, "latin1"), text("TEXT")),
        (text("TINYTEXT", charset="latin1"), text("TINYTEXT")),  # 'ä' gets a second byte
        (text("TEXT", charset="ucs2"), text("TEXT")),
        (text("TEXT", 50, "latin1"), text("TEXT", 50)),  # a TINYTEXT each
        (text("TEXT"), text("VARCHAR", 16000)),
        (of("VARBINARY", 256), of("TINYBLOB")),
        (of("BLOB"), of("VARBINARY", 65534)),
        (of("BLOB"), of("TINYBLOB")),
    ],
)
def test_what_some_session_would_make_another_value_of_is_asked_for(before, after):
    assert changed(before, after).unknown


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of("TINYINT", 1), of("BOOLEAN")),
        (of("CHAR", 9), of("VARCHAR", 9)),
        (of("INTEGER"), of("INT4")),
        (of("NUMERIC", 7, 2), of("DECIMAL", 7, 2)),
        (of("TEXT"), of("LONG VARCHAR")),
        (of("BIT", 9), of("BIT", 16)),
        (text("VARCHAR", 63), text("TINYTEXT")),
        (text("VARCHAR", 16381), text("TEXT")),
        (text("VARCHAR", 255, "latin1"), text("TINYTEXT", charset="latin1")),
        (text("VARCHAR", 127, "gbk"), text("TINYTEXT", charset="gbk")),
        (text("TINYTEXT", charset="utf8mb3"), text("TINYTEXT")),
        (text("TEXT", 50, "utf8"), text("TEXT", 50)),
        (text("TEXT", charset="latin1"), text("MEDIUMTEXT")),
        (text("TINYTEXT"), text("VARCHAR", 255)),
        (of("VARBINARY", 255), of("TINYBLOB")),
        (of("TINYBLOB"), of("VARBINARY", 255)),
        (of("BLOB"), of("LONGBLOB")),
        (labelled("ENUM", "a", "b"), labelled("ENUM", "c", "b", "a")),
        (labelled("SET", "a", "b"), labelled("SET", "z", "a", "c", "b")),
    ],
)
def test_another_spelling_or_more_room_changes_nothing(before, after):
    assert changed(before, after) == Nothing()


CONVERTED = "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"


@pytest.mark.parametrize("was", [text("TEXT", charset="latin1"), text("TEXT", 50, "latin1")])
def test_what_convert_to_makes_longer_gets_a_longer_type_of_mysql_and_is_not_cut(was):
    after = replace(was, charset="utf8mb4")
    assert changed(was, after, CONVERTED) == Nothing()
    assert changed(was, after, f"{CONVERTED}, MODIFY v TEXT").unknown, "which says the type"
    assert changed(was, after, "ALTER TABLE t MODIFY v TEXT CHARACTER SET utf8mb4").unknown


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t MODIFY v INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
    ],
)
def test_a_column_of_the_key_that_was_nullable_may_have_got_a_value_in_the_place_of_null(ddl):
    """A session that is not strict makes 0 of it, and the row's next change comes with that key."""
    plan = changed(of("INT"), of("INT", optional=False), ddl, key=("id", "v"))
    assert plan.unknown == ("what NOT NULL made of NULL in 'v'",)


@pytest.mark.parametrize("key", [("id",), ("id", "v")])
def test_the_labels_of_a_set_in_another_order_are_other_values(key):
    """MySQL writes them in the order in which they are declared: 'a,b' is 'b,a' from there on."""
    swapped = changed(labelled("SET", "a", "b"), labelled("SET", "b", "a"), key=key)
    assert swapped.unknown == ("what SET made of the values of 'v'",)
    assert changed(labelled("SET", "a", "b", "c"), labelled("SET", "a", "c"), key=key).unknown


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
@pytest.mark.parametrize(
    ("label", "was", "now", "is_known"),
    [
        ("ö", "utf8mb4", "ascii", False),  # '?' from there on, whatever the session
        ("ö", "latin1", "utf8mb4", False),  # by CONVERT TO, half a character
        ("a", "utf16", "binary", False),
        ("a", "utf8mb4", "latin1", True),
        ("ö", "utf8mb3", "utf8mb4", True),
        ("ö", "utf8mb3", "utf8", True),
        ("ö", "latin1", "latin1", True),
    ],
)
def test_labels_beyond_ascii_in_another_character_set_may_be_others(
    kind, label, was, now, is_known
):
    before, after = labelled(kind, "x", label, charset=was), labelled(kind, "x", label, charset=now)
    assert bool(changed(before, after).unknown) != is_known


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (of("BOOLEAN"), of("TINYINT", 1)),
        (of("BOOL"), of("INT")),
        (of("REAL"), of("DOUBLE")),
        (of("REAL UNSIGNED"), of("DOUBLE UNSIGNED")),
    ],
)
def test_what_came_in_another_form_is_taken_again_once_a_statement_has_made_mysql_s_own_type_of_it(
    was, now
):
    """Nobody would look at the values any more: 1 for a 2, 2147482620 for 2147482681."""
    held = Held({"id": "int", "v": column_type(was).delta})
    altered = replace(version(ID, now), kind="ALTER", ddl=f"ALTER TABLE t MODIFY v {now.type_name}")
    assert evolution.plan(held, altered, [ID, was]).unknown
    assert not evolution.plan(held, replace(altered, columns=(ID, was)), [ID, was]).unknown
    if column_type(was).delta == column_type(now).delta:
        read_anew = evolution.plan(held, version(ID, now), [ID, was])
        assert not read_anew.unknown, "its rows are MySQL's own"


MUTANTS = [
    Mutant(
        "a default is what Debezium makes of it",
        evolution,
        "default_of",
        lambda _: lambda column, said: (column.default, ""),
        lambda: test_a_default_that_only_mysql_can_read_has_the_table_taken_again(
            INT, "INT NOT NULL DEFAULT x'41'"
        ),
    ),
    Mutant(
        "TRUE is no number",
        evolution,
        "default_of",
        lambda _: lambda column, said: ("TRUE", ""),
        lambda: test_a_default_that_is_the_same_in_every_session_is_taken_from_the_statement(
            TINY, "BOOLEAN NOT NULL DEFAULT TRUE", "1"
        ),
    ),
    Mutant(
        "whatever came is what MySQL holds",
        evolution,
        "_came_otherwise",
        lambda _: lambda old, new: False,
        lambda: (
            test_what_came_in_another_form_is_taken_again_once_a_statement_has_made_mysql_s_own_type_of_it(
                of("BOOLEAN"), of("TINYINT", 1)
            )
        ),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    mutant.killed_by()
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by()
