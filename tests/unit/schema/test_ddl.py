"""What a DDL's text says, and what becomes of a table's columns."""

from dataclasses import replace

import pytest

from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.ddl import (
    ONLY_GO,
    Unlogged,
    column_changes,
    computing,
    renamed_tables,
    unlogged,
)
from ingest.schema.evolution import Field, Held, InPlace, Nothing, Rewrite
from ingest.schema.mysql_types import Column, column_type

T = TableId("d", "t")


@pytest.mark.parametrize(
    ("statement", "renamed", "dropped"),
    [
        ("alter table t rename column a to b", {"a": "b"}, set()),
        ("ALTER TABLE `d`.`t` CHANGE COLUMN `a` `b c` INT NOT NULL AFTER `x`", {"a": "b c"}, set()),
        ("ALTER TABLE t CHANGE a a BIGINT", {}, set()),
        ("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", {"a": "b", "b": "a"}, set()),
        ("ALTER TABLE t DROP a, DROP COLUMN `b`, DROP INDEX c, DROP PRIMARY KEY", {}, {"a", "b"}),
        ("ALTER TABLE t RENAME INDEX a TO b, RENAME TO u", {}, set()),
        ("ALTER TABLE t ADD v VARCHAR(9) DEFAULT ', RENAME COLUMN a TO b', DROP c", {}, {"c"}),
        ("ALTER TABLE t /* RENAME COLUMN a TO b, */ DROP c -- , DROP d", {}, {"c"}),
        ("ALTER TABLE t ADD v ENUM('a,b', 'it''s') , DROP c", {}, {"c"}),
        (
            "ALTER TABLE t RENAME COLUMN preis€ TO ราคา, DROP a\u00a0b",
            {"preis€": "ราคา"},
            {"a\u00a0b"},
        ),
        ("CREATE TABLE t (a INT)", {}, set()),
    ],
)
def test_renamed_and_dropped_columns_are_read_from_the_statement(statement, renamed, dropped):
    found = column_changes(statement)
    assert (found.renamed, found.dropped) == (renamed, dropped)


@pytest.mark.parametrize(
    ("statement", "computed"),
    [
        ("ALTER TABLE t ADD a CHAR(36) DEFAULT (UUID())", {"a"}),
        ("ALTER TABLE t ADD COLUMN a DATETIME DEFAULT CURRENT_TIMESTAMP", {"a"}),
        ("ALTER TABLE t ADD (a INT AUTO_INCREMENT PRIMARY KEY, b INT DEFAULT 3)", {"a"}),
        ("ALTER TABLE t ADD a INT GENERATED ALWAYS AS (b + 1) STORED", {"a"}),
        ("ALTER TABLE t ADD a INT DEFAULT 5 COMMENT 'AUTO_INCREMENT'", set()),
        ("ALTER TABLE t ADD INDEX i (a), ADD UNIQUE (b)", set()),
    ],
)
def test_a_value_that_mysql_computes_is_told_from_a_constant(statement, computed):
    assert column_changes(statement).computed == computed


@pytest.mark.parametrize(
    ("statement", "recomputed"),
    [
        ("ALTER TABLE t MODIFY g INT AS (a + 2) STORED", {"g"}),
        ("ALTER TABLE t MODIFY COLUMN `G` INT GENERATED ALWAYS AS (a) VIRTUAL FIRST", {"g"}),
        ("ALTER TABLE t CHANGE COLUMN g h INT AS (a + 2), MODIFY a INT", {"h"}),
        ("ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT", set()),
        ("ALTER TABLE t MODIFY a CHAR(9) DEFAULT (CAST(b AS CHAR)) COMMENT 'AS'", set()),
        ("ALTER TABLE t MODIFY a INT CHECK (CAST(a AS CHAR) <> '7')", set()),
        ("ALTER TABLE t ADD g INT AS (a), RENAME COLUMN h TO i, RENAME AS u", set()),
    ],
)
def test_a_column_that_mysql_computes_anew_is_told_from_one_with_a_default(statement, recomputed):
    assert column_changes(statement).recomputed == recomputed


def test_columns_in_parentheses_are_added_one_by_one_and_indexes_are_none():
    said = column_changes(
        "ALTER TABLE t ADD (b INT DEFAULT 3, c BOOL DEFAULT TRUE, INDEX (b)), DROP a"
    )
    assert {name: one.text for name, one in said.defaults.items()} == {"b": "3", "c": "1"}
    assert (said.added, said.dropped) == ({"b", "c"}, {"a"})


def test_what_stands_in_a_versioned_comment_is_said():
    said = column_changes("ALTER TABLE t /*!50000 DROP a, */ /* DROP x, */ DROP b")
    assert said.dropped == {"a", "b"}


def test_tables_are_renamed_in_their_order():
    swap = "RENAME TABLE t TO _t_del, `x`.`_t_gho` TO t"
    assert renamed_tables(swap, "d") == [
        (T, TableId("d", "_t_del")),
        (TableId("x", "_t_gho"), T),
    ]
    assert renamed_tables("ALTER TABLE t ADD c INT, RENAME TO u", "d") == [(T, TableId("d", "u"))]
    assert renamed_tables("ALTER TABLE t RENAME COLUMN a TO b", "d") == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("ALTER TABLE t TRUNCATE PARTITION p0, p1", Unlogged("TRUNCATE PARTITION")),
        ("alter table `e`.`t` drop partition ALL", Unlogged("DROP PARTITION")),
        ("ALTER TABLE t IMPORT TABLESPACE", Unlogged("IMPORT TABLESPACE")),
        ("ALTER TABLE t IMPORT PARTITION p TABLESPACE", Unlogged("IMPORT PARTITION")),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE `u`",
            Unlogged("EXCHANGE PARTITION", TableId("d", "u")),
        ),
        (
            "ALTER TABLE e.t EXCHANGE PARTITION p WITH TABLE f.u WITHOUT VALIDATION",
            Unlogged("EXCHANGE PARTITION", TableId("f", "u")),
        ),
        (
            "ALTER TABLE e.t EXCHANGE PARTITION p WITH TABLE u",
            Unlogged("EXCHANGE PARTITION", TableId("", "u")),
        ),
        ("ALTER TABLE t DISCARD TABLESPACE", None),
        ("ALTER TABLE t DROP tablespace", None),
        ("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES IN (1))", None),
        ("ALTER TABLE t DROP `partition`, ADD `import` INT, DROP PRIMARY KEY", None),
        ("TRUNCATE TABLE t", None),
    ],
)
def test_rows_that_go_or_come_without_an_event_are_told_by_the_statement(statement, found):
    assert unlogged(statement, "d") == found


def col(name, type_name="INT", length=None, scale=None, optional=True, **more):
    return Column(name, type_name, length, scale, optional, **more)


def version(*columns, ddl="ALTER TABLE t"):
    return SchemaVersion(T, Position(0, 1, 9), "ALTER", columns, ("id",), ddl)


def after(before, *columns, ddl="ALTER TABLE t", multiset=False, profile="standard"):
    held = Held({one.name: column_type(one).delta for one in before}, multiset)
    new = version(*columns, ddl=ddl)
    return evolution.plan(held, new, before, keyed=not multiset, profile=profile)


ID = col("id", optional=False)


def test_a_nullable_column_is_added_with_null_and_a_constant_default_fills_existing_rows():
    new = [col("a"), col("b", optional=False, default="7"), col("c", "VARCHAR", 9, optional=False)]
    ddl = "ALTER TABLE t ADD a INT, ADD b INT NOT NULL DEFAULT 7, ADD c VARCHAR(9) NOT NULL"
    plan = after([ID], ID, *new, ddl=ddl)
    assert isinstance(plan, InPlace)
    assert (plan.mapped, plan.widened, plan.added) == (False, False, ["a", "b", "c"])
    assert plan.defaults == (("b", "7"), ("c", ""))
    assert plan.unknown == ()


@pytest.mark.parametrize(
    ("new", "ddl"),
    [
        (
            col("v", "TIMESTAMP", default="1970-01-01 00:00:00"),
            "ALTER TABLE t ADD v TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
        ),
        (col("v", "CHAR", 36), "ALTER TABLE t ADD v CHAR(36) DEFAULT (UUID())"),
        (col("v", optional=False, generated=True), "ALTER TABLE t ADD v INT AUTO_INCREMENT UNIQUE"),
        (col("v", "DATE", optional=False), "ALTER TABLE t ADD v DATE NOT NULL"),
        (
            col("v", "ENUM", 1, optional=False, labels=("'a'",)),
            "ALTER TABLE t ADD v ENUM('a') NOT NULL",
        ),
    ],
)
def test_what_only_mysql_knows_is_named_and_never_a_silent_null(new, ddl):
    plan = after([ID], ID, new, ddl=ddl)
    assert isinstance(plan, InPlace)
    assert plan.defaults == ()
    assert "existing rows" in plan.unknown[0]


@pytest.mark.parametrize(
    ("old", "new", "ddl"),
    [
        (col("g"), col("g"), "ALTER TABLE t MODIFY g INT AS (a + 2) STORED"),
        (col("g"), col("h"), "ALTER TABLE t CHANGE G h INT AS (a + 2) VIRTUAL"),
        (col("g"), col("g", "BIGINT"), "ALTER TABLE t MODIFY `g` BIGINT AS (a + 2)"),
    ],
)
def test_what_mysql_computes_anew_for_each_row_is_asked_for(old, new, ddl):
    """No row event tells of it, though every row is another one."""
    assert after([ID, old], ID, new, ddl=ddl).unknown == (f"what it computes in {new.name!r}",)


def test_which_rows_are_there_behind_a_partition_that_went_is_asked_for():
    emptied = replace(version(ID), unlogged="DROP PARTITION")
    plan = evolution.plan(Held({"id": "int"}), emptied, [ID])
    assert plan == Nothing(("which rows are there behind DROP PARTITION",))


@pytest.mark.parametrize("statement", ONLY_GO)
def test_a_table_that_keeps_rows_which_the_source_has_no_more_lacks_none_where_rows_only_go(
    statement,
):
    columns, bag = Held({"id": "int"}, multiset=True), replace(version(ID), key=())
    gone = replace(bag, unlogged=statement)
    assert evolution.plan(columns, gone, [ID], keyed=False).unknown
    assert not evolution.plan(columns, gone, [ID], keyed=False, outlives=True).unknown
    swapped = replace(bag, unlogged="EXCHANGE PARTITION")
    assert evolution.plan(columns, swapped, [ID], keyed=False, outlives=True).unknown


HASHED = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), h CHAR(32) AS (MD5(`S`)) STORED, n INT, g INT AS (n + 1))"


@pytest.mark.parametrize(
    ("ddl", "now", "asked_for"),
    [
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", {"s": {"charset": "utf8mb4"}}, ["h"]),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin", {}, ["h"]),
        ("ALTER TABLE t MODIFY s VARCHAR(9) COLLATE latin1_bin", {}, ["h"]),
        ("ALTER TABLE t MODIFY n BIGINT", {"n": {"type_name": "BIGINT"}}, ["g"]),
        ("ALTER TABLE t MODIFY n INT FIRST", {}, []),
        ("ALTER TABLE t COMMENT 'MODIFY s', ADD INDEX (n), ALTER n SET DEFAULT 7", {}, []),
    ],
)
def test_what_is_computed_of_a_column_that_became_another_is_asked_for(ddl, now, asked_for):
    """MD5 of letters that got other bytes, and what compares them by another collation."""
    columns = [
        *(ID, col("s", "VARCHAR", 9, charset="latin1"), col("h", "CHAR", 32, charset="latin1")),
        *(col("n"), col("g")),
    ]
    held = Held({one.name: column_type(one).delta for one in columns})
    new = [replace(one, **now.get(one.name, {})) for one in columns]
    altered = replace(version(*new, ddl=ddl), computes=computing(HASHED))
    plan = evolution.plan(held, altered, columns)
    assert plan.unknown == tuple(f"what it computes in {name!r}" for name in asked_for)


@pytest.mark.parametrize(
    ("statement", "pairs"),
    [
        (HASHED, {("h", "md5"), ("h", "s"), ("g", "n"), ("g", "1")}),
        ("CREATE TABLE IF NOT EXISTS `d`.`t` (`g` int GENERATED ALWAYS AS ((`a` + `b`)) VIRTUAL COMMENT 'c', `a` int DEFAULT (CAST(1 AS SIGNED)))", {("g", "a"), ("g", "b")}),
        ("CREATE TABLE t (a INT, KEY k ((CAST(a AS CHAR)))) AS SELECT 1 AS b", set()),
        ("CREATE TABLE t LIKE u", set()),
        ("ALTER TABLE t ADD g INT AS (a)", set()),
        ("CREATE TABLE", set()),
    ],
)  # fmt: skip
def test_what_a_generated_column_is_computed_of_is_read_from_the_create(statement, pairs):
    assert computing(statement) == pairs


def test_a_generated_column_that_gets_another_name_or_becomes_a_plain_one_keeps_its_values():
    renamed = after([ID, col("g")], ID, col("h"), ddl="ALTER TABLE t RENAME COLUMN g TO h")
    assert renamed.unknown == ()
    assert after([ID, col("g")], ID, col("g"), ddl="ALTER TABLE t MODIFY g INT") == Nothing()


def test_a_dropped_column_goes_and_a_renamed_one_keeps_its_values():
    before = [ID, col("a"), col("b")]
    ddl = "ALTER TABLE t DROP a, RENAME COLUMN b TO c"
    columns = (Field("id", "int", "`id`", "id"), Field("c", "int", "`b`", "b"))
    assert after(before, ID, col("c"), ddl=ddl) == InPlace(columns, mapped=True)
    assert after(before, ID, col("c"), ddl=ddl, profile="compat") == Rewrite(columns)


def test_a_rename_that_a_crash_left_done_is_not_done_again():
    ddl = "ALTER TABLE t RENAME COLUMN a TO b"
    done = Held({"id": "int", "b": "int"})
    assert evolution.plan(done, version(ID, col("b"), ddl=ddl), [ID, col("a")]) == Nothing()


def test_two_columns_may_swap_their_names():
    before = [ID, col("a"), col("b", "VARCHAR", 5)]
    swapped = [ID, col("b"), col("a", "VARCHAR", 5)]
    ddl = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    plan = after(before, *swapped, ddl=ddl)
    assert plan.columns[1:] == (Field("b", "int", "`a`", "a"), Field("a", "string", "`b`", "b"))
    assert plan.unknown == ()


def test_a_column_dropped_and_added_under_its_name_is_another_column():
    plan = after([ID, col("a")], ID, col("a"), ddl="ALTER TABLE t DROP a, ADD a INT")
    assert isinstance(plan, InPlace)
    assert plan.mapped
    assert plan.columns[1] == Field("a", "int", "CAST(NULL AS int)")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (col("v"), col("v", "BIGINT")),
        (col("v", "TINYINT UNSIGNED"), col("v", "INT")),
        (col("v", "INT UNSIGNED"), col("v", "BIGINT UNSIGNED")),
        (col("v"), col("v", "DECIMAL", 12, 2)),
        (col("v", "DECIMAL", 10, 2), col("v", "DECIMAL", 14, 4)),
        (col("v", "FLOAT"), col("v", "DOUBLE")),
        (col("v", "DATE"), col("v", "DATETIME")),
    ],
)
def test_a_type_that_holds_every_old_value_is_widened_and_needs_no_snapshot(old, new):
    plan = after([ID, old], ID, new)
    assert isinstance(plan, InPlace)
    assert (plan.mapped, plan.widened) == (False, True)
    assert plan.columns[1].value.startswith("CAST(`v` AS ")
    assert plan.unknown == ()
    compat = after([ID, old], ID, new, profile="compat")
    assert compat == Rewrite(plan.columns)


def test_what_delta_cannot_widen_is_written_anew():
    plan = after([ID, col("v", "TINYINT")], ID, col("v", "DECIMAL", 6, 2))
    assert isinstance(plan, Rewrite)
    assert plan.unknown == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (col("v", "BIGINT"), col("v")),
        (col("v", "VARCHAR", 9), col("v")),
        (col("v"), col("v", "VARCHAR", 9)),
        (col("v", "TINYINT"), col("v", "SMALLINT UNSIGNED")),
        (col("v", "DECIMAL", 10, 2), col("v", "DECIMAL", 10, 1)),
        (col("v", "VARCHAR", 9), col("v", "VARCHAR", 5)),
        (col("v", "DATETIME", 6), col("v", "DATETIME")),
        (col("v", "TIME"), col("v", "TIME", 3)),
        (col("v", "VARCHAR", 9), col("v", "JSON")),
        (col("v", "VARCHAR", 9, charset="utf8mb4"), col("v", "VARCHAR", 9, charset="latin1")),
        (col("v", "ENUM", 1, labels=("'a'", "'b'")), col("v", "ENUM", 1, labels=("'a'",))),
        (col("v", "BINARY", 3), col("v", "BINARY", 5)),
        (col("v", "MEDIUMINT UNSIGNED"), col("v", "MEDIUMINT")),
        (col("v"), col("v", "YEAR")),
    ],
)
def test_a_conversion_that_may_change_values_is_named(old, new):
    assert after([ID, old], ID, new).unknown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (col("v", "VARCHAR", 9), col("v", "VARCHAR", 99)),
        (col("v", "VARCHAR", 9), col("v", "LONGTEXT")),
        (col("v", "VARCHAR", 9, charset="latin1"), col("v", "VARCHAR", 9, charset="utf8mb4")),
        (col("v", "ENUM", 1, labels=("'a'",)), col("v", "ENUM", 1, labels=("'b'", "'a'"))),
        (col("v", "DATETIME"), col("v", "DATETIME", 6)),
        (col("v", "SMALLINT UNSIGNED"), col("v", "MEDIUMINT")),
        (col("v", optional=False), col("v")),
    ],
)
def test_a_change_that_keeps_every_value_needs_nothing(old, new):
    assert after([ID, old], new, ID) == Nothing()


def test_a_table_without_a_key_is_rewritten_whenever_what_a_row_is_changes():
    before = [ID, col("a")]
    assert isinstance(after(before, ID, col("a"), col("b"), multiset=True), Rewrite)
    assert isinstance(after(before, col("a"), ID, multiset=True), Rewrite)
    assert after(before, ID, col("a"), multiset=True) == Nothing()


def test_a_key_that_comes_or_goes_changes_how_rows_are_told_apart():
    held = Held({"id": "int"}, multiset=True)
    assert isinstance(evolution.plan(held, version(ID), [ID], keyed=True), Rewrite)
    assert isinstance(evolution.plan(Held({"id": "int"}), version(ID), [ID], keyed=False), Rewrite)
