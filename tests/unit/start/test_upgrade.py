"""What of a lake that an earlier version has filled is put right. Pure."""

import json
from pathlib import Path

import pytest

from ingest.lake.delta import file_statistics
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_snapshot import LiveFile, TableState
from ingest.lake.delta.spark_table import Description
from ingest.lake.files.storage import LocalFiles
from ingest.lake.files.table_files import LocalTable
from ingest.model.names import upgrade_path
from ingest.start import lake_format
from ingest.start.lake_format import FORMAT
from ingest.start.upgrade import Upgrade, corrected, has_microseconds, needs_hashing
from ingest.testing.lake import pipeline_at
from tests.support.declared_tables import CREATE, T, catalog, column, record
from tests.support.sound_start import facts


def stats(**bounds):
    low, high = ({k: v[side] for k, v in bounds.items()} for side in (0, 1))
    return {
        "numRecords": 2,
        "minValues": low,
        "maxValues": high,
        "nullCount": dict.fromkeys(low, 0),
    }


def test_corrected_files_keep_their_deleted_rows_and_change_no_data():
    def file(path, **bounds):
        vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
        add = {"path": path, "size": 9, "modificationTime": 1, "deletionVector": vector}
        return LiveFile({**add, "stats": file_statistics.written(stats(**bounds))})

    physical = {"delta.columnMapping.physicalName": "col-1"}
    fields = [
        {"name": "id", "type": "decimal(20,0)", "metadata": physical},
        {"name": "n", "type": "long", "metadata": {}},
    ]
    schema = {"type": "struct", "fields": fields}
    held = (file("wrong", **{"col-1": (1, 2)}), file("right", n=(1, 2)))
    files = {one.path: one for one in held}
    state = TableState(LocalTable(Path()), 3, files, {"schemaString": json.dumps(schema)})
    (found,) = corrected(state)
    add = found["add"]
    assert (add["path"], add["dataChange"], add["partitionValues"]) == ("wrong", False, {})
    assert add["deletionVector"] == files["wrong"].add["deletionVector"]
    said = json.loads(add["stats"])
    assert said["maxValues"] == {"col-1": 10**20 - 1}, (
        "the type's, as the file is not there to be asked"
    )
    assert said["numRecords"] == 2
    files["wrong"] = LiveFile(add)
    assert corrected(state) == [], "once is enough"


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


@pytest.mark.parametrize("before", range(lake_format.LABELS, FORMAT))
def test_a_lake_of_a_format_before_takes_nothing_again_and_is_noted_as_one_of_this(
    tmp_path, before
):
    pipeline = pipeline_at(tmp_path / "lake")
    LocalFiles(upgrade_path(pipeline.lake.path)).write("done.json", f'{{"format": {before}}}')
    said = []
    upgrade = Upgrade(None, pipeline, Committer(1), None, said.append, lambda: True)
    assert upgrade.entry(facts()) is None
    upgrade.done()
    assert (said, lake_format.noted(pipeline.lake.path)) == ([], FORMAT)
