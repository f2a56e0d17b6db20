"""Which version somebody's RESTORE by time went back to: found by what it has made of the table, whatever the time says."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ingest.lake.delta import column_commits, delta_log
from ingest.lake.delta.restored_version import restored_to
from ingest.schema.evolution import Field
from tests.support.direct_lake import DirectLake
from tests.support.restored_by_time import restore_by_time

COLUMNS = {"id": pa.int64(), "v": pa.string()}


@pytest.fixture
def lake(tmp_path):
    made = DirectLake(tmp_path, COLUMNS)
    for number in (1, 2, 3):
        made.append({"id": [number, number + 10], "v": ["x", "y"]})
    return made


def found(lake, at):
    lake.table.version()
    return restored_to(lake.table, at, delta_log.read(lake.path, at))


def what(lake, version):
    """The table as it was then: its rows, its columns and its files."""
    held = DeltaTable(lake.path, version=version)
    rows = pa.table(held.to_pyarrow_table()).to_pylist()
    files = sorted(one.rpartition("/")[2] for one in held.file_uris())
    return sorted(map(str, rows)), held.schema().to_json(), files


def with_a_column(lake):
    fields = [
        Field("id", "bigint", "id", "id"),
        Field("v", "string", "v", "v"),
        Field("w", "int", ""),
    ]
    lake.step(lambda: column_commits.change(lake.table, fields))


def corrected(lake):
    """Statistics are put right: a commit that names files that are there."""
    lake.table.version()
    rest, state = {"partitionValues": {}, "dataChange": False}, lake.table.state
    files = [{**one.add, **rest} for one in state.files.values()]
    lake.table.restate(state.version, files, ("ingest/p/c/d.t/mirror", 1))


HISTORY = [
    lambda lake: lake.merge({"id": [1], "v": ["z"]}),
    lambda lake: lake.merge({"id": [2], "v": ["z"]}, "d"),
    corrected,
    lambda lake: DeltaTable(lake.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}),
    lambda lake: DeltaTable(lake.path).optimize.compact(),
    lambda lake: DeltaTable(lake.path).delete("id = 3"),
    lambda lake: write_deltalake(lake.path, lake.rows({"id": [7], "v": ["w"]}), mode="append"),
    lambda lake: DeltaTable(lake.path).create_checkpoint(),
    with_a_column,
]  # fmt: skip


def test_each_version_that_somebody_goes_back_to_is_found_among_commits_of_all_kinds(lake):
    for act in HISTORY:
        act(lake)
    last = DeltaTable(lake.path).version()
    then = {version: what(lake, version) for version in range(last + 1)}
    for version in [*range(last), 4, 1, 2]:
        at = restore_by_time(lake.path, version)
        to = found(lake, at)
        assert to < at
        assert what(lake, to) == then[version] == what(lake, at)


def test_of_versions_in_which_the_table_was_the_same_the_newest_one_is_taken(lake):
    corrected(lake)
    lake.append({"id": [9], "v": ["x"]})
    assert found(lake, restore_by_time(lake.path, 3)) == 4
    assert found(lake, restore_by_time(lake.path, 2)) == 2


def test_a_version_with_the_same_files_and_other_columns_is_not_the_one(lake):
    with_a_column(lake)
    assert found(lake, restore_by_time(lake.path, 3)) == 3
    assert found(lake, restore_by_time(lake.path, 4)) == 4


def test_where_the_log_does_not_hold_that_version_any_more_it_is_not_known(lake):
    DeltaTable(lake.path).create_checkpoint()
    lake.append({"id": [9], "v": ["x"]})
    kept, lost = restore_by_time(lake.path, 3), restore_by_time(lake.path, 1)
    for version in (0, 1, 2):
        lake.entry(version).unlink()
    assert found(lake, kept) == 3
    assert found(lake, lost) is None


def test_one_by_version_says_so(lake):
    DeltaTable(lake.path).restore(1)
    assert found(lake, 4) == 1
