"""How a snapshot reads what Debezium's own statement does not. Pure."""

import pytest

from ingest.model.topics import TableId
from ingest.schema import snapshot_select
from ingest.schema.mysql_types import Column, column_type
from ingest.schema.snapshot_select import OwnSelect

T = TableId("d", "t")


def column(type_name, charset):
    return Column("c", type_name, 1, None, optional=True, charset=charset, labels=("'a'",))


@pytest.mark.parametrize(
    ("type_name", "charset", "marked"),
    [
        ("ENUM", "binary", True),
        ("SET", "BINARY", True),
        ("ENUM", "utf8mb4", False),
        ("SET", None, False),
    ],
)
def test_labels_are_marked_by_their_character_set(type_name, charset, marked):
    assert column_type(column(type_name, charset)).marked == marked


def test_the_statement_reads_the_row_and_each_column_of_labels_once_more():
    of = OwnSelect(labels=("a", "b`c"), invisible=("hidden",))
    made = snapshot_select.statement(TableId("d`b", "t"), of)
    assert made.startswith("SELECT *, `hidden`, CONVERT(IF(CHARSET(`a`) = 'binary', ")
    assert made.endswith(" AS `b``c` FROM `d``b`.`t`")


def test_the_settings_name_each_table_that_debezium_can_be_told_of():
    tables = (T, TableId("d", "x,y"), TableId("o d", "a.b"))
    made = snapshot_select.settings(dict.fromkeys(tables, OwnSelect(("a",))))
    assert made[snapshot_select.SETTING] == '"d"."t","o d"."a.b"'
    assert set(made) == {
        snapshot_select.SETTING,
        f'{snapshot_select.SETTING}."d"."t"',
        f'{snapshot_select.SETTING}."o d"."a.b"',
    }
    assert snapshot_select.of_settings({**made, "snapshot.mode": "initial"}) == made
    assert snapshot_select.settings({}) == {}


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a`b", "a(b", "a\\b", "a*"])
def test_a_name_that_debezium_would_read_as_another_is_not_told(name):
    assert snapshot_select.listed(TableId("d", name)) is None
    assert snapshot_select.listed(TableId(name, "t")) is None


def test_a_column_that_is_called_like_a_reference_of_connect_does_not_reach_its_settings():
    columns = OwnSelect(("${dir:/secrets:mysql}",))
    assert snapshot_select.settings({T: columns}) == {}
    assert "${dir:/secrets:mysql}" in snapshot_select.statement(T, columns), (
        "a signal is no setting"
    )
