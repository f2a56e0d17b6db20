"""What of a lake that an earlier version has filled is put right. Pure."""

import json
from pathlib import Path

import pytest

from ingest.table import Description
from ingest.table_state import LiveFile, TableState
from ingest.upgrade import corrected, has_microseconds, needs_hashing, without_doubtful_bounds
from tests.unit.test_catalog_and_steps import CREATE, T, catalog, column, record

TYPES = {"id": "decimal(20,0)", "n": "long", "name": "string", "at": "timestamp"}


def stats(**bounds):
    low, high = ({k: v[side] for k, v in bounds.items()} for side in (0, 1))
    return {
        "numRecords": 2,
        "minValues": low,
        "maxValues": high,
        "nullCount": dict.fromkeys(low, 0),
    }


def test_bounds_that_may_be_wrong_are_left_out_and_all_others_stay():
    held = stats(id=(1, 2), n=(1, 2**63 - 1), name=("a", "\U00020bb7"), at=("2026", "2027"))
    found = without_doubtful_bounds(held, TYPES)
    assert found["minValues"] == {"n": 1, "at": "2026"}
    assert found["maxValues"] == {"n": 2**63 - 1, "at": "2027"}
    assert found["nullCount"] == held["nullCount"]
    assert found["numRecords"] == 2
    assert without_doubtful_bounds(found, TYPES) == found


@pytest.mark.parametrize(
    ("low", "high", "stays"),
    [
        ("a", "b", True),
        ("", "\uffff", True),
        ("a" * 32, "b" * 32, True),
        ("a", "b" * 33, False),
        ("\U0001f600", "\U0001f600", False),
        ("a", None, True),
    ],
)
def test_a_text_s_bounds_stay_where_they_are_short_and_of_the_basic_plane(low, high, stays):
    found = without_doubtful_bounds(stats(name=(low, high)), TYPES)
    assert ("name" in found["minValues"]) == ("name" in found["maxValues"]) == stays


def test_a_file_without_statistics_has_none_afterwards():
    assert without_doubtful_bounds({}, TYPES) == {}


def test_corrected_files_keep_their_deleted_rows_and_change_no_data():
    def file(path, **bounds):
        vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
        add = {"path": path, "size": 9, "modificationTime": 1, "deletionVector": vector}
        return LiveFile({**add, "stats": json.dumps(stats(**bounds))})

    physical = {"delta.columnMapping.physicalName": "col-1"}
    schema = {"fields": [{"name": "id", "type": "decimal(20,0)", "metadata": physical}]}
    files = {
        one.path: one for one in (file("wrong", **{"col-1": (1, 2)}), file("right", id=(1, 2)))
    }
    state = TableState(Path(), 3, files, {"schemaString": json.dumps(schema)})
    (found,) = corrected(state)
    add = found["add"]
    assert (add["path"], add["dataChange"], add["partitionValues"]) == ("wrong", False, {})
    assert add["deletionVector"] == files["wrong"].add["deletionVector"]
    assert json.loads(add["stats"])["minValues"] == {}


@pytest.mark.parametrize(
    ("type_", "length", "has"),
    [("DATETIME", 4, True), ("TIMESTAMP", 6, True), ("DATETIME", 3, False), ("TIME", 6, False)],
)
def test_a_table_has_microseconds_by_what_mysql_says_of_any_of_its_versions(type_, length, has):
    fine = record(200, "ALTER", [column("at", type_, length=length)], key=())
    known = catalog(CREATE, fine, record(300, "ALTER", [column("at", "DATE")], key=()))
    assert has_microseconds(known.versions[T]) == has


def test_contents_of_other_tables_are_not_looked_at():
    assert needs_hashing(Description({"at": "timestamp"}, (), 0, multiset=True))
    assert not needs_hashing(Description({"at": "timestamp"}, ("at",), 0))
    assert not needs_hashing(Description({"n": "int", "t": "string"}, (), 0, multiset=True))
