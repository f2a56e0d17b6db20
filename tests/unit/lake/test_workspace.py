"""A scratch that somebody sweeps while it is worked in: an error, never a version that names files nobody has."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta.delta_rs_table import write_new
from ingest.lake.delta.workspace import Scratch
from ingest.model.errors import IngestError
from tests.support.direct_lake import DirectLake

ACTS = {
    "append": lambda lake: lake.append({"id": [9], "v": ["new"]}),
    "add": lambda lake: lake.add({"id": [9], "v": ["new"]}),
    "merge": lambda lake: lake.merge({"id": [1, 9], "v": ["new", "new"]}),
    "mark": lambda lake: lake.mark({"id": [1, 9], "v": ["new", "new"]}),
    "compact": lambda lake: lake.compact(),
}
acts = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)


@pytest.fixture
def lake(tmp_path):
    found = DirectLake(tmp_path, {"id": pa.int32(), "v": pa.string()})
    found.append({"id": [1, 2], "v": ["a", "b"]})
    found.append({"id": [3], "v": ["c"]})
    return found


def swept(work):
    """As by a cleaner of old files, or by a job of before that wakes up."""
    shutil.rmtree(work._folder)


def is_as_it_was(lake):
    return (DeltaTable(lake.path).version(), lake.count("true"), lake.values("v")) == (
        2,
        3,
        {"a", "b", "c"},
    )


@acts
def test_no_version_names_a_file_that_nobody_has(lake, monkeypatch, act):
    real = Scratch.commit

    def too_late(work, actions):
        swept(work)
        return real(work, actions)

    monkeypatch.setattr(Scratch, "commit", too_late)
    with pytest.raises(IngestError, match="E-SCRATCH-GONE") as failure:
        act(lake)
    assert failure.value.may_pass, "the batch comes again"
    monkeypatch.undo()
    assert is_as_it_was(lake)
    act(lake)
    assert lake.count("true") >= 3


@acts
def test_what_was_done_in_it_is_not_taken_for_nothing(lake, monkeypatch, act):
    real = Scratch.done

    def too_late(work, now_ms):
        swept(work)
        return real(work, now_ms)

    monkeypatch.setattr(Scratch, "done", too_late)
    with pytest.raises(IngestError, match="E-SCRATCH-GONE"):
        act(lake)
    assert is_as_it_was(lake)


def test_one_file_of_several_that_has_vanished_is_enough_and_none_is_moved(lake, monkeypatch):
    real = Scratch.commit

    def too_late(work, actions):
        new = [one["add"]["path"] for one in actions if "add" in one]
        assert len(new) == 2
        (work._folder / new[0]).unlink()
        return real(work, actions)

    monkeypatch.setattr(Scratch, "commit", too_late)
    lying = {one.name for one in lake.path.glob("*.parquet")}
    with lake.table.scratch(()) as work:
        for value in (7, 8):
            write_new(work, lake.rows({"id": [value], "v": ["new"]}))
        actions = work.done(0)[1]
        with pytest.raises(IngestError, match="E-SCRATCH-GONE"):
            work.commit(actions)
    assert {one.name for one in lake.path.glob("*.parquet")} == lying
    assert is_as_it_was(lake)


def test_files_that_the_table_has_are_no_part_of_the_scratch(lake):
    lake.mark({"id": [1], "v": ["new"]})
    assert lake.values("v") == {"new", "b", "c"}
