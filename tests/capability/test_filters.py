"""Readers that filter find what is there: by statistics that each of our ways to commit leaves, before and after what
happens to a log. The same reader without files passed over says what is right, and so does Python.
"""

import json
import random
import tarfile
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log, file_statistics
from ingest.lake.delta.delta_snapshot import TableState
from ingest.local import tar
from ingest.start import upgrade
from tests.outside import tables
from tests.outside.filters import differences, passed_over, refusals
from tests.outside.log import Log
from tests.outside.packages import answers
from tests.outside.predicates import drawn

OTHERS = ("duckdb", "datafusion", "pyarrow", "polars")
SEED = 20_260
BYTES = {"BIT(64)", "VARBINARY(50)"}
"""The protocol has no bounds for bytes."""
NEVER = {
    "duckdb": {*BYTES, "DATETIME", "DATETIME(6)", "TIMESTAMP(6)"},
    "datafusion": {*BYTES, "BIT(1)"},
    "pyarrow": {*BYTES, "DECIMAL(38,10)", "DECIMAL(38,30)"},
    "polars": BYTES,
}
"""Types by which a reader passes no file over, whatever a log says."""


@pytest.fixture(scope="module")
def held():
    return tables.columns(random.Random(SEED))


@pytest.fixture(scope="module")
def asked(held):
    return drawn(held, random.Random(SEED), values=1)


@pytest.mark.parametrize("marks", [pytest.param(False, marks=pytest.mark.long), True])
def test_other_readers_find_every_row_in_a_table_by_delta_rs(tmp_path, held, asked, marks):
    """As written, after a checkpoint, after its files were put in order, and after a checkpoint of that."""
    made, lake = tables.direct(tmp_path, held, marks=marks)
    knows_marks = [one for one in OTHERS if one != "pyarrow"]
    for compacted in (False, True):
        if compacted:
            tables.compacted(lake)
        for checkpoint in (False, True):
            if checkpoint:
                made.checkpoint()
            assert differences(made, asked, knows_marks if marks else OTHERS) == []
    assert refusals(made, asked, OTHERS) == ({"pyarrow"} if marks else set())
    readers = knows_marks if marks else OTHERS
    found = passed_over(made, asked, readers, tmp_path)
    every = {one.mysql for one in held}
    assert {one: every - found[one] for one in readers} == {one: NEVER[one] for one in readers}


@pytest.mark.parametrize(
    "mutant", [None, "bounds are left out", "what is below a second is cut", "texts are cut"]
)
def test_each_mutant_of_what_is_written_is_met_by_a_filter(tmp_path, held, monkeypatch, mutant):
    if mutant == "bounds are left out":
        monkeypatch.setattr(file_statistics, "_above", lambda _: None)
    elif mutant == "what is below a second is cut":
        monkeypatch.setattr(
            file_statistics, "_instants", lambda low, high: (low, high[:19] + ".000000")
        )
    elif mutant == "texts are cut":
        monkeypatch.setattr(file_statistics, "raised", lambda text: text)
    kinds = {"VARCHAR(500)", "DATETIME(6)"}
    few = [one for one in held if one.mysql in kinds]
    made, _ = tables.direct(tmp_path, few, marks=False)
    found = differences(made, drawn(few, random.Random(SEED), values=20), OTHERS)
    assert bool(found) == (mutant is not None)


OLD = Path(__file__).parents[1] / "data" / "lake_b51fb81.tar.gz"


def test_filters_of_a_lake_that_an_earlier_commit_filled_find_every_row_once_it_is_put_right(
    tmp_path,
):
    """What the first start commits to it (tests/spark/start/test_upgrade.py has the whole start)."""
    with tarfile.open(OLD) as archive:
        tar.unpack(archive, tmp_path)
    path = tmp_path / "lake" / "old" / "exact"
    rows = json.loads((tmp_path / "mysql.json").read_text(encoding="utf-8"))["rows"]["exact"]
    asked, kinds = (
        [],
        {
            "id": "decimal(20,0)",
            "amount": "decimal(38,10)",
            "price": "decimal(20,4)",
            "name": "string",
        },
    )
    for row in rows[::2]:
        for (name, kind), value in zip(kinds.items(), row, strict=False):
            asked += [(name, kind, "=", [value]), (name, kind, ">=", [value])]
    wrong = missed(path, asked)
    assert all(wrong[one] for one in OTHERS), "the lake is not the one that it should be"
    assert Log.read(path).falsehoods()
    state = TableState.read(path)
    assert delta_log.write(path, state.version + 1, upgrade.corrected(state))
    for _ in range(2):
        assert missed(path, asked) == dict.fromkeys(OTHERS, 0)
        assert Log.read(path).falsehoods() == []
        DeltaTable(path).create_checkpoint()
    # Found by a whole number, a decimal or a text: each row of MySQL's.
    assert all(
        len(found) == 1
        for found in by_duckdb(path, [one for one in asked if one[0] == "id" and one[2] == "="])
    )


def by_duckdb(path, asked):
    return answers([{"path": str(path), "reader": "duckdb", "predicates": asked}])[0]["found"]


def missed(path, asked):
    """Predicates by which a reader does not find what it finds without passing over."""
    said = answers([{"path": str(path), "reader": one, "predicates": asked} for one in OTHERS])
    return {
        reader: sum(
            f is not None and f != r for f, r in zip(one["found"], one["right"], strict=True)
        )
        for reader, one in zip(OTHERS, said, strict=True)
    }


def changed(lake, change):
    """Another schema, as a DDL's commit leaves it: no data is written."""
    state = lake.table.state
    schema = json.loads(state.metadata["schemaString"])
    protocol = change(schema["fields"])
    actions = [{"protocol": protocol}] if protocol else []
    mapped = (
        {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"}
        if protocol
        else {}
    )
    metadata = {
        **state.metadata,
        "schemaString": json.dumps(schema),
        "configuration": {**state.configuration, **mapped},
    }
    assert delta_log.write(lake.path, lake.table.version() + 1, [*actions, {"metaData": metadata}])
    lake.table.version()


def swapped(fields):
    """Names of the second and third column cross those that they have in the files."""
    numbers = count(1)

    def mapped(some):
        for one in some:
            name = {"delta.columnMapping.physicalName": one["name"]}
            one["metadata"] = {"delta.columnMapping.id": next(numbers), **name}
            if isinstance(one["type"], dict):
                mapped(one["type"]["fields"])

    mapped(fields)
    fields[1]["name"], fields[2]["name"] = fields[2]["name"], fields[1]["name"]
    features = ["columnMapping", "timestampNtz"]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "appendOnly", "invariants"],
    }


@pytest.mark.parametrize("kind", ["BIGINT UNSIGNED", "VARCHAR(500)", "DATETIME(6)", "DOUBLE"])
def test_filters_by_a_column_whose_name_was_another_s_find_its_rows(tmp_path, held, kind):
    (one,) = (column for column in held if column.mysql == kind)
    other = tables.Column("other", kind, one.kind, [*reversed(one.values)])
    two = [tables.Column("one", kind, one.kind, one.values), other]
    made, lake = tables.direct(tmp_path, two, marks=False)
    changed(lake, swapped)
    made.names = {"one": "other", "other": "one"}
    asked = drawn(two, random.Random(SEED), values=4)
    for _ in range(2):
        assert refusals(made, asked, OTHERS) == {"pyarrow", "polars"}
        assert differences(made, asked, ["duckdb", "datafusion"]) == []
        assert Log.read(made.path).falsehoods() == []
        made.checkpoint()


def test_filters_by_a_column_that_old_files_lack_find_their_rows(tmp_path, held):
    """They have none of it, and no statistics: NULL. pyarrow alone passes them over by IS NULL (docs/readers.md)."""
    (one,) = (column for column in held if column.mysql == "BIGINT UNSIGNED")
    made, lake = tables.direct(tmp_path, [one], marks=False)
    late = tables.Column("late", one.mysql, one.kind, [*[None] * len(one.values), "7", None, "8"])
    field = {"name": "late", "type": one.kind, "nullable": True, "metadata": {}}
    changed(lake, lambda fields: fields.insert(2, field))
    lake.columns["late"] = tables.arrow_type(late.kind)
    ids = [*range(len(one.values), len(late.values))]
    late_values = tables.arrow_array(late.kind, [*late.values[len(one.values) :]])
    lake.append({"id": ids, one.name: [None] * len(ids), "late": late_values})
    asked = drawn([late], random.Random(SEED), values=2)
    for _ in range(2):
        found = differences(made, asked, OTHERS)
        assert [one.split(" finds")[0] for one in found] == [f"pyarrow: {asked[0]}"]
        made.checkpoint()
