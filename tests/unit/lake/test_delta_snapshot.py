"""A table's log followed by the names of its commits: nothing of it is passed over."""

import json
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_log import UnknownLogError
from ingest.lake.delta.delta_snapshot import LiveFile, TableState

KEYS = st.integers(-9, 9)
_FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
METADATA = {"schemaString": json.dumps({"type": "struct", "fields": [_FIELD]})}


def appended(path, first, count=3):
    write_deltalake(path, pa.table({"id": range(first, first + count)}), mode="append")


@pytest.fixture
def table(tmp_path):
    for first in (0, 10, 20):
        appended(tmp_path / "t", first)
    return tmp_path / "t"


def ranges(state):
    return sorted(one.range("id") for one in state.files.values())


def test_it_holds_what_delta_rs_says_of_a_table(table):
    state, theirs = TableState.read(table), DeltaTable(table)
    assert state.version == theirs.version()
    assert sorted(state.files) == sorted(pa.table(theirs.get_add_actions())["path"].to_pylist())
    assert ranges(state) == [(0, 2), (10, 12), (20, 22)]
    assert state.metadata["id"] == str(theirs.metadata().id)


def test_commits_that_come_are_taken_in(table):
    state = TableState.read(table)
    assert state.follow()
    assert state.version == 2
    appended(table, 30)
    appended(table, 40)
    assert state.follow()
    assert (state.version, ranges(state)[-1]) == (4, (40, 42))
    delta_log.write(table, 5, [{"txn": {"appId": "a", "version": 7, "lastUpdated": 0}}])
    assert state.follow()
    assert state.markers == {"a": 7}


def test_a_checkpoint_says_what_the_commits_before_it_said(table):
    delta_log.write(table, 3, [{"txn": {"appId": "a", "version": 7, "lastUpdated": 0}}])
    before = TableState.read(table)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / delta_log.commit_name(version)).unlink()
    assert TableState.read(table) == before


def test_a_table_made_again_is_not_taken_for_the_one_before(table):
    state = TableState.read(table)
    shutil.rmtree(table)
    for first in range(5):
        appended(table, first)
    assert not state.follow()


def test_a_log_with_a_hole_is_not_taken_for_one_that_ends_there(table):
    appended(table, 30)
    (table / delta_log.commit_name(2)).unlink()
    with pytest.raises(UnknownLogError):
        TableState.read(table)


@pytest.mark.parametrize("unknown", ['{"version": 2, "size": 9, "parts": 2}', "{"])
def test_a_checkpoint_that_is_not_read_here_is_made_anew_by_delta_rs(table, unknown):
    DeltaTable(table).create_checkpoint()
    appended(table, 30)
    (table / "_delta_log" / "_last_checkpoint").write_text(unknown)
    assert len(TableState.read(table).files) == 4


def test_a_log_that_lost_its_first_commits_and_its_last_checkpoint_s_name_is_still_a_table(table):
    DeltaTable(table).create_checkpoint()
    appended(table, 30)
    (table / "_delta_log" / "_last_checkpoint").unlink()
    for version in range(2):
        (table / delta_log.commit_name(version)).unlink()
    assert delta_log.is_begun(table)
    assert len(TableState.read(table).files) == 4


def test_no_table_is_said_to_be_none(tmp_path):
    with pytest.raises(TableNotFoundError):
        TableState.read(tmp_path)
    assert not delta_log.is_begun(tmp_path)


@given(st.lists(st.tuples(KEYS, KEYS).map(sorted)), st.lists(KEYS, min_size=1))
def test_no_file_that_may_hold_a_key_is_passed_over_and_no_other_is_taken(
    tmp_path_factory, bounds, keys
):
    state = TableState(tmp_path_factory.getbasetemp(), metadata=METADATA)
    for number, (low, high) in enumerate(bounds):
        stats = {"minValues": {"id": low}, "maxValues": {"id": high}}
        state.files[str(number)] = LiveFile({"path": str(number), "stats": json.dumps(stats)})
    rows = pa.table({"id": pa.array(keys, pa.int8())})
    wanted = [
        str(n) for n, (low, high) in enumerate(bounds) if any(low <= key <= high for key in keys)
    ]
    assert [one.path for one in state.reached_by(rows, ("id",))] == wanted
    assert len(state.reached_by(rows, ())) == len(bounds)
    least, greatest = min(keys), max(keys)
    meets = any(low <= greatest and high >= least for low, high in bounds)
    assert bool(state.between("id", (least, greatest))) == meets
    assert bool(state.between("id", None)) == bool(bounds)


@pytest.mark.parametrize(
    "stats",
    [None, {}, {"minValues": {"id": "1"}, "maxValues": {"id": "2"}}, {"minValues": {"id": 90}}],
)
def test_a_file_of_which_too_little_is_known_may_hold_any_key(tmp_path, stats):
    state = TableState(tmp_path, metadata=METADATA)
    state.files["f"] = LiveFile({"path": "f", "stats": stats and json.dumps(stats)})
    assert state.reached_by(pa.table({"id": [7]}), ("id",))
    assert state.between("id", (7, 7))


def test_the_range_of_a_file_may_be_wider_than_the_type_of_the_rows(tmp_path):
    state = TableState(tmp_path, metadata=METADATA)
    stats = {"minValues": {"id": 0}, "maxValues": {"id": 2**40}}
    state.files["f"] = LiveFile({"path": "f", "stats": json.dumps(stats)})
    assert state.reached_by(pa.table({"id": pa.array([7], pa.int8())}), ("id",))


def test_a_file_in_the_place_of_a_table_s_folder_is_no_table(tmp_path):
    (tmp_path / "t").write_text("a file")
    assert not delta_log.is_begun(tmp_path / "t")
