"""Spellings of MySQL's grammar, as Debezium writes them in the stream: types, defaults, keys, and what MySQL itself says.

Names and results are those of ``tests.ddl.spellings`` on MySQL 8.0.33 and Debezium 3.6.1.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from ingest.arrow import column_values
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import catalog as catalog_module
from ingest.schema import definition_differences, evolution, mysql_types
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.ddl import column_changes
from ingest.schema.definition_differences import Told, differences
from ingest.schema.evolution import Held, InPlace, Nothing
from ingest.schema.mysql_types import Column, Kind, UnknownType, column_type
from ingest.schema.pending_ddl import pending, without_changes
from ingest.schema.steps import steps
from tests.unit.schema.test_catalog_and_steps import column, record

T = TableId("d", "t")
ID = Column("id", "INT", None, None, optional=False)

SPELLINGS = {
    "tinyint": "BOOL, BOOLEAN, INT1, TINYINT SIGNED",
    "smallint": "INT1 UNSIGNED, TINYINT UNSIGNED ZEROFILL, INT2, SMALLINT SIGNED",
    "int": "INT2 UNSIGNED, INT3, MIDDLEINT, MIDDLEINT UNSIGNED, INT4, INTEGER, MEDIUMINT UNSIGNED ZEROFILL",
    "bigint": "INT4 UNSIGNED ZEROFILL, INTEGER UNSIGNED, INT ZEROFILL, INT ZEROFILL UNSIGNED, INT8",
    "decimal(20,0)": "SERIAL, INT8 UNSIGNED, BIGINT UNSIGNED ZEROFILL",
    "decimal(10,0)": "DEC, FIXED, NUMERIC, NUMERIC UNSIGNED ZEROFILL, DECIMAL UNSIGNED",
    "float": "FLOAT4, FLOAT UNSIGNED",
    "double": "FLOAT8, REAL, REAL UNSIGNED, DOUBLE PRECISION, DOUBLE PRECISION UNSIGNED ZEROFILL",
    "string": "CHARACTER, CHAR BINARY, VARCHAR BINARY, VARCHARACTER, CHAR VARYING, CHARACTER VARYING, NCHAR, "
    "NVARCHAR, NATIONAL CHAR, NATIONAL CHARACTER, NATIONAL VARCHAR, NATIONAL VARCHARACTER, NATIONAL CHAR VARYING, "
    "NATIONAL CHARACTER VARYING, NCHAR VARYING, NCHAR VARCHAR, LONG, LONG VARCHAR, LONG CHAR VARYING, "
    "LONG CHARACTER VARYING, LONG VARCHARACTER",
    "binary": "LONG VARBINARY, CHAR BYTE",
    "struct<srid: int, wkb: binary>": "GEOMCOLLECTION, GEOMETRYCOLLECTION",
}


@pytest.mark.parametrize(
    ("name", "delta"),
    [(name, delta) for delta, names in SPELLINGS.items() for name in names.split(", ")],
)
def test_every_spelling_of_a_type_is_that_type(name, delta):
    assert column_type(Column("c", name, None, None, optional=True)).delta == delta


def test_a_streamed_boolean_is_read_as_what_comes_and_kept_as_mysql_keeps_it():
    kind = column_type(Column("c", "BOOLEAN", None, None, optional=True))
    assert (kind.kind, kind.json, kind.delta) == (Kind.TRUTH, "boolean", "tinyint")


def test_true_and_false_are_one_and_nought_in_the_driver():
    kind = column_type(Column("c", "BOOL", None, None, optional=True))
    raw = pa.array([True, False, None])
    found = column_values.value(raw, kind, pa.array([True] * 3))
    assert (found.type, found.to_pylist()) == (pa.int8(), [1, 0, None])


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


def test_columns_in_parentheses_are_added_one_by_one_and_indexes_are_none():
    said = column_changes(
        "ALTER TABLE t ADD (b INT DEFAULT 3, c BOOL DEFAULT TRUE, INDEX (b)), DROP a"
    )
    assert {name: one.text for name, one in said.defaults.items()} == {"b": "3", "c": "1"}
    assert (said.added, said.dropped) == ({"b", "c"}, {"a"})


def test_what_stands_in_a_versioned_comment_is_said():
    said = column_changes("ALTER TABLE t /*!50000 DROP a, */ /* DROP x, */ DROP b")
    assert said.dropped == {"a", "b"}


def changed(before, after):
    held = Held({"id": "int", "v": column_type(before).delta})
    version = SchemaVersion(T, Position(0, 1, 9), "ALTER", (ID, after), ("id",), "ALTER TABLE t …")
    return evolution.plan(held, version, [ID, before])


def of(type_name, length=None, scale=None, optional=True, **more):
    return Column("v", type_name, length, scale, optional, **more)


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
    ],
)
def test_another_spelling_or_more_room_changes_nothing(before, after):
    assert changed(before, after) == Nothing()


def test_a_key_is_spelt_as_its_columns_are_declared():
    catalog = Catalog()
    catalog.add(record(100, "CREATE", [column("Id"), column("part")], key=("PART", "iD")), 0)
    assert catalog.current()[0].key == ("part", "Id")


DROP = record(100, "DROP", [], ddl="DROP TABLE IF EXISTS `d`.`t`")
CREATE = record(200, "CREATE", [column("id")], ddl="CREATE TABLE t …")


def at(pos):
    return Position(0, 1, pos)


def test_a_table_that_was_dropped_where_it_was_not_and_made_is_nothing_to_apply():
    catalog = Catalog()
    for one in (DROP, CREATE):
        catalog.add(one, 0)
    assert pending(catalog, {}, at(900), {}) == {}


def test_a_drop_of_a_table_that_never_was_is_nothing_to_apply():
    catalog = Catalog()
    catalog.add(DROP, 0)
    assert pending(catalog, {}, at(900), {}) == {}
    assert catalog.first(T) is None


def test_a_ddl_after_such_a_start_begins_at_the_create():
    catalog = Catalog()
    for one in (DROP, CREATE, record(300, "ALTER", [column("id"), column("v")])):
        catalog.add(one, 0)
    waiting = pending(catalog, {}, at(900), {})
    facts = without_changes({str(T): waiting[T]}, catalog, {})
    assert [len(step.version.columns) for step in steps(facts[T], catalog, None)] == [1, 2]


def test_a_drop_of_a_table_that_the_lake_holds_still_counts():
    catalog = Catalog()
    catalog.add(DROP, 0)
    assert pending(catalog, {str(T): TableState("p", 1, position=at(50))}, at(900), {}) == {
        T: at(100)
    }


def version(*columns, key=("id",)):
    return SchemaVersion(T, at(9), "CREATE", columns, key, "CREATE TABLE t …")


def theirs(*columns, key=("id",), unique=()):
    return Told(columns, key, unique)


V = of("VARCHAR", 9, charset="utf8mb4")


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


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (V, V),
        (of("INTEGER"), of("INT")),
        (of("NVARCHAR", 9, charset="utf8"), of("VARCHAR", 9, charset="utf8mb3")),
        (of("VARCHAR", 9, charset="LATIN1"), of("VARCHAR", 9, charset="latin1")),
        (of("TEXT", 70000, charset="utf8mb4"), of("MEDIUMTEXT", charset="utf8mb4")),
        (of("ENUM", 1, labels=('"a"', "'b''c'")), of("ENUM", labels=("'a'", "'b''c'"))),
        (of("VECTOR"), of("VECTOR")),
    ],
)  # fmt: skip
def test_two_spellings_of_one_column_are_alike(ours, other):
    assert differences(version(ID, ours), theirs(ID, other)) == []


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (of("BOOLEAN"), of("TINYINT", 1)),
        (of("REAL"), of("DOUBLE")),
        (of("REAL UNSIGNED"), of("DOUBLE UNSIGNED")),
        (of("VARCHAR", 9, charset="binary"), of("VARBINARY", 9)),
        (V, of("VARCHAR", 9, charset="latin1")),
        (V, of("VARBINARY", 9)),
        (of("REAL"), of("FLOAT")),
        (of("TIME"), of("TIME", 3)),
        (of("TIMESTAMP"), of("TIMESTAMP", optional=False)),
        (of("ENUM", 1, labels=("'a '",)), of("ENUM", labels=("'a'",))),
        (of("ENUM", 1, labels=("x'61'",)), of("ENUM", labels=("'a'",))),
        (V, replace(V, name="w")),
    ],
)
def test_a_column_that_is_another_to_mysql_is_named(ours, other):
    (why,) = differences(version(ID, ours), theirs(ID, other))
    assert "'v'" in why or "(id, v)" in why


def test_a_key_that_mysql_no_longer_has_is_named_and_a_unique_one_in_its_place_is_not():
    assert differences(version(ID), theirs(ID, key=()))
    assert differences(version(ID), theirs(ID, key=(), unique=(("id",),))) == []
    assert differences(version(ID, key=()), theirs(ID))
    assert differences(version(ID, key=()), theirs(ID, key=())) == []


def test_a_version_from_mysql_s_own_text_is_told_from_one_that_debezium_read():
    catalog = Catalog()
    catalog.add(CREATE, 0, 1)
    assert not catalog.was_read_anew(catalog.current()[0])
    again = record(300, "DROP", [])
    again["tableChanges"] += record(300, "CREATE", [column("id")])["tableChanges"]
    catalog.add(again, 0, 2)
    assert catalog.was_read_anew(catalog.current()[0])
    # Of the first table of several, Debezium 3.6.1 calls the DROP a snapshot's, and it is left out.
    catalog.add(record(400, "CREATE", [column("id")]), 0, 3)
    assert catalog.was_read_anew(catalog.current()[0])
    for pos, kind in ((500, "DROP"), (600, "CREATE")):
        catalog.add(record(pos, kind, [column("id")]), 0, pos)
    assert not catalog.was_read_anew(catalog.current()[0])


def test_rows_of_a_table_that_was_read_anew_are_read_by_its_new_definition():
    catalog = Catalog()
    catalog.add(CREATE, 0, 1)
    again = record(300, "DROP", [])
    again["tableChanges"] += record(300, "CREATE", [column("id", "BIGINT")], key=())["tableChanges"]
    catalog.add(again, 0, 2)
    facts = without_changes({str(T): at(900)}, catalog, {})
    before, after = steps(facts[T], catalog, at(250))
    assert (before.version.columns[0].type_name, after.version.columns[0].type_name) == (
        "INT",
        "BIGINT",
    )
    assert (after.wipe, after.version.key, after.previous) == (at(300), (), None)
    # Its rows came with it, and get the default of a column that is added later.
    catalog.add(record(400, "ALTER", [column("id", "BIGINT"), column("v")], key=()), 0, 3)
    *_, last = steps(replace(facts[T], high=at(900)), catalog, at(250))
    assert last.previous == after.version


def _debezium_s_word(column, said):
    return column.default, ""


MUTANTS = {
    "a default is what Debezium makes of it": (
        (evolution, "default_of", _debezium_s_word),
        lambda: test_a_default_that_only_mysql_can_read_has_the_table_taken_again(
            INT, "INT NOT NULL DEFAULT x'41'"
        ),
    ),
    "TRUE is no number": (
        (evolution, "default_of", lambda column, said: ("TRUE", "")),
        lambda: test_a_default_that_is_the_same_in_every_session_is_taken_from_the_statement(
            TINY, "BOOLEAN NOT NULL DEFAULT TRUE", "1"
        ),
    ),
    "a streamed BOOLEAN is the number that a snapshot has": (
        (mysql_types, "_TRUTHS", set()),
        test_a_streamed_boolean_is_read_as_what_comes_and_kept_as_mysql_keeps_it,
    ),
    "the first record of a table made it": (
        (Catalog, "first", lambda self, table: self._ordered(table)[0]),
        test_a_table_that_was_dropped_where_it_was_not_and_made_is_nothing_to_apply,
    ),
    "a key is spelt as the key's clause spells it": (
        (catalog_module, "_key", lambda names, columns: tuple(names)),
        test_a_key_is_spelt_as_its_columns_are_declared,
    ),
    "a REAL is the DOUBLE that MySQL makes of it": (
        (mysql_types, "_REAL", mysql_types._SIMPLE["DOUBLE"]),
        lambda: test_a_column_that_is_another_to_mysql_is_named(of("REAL"), of("DOUBLE")),
    ),
    "whatever came is what MySQL holds": (
        (evolution, "_came_otherwise", lambda old, new: False),
        lambda: (
            test_what_came_in_another_form_is_taken_again_once_a_statement_has_made_mysql_s_own_type_of_it(
                of("BOOLEAN"), of("TINYINT", 1)
            )
        ),
    ),
    "any character set will do": (
        (definition_differences, "_charset", lambda column: ""),
        lambda: test_a_column_that_is_another_to_mysql_is_named(
            V, of("VARCHAR", 9, charset="latin1")
        ),
    ),
    "a BOOLEAN is like a TINYINT(1)": (
        (mysql_types, "_TRUTHS", set()),
        lambda: test_a_column_that_is_another_to_mysql_is_named(of("BOOLEAN"), of("TINYINT", 1)),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_killed_by_the_test_that_names_it(monkeypatch, name):
    mutation, killed_by = MUTANTS[name]
    killed_by()
    monkeypatch.setattr(*mutation)
    with pytest.raises((AssertionError, ValueError, UnknownType, KeyError)):
        killed_by()
