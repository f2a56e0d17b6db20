"""How a snapshot reads labels of the binary character set. Pure."""

import pytest

from ingest.model.topics import TableId
from ingest.schema import binary_labels
from ingest.schema.binary_labels import Labelled
from ingest.schema.mysql_types import Column, column_type

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
    made = binary_labels.statement(TableId("d`b", "t"), Labelled(("a", "b`c"), ("hidden",)))
    assert made.startswith("SELECT *, `hidden`, CONVERT(IF(CHARSET(`a`) = 'binary', ")
    assert made.endswith(" AS `b``c` FROM `d``b`.`t`")


def test_the_settings_name_each_table_that_debezium_can_be_told_of():
    tables = (T, TableId("d", "x,y"), TableId("o d", "a.b"))
    made = binary_labels.settings(dict.fromkeys(tables, Labelled(("a",))))
    assert made[binary_labels.SETTING] == '"d"."t","o d"."a.b"'
    assert set(made) == {
        binary_labels.SETTING,
        f'{binary_labels.SETTING}."d"."t"',
        f'{binary_labels.SETTING}."o d"."a.b"',
    }
    assert binary_labels.of_settings({**made, "snapshot.mode": "initial"}) == made
    assert binary_labels.settings({}) == {}


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a`b", "a(b", "a\\b", "a*"])
def test_a_name_that_debezium_would_read_as_another_is_not_told(name):
    assert binary_labels.listed(TableId("d", name)) is None
    assert binary_labels.listed(TableId(name, "t")) is None


def test_a_column_that_is_called_like_a_reference_of_connect_does_not_reach_its_settings():
    columns = Labelled(("${dir:/secrets:mysql}",))
    assert binary_labels.settings({T: columns}) == {}
    assert "${dir:/secrets:mysql}" in binary_labels.statement(T, columns), "a signal is no setting"
