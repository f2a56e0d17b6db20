"""The columns of a change log only grow, and each definition's columns find their fields."""

import json
from dataclasses import replace

from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.change_log import LogColumns
from ingest.schema.mysql_types import Column
from ingest.testing.debezium import described


def version(pos, columns, ddl="", kind="ALTER"):
    made = tuple(Column.from_json(described(name, type_)) for name, type_ in columns.items())
    return SchemaVersion(TableId("d", "t"), Position(0, 1, pos), kind, made, ("id",), ddl)


FIRST = version(1, {"id": "INT", "a": "INT"}, kind="CREATE")


def fields(columns):
    return [(one.name, one.column, one.delta, one.follows) for one in columns.fields]


def test_a_new_column_is_a_field_more_and_a_dropped_one_stays():
    added = version(2, {"id": "INT", "a": "INT", "b": "INT"}, "ALTER TABLE t ADD b INT")
    dropped = version(3, {"id": "INT", "b": "INT"}, "ALTER TABLE t DROP a")
    columns = LogColumns().with_version(FIRST).with_version(added).with_version(dropped)
    assert [one.name for one in columns.fields] == ["id", "a", "b"]
    assert columns.today == {"id": "id", "b": "b"}
    assert columns.of_version(FIRST) == {"id": "id", "a": "a"}


def test_a_column_of_another_type_is_a_new_field_that_follows_the_old_one():
    wider = version(2, {"id": "INT", "a": "BIGINT"}, "ALTER TABLE t MODIFY a BIGINT")
    columns = LogColumns().with_version(FIRST).with_version(wider)
    assert fields(columns)[1:] == [("a", "a", "integer", ""), ("a__2", "a", "long", "a")]
    assert columns.of_version(FIRST)["a"] == "a"
    assert columns.of_version(wider)["a"] == "a__2"


def test_two_columns_that_change_their_names_keep_their_values_apart():
    first = version(1, {"id": "INT", "a": "INT", "b": "INT"}, kind="CREATE")
    ddl = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    swapped = version(2, {"id": "INT", "b": "INT", "a": "INT"}, ddl)
    columns = LogColumns().with_version(first).with_version(swapped)
    assert fields(columns)[3:] == [("b__2", "b", "integer", "a"), ("a__2", "a", "integer", "b")]
    assert columns.of_version(first) == {"id": "id", "a": "a", "b": "b"}
    assert columns.of_version(swapped) == {"id": "id", "b": "b__2", "a": "a__2"}


def test_a_column_that_was_dropped_and_comes_anew_is_another_field():
    dropped = version(2, {"id": "INT"}, "ALTER TABLE t DROP a")
    again = version(3, {"id": "INT", "a": "INT"}, "ALTER TABLE t ADD a INT")
    columns = LogColumns().with_version(FIRST).with_version(dropped).with_version(again)
    assert fields(columns)[1:] == [("a", "a", "integer", ""), ("a__2", "a", "integer", "")]
    at_once = version(2, {"id": "INT", "a": "INT"}, "ALTER TABLE t DROP a, ADD a INT")
    columns = LogColumns().with_version(FIRST).with_version(at_once)
    assert columns.of_version(at_once)["a"] == "a__2"
    assert columns.with_version(at_once) == columns, "twice is as good as once"


def test_versions_that_were_taken_in_are_found_again_in_any_order():
    wider = version(2, {"id": "INT", "a": "BIGINT"}, "ALTER TABLE t MODIFY a BIGINT")
    narrow = version(3, {"id": "INT", "a": "INT"}, "ALTER TABLE t MODIFY a INT")
    columns = LogColumns()
    for one in (FIRST, wider, narrow):
        columns = columns.with_version(one)
    assert [columns.of_version(one)["a"] for one in (narrow, FIRST, wider)] == ["a__3", "a", "a__2"]
    assert columns.with_version(FIRST).with_version(wider).with_version(narrow) == columns


def test_letters_case_alone_makes_no_new_field_and_no_two_fields_differ_by_it():
    upper = version(2, {"id": "INT", "A": "INT"}, "ALTER TABLE t RENAME COLUMN a TO A")
    columns = LogColumns().with_version(FIRST).with_version(upper)
    assert [one.name for one in columns.fields] == ["id", "a"]
    assert columns.today == {"id": "id", "A": "a"}
    text = version(3, {"id": "INT", "A": "TEXT"}, "ALTER TABLE t MODIFY A TEXT")
    assert [one.name for one in columns.with_version(text).fields] == ["id", "a", "A__2"]


def test_a_name_that_delta_would_have_to_map_is_written_otherwise():
    odd = version(1, {"id": "INT", "a b": "INT", "a%20b": "INT", "x=1": "INT"}, kind="CREATE")
    columns = LogColumns().with_version(odd)
    assert columns.today == {"id": "id", "a b": "a%20b", "a%20b": "a%20b__2", "x=1": "x%3D1"}


def test_an_older_definition_that_comes_late_adds_its_fields_and_changes_nothing_of_today():
    newer = version(5, {"id": "INT", "b": "INT"}, "ALTER TABLE t DROP a")
    columns = LogColumns().with_version(newer).with_version(FIRST)
    assert columns.today == {"id": "id", "b": "b"}
    assert columns.of_version(FIRST) == {"id": "id", "a": "a"}


def test_it_stands_in_a_table_s_log_and_is_read_from_there():
    wider = version(2, {"id": "INT", "a": "DECIMAL(10,2)"}, "ALTER TABLE t MODIFY a DECIMAL(10,2)")
    columns = LogColumns().with_version(FIRST).with_version(wider)
    assert LogColumns.of(json.dumps(columns.schema), columns.properties) == columns


def test_a_column_that_was_left_out_at_first_is_there_from_the_same_definition_on():
    added = version(2, {"id": "INT", "a": "INT", "x": "INT"}, "ALTER TABLE t ADD x INT")
    columns = LogColumns().with_version(FIRST).with_version(replace(added, left_out=frozenset("x")))
    assert columns.today == {"id": "id", "a": "a"}
    columns = columns.with_version(added)
    assert columns.today == {"id": "id", "a": "a", "x": "x"}
    later = version(3, {"id": "INT", "a": "INT", "x": "INT", "y": "INT"}, "ALTER TABLE t ADD y INT")
    assert columns.with_version(later).today["x"] == "x"
