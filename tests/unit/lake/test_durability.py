"""What is on the disk before what: asked of every call by which a commit reaches the disk."""

import ctypes
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ingest.lake.files import durability
from ingest.lake.files.storage import LocalFiles
from tests.support.direct_lake import DirectLake

ACTS = {
    "append": lambda lake: lake.append({"id": [9], "v": ["new"]}),
    "merge": lambda lake: lake.merge({"id": [1, 9], "v": ["new", "new"]}),
    "mark": lambda lake: lake.mark({"id": [1, 9], "v": ["new", "new"]}),
    "compact": lambda lake: lake.compact(),
}


@pytest.fixture
def lake(tmp_path):
    found = DirectLake(tmp_path, {"id": pa.int32(), "v": pa.string()})
    found.append({"id": [1, 2], "v": ["a", "b"]})
    found.append({"id": [3], "v": ["c"]})
    return found


@pytest.fixture
def seen(monkeypatch):
    """(what, path) in order: ``sync`` and ``link``."""
    found, sync, link = [], os.fsync, os.link

    def synced(descriptor):
        found.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    def linked(old, new):
        found.append(("link", Path(new)))
        link(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    return found


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_data_and_its_name_are_on_the_disk_before_the_log_names_it_and_the_entry_s_name_after(
    lake, seen, act
):
    before = set(lake.path.glob("*.parquet"))
    act(lake)
    new = set(lake.path.glob("*.parquet")) - before
    assert new
    log = lake.path / "_delta_log"
    version = lake.table.state.version
    entry = seen.index(("link", log / f"{version:020d}.json"))
    for file in new:
        assert seen.index(("sync", file)) < entry
    assert seen.index(("sync", lake.path)) < entry
    what, part = seen[entry - 1]
    assert what == "sync"
    assert part.name.startswith(f"{version:020d}.json."), "its content, under the name of before"
    assert ("sync", log) in seen[entry:]


def test_a_checkpoint_is_on_the_disk_before_what_it_replaces_goes(lake, seen, monkeypatch):
    monkeypatch.setattr("ingest.lake.delta.delta_rs_table.CHECKPOINT_EVERY", 3)
    lake.append({"id": [4], "v": ["d"]})
    lake.append({"id": [5], "v": ["e"]})
    log = lake.path / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    synced = [path for what, path in seen if what == "sync"]
    assert checkpoint in synced
    assert log / "_last_checkpoint" in synced
    assert log in synced[synced.index(checkpoint) :]


def test_a_small_file_has_its_content_before_its_name(tmp_path, seen):
    files = LocalFiles(str(tmp_path))
    assert files.create("new/1.json", "text")
    at = seen.index(("link", tmp_path / "new/1.json"))
    assert ("sync", tmp_path) in seen[:at], "the new folder's name"
    assert seen[at - 1][1].parent == tmp_path / "new"
    assert ("sync", tmp_path / "new") in seen[at:]
    files.write("new/2", "text")
    assert seen[-1] == ("sync", tmp_path / "new")
    files.delete("new/2")
    assert seen[-1] == ("sync", tmp_path / "new")


def test_who_switches_it_off_waits_for_no_disk(lake, seen):
    durability.switch(on=False)
    try:
        lake.merge({"id": [1, 9], "v": ["new", "new"]})
        assert not [one for one in seen if one[0] == "sync"]
    finally:
        durability.switch(on=True)


def test_many_files_that_could_not_be_written_are_no_more_on_the_disk_than_one(
    tmp_path, monkeypatch
):
    """`sync` says nothing of it, and a page that could not be written is forgotten."""
    written = [tmp_path / str(number) for number in range(100)]
    for file in written:
        file.write_text("x")
    durability.files(written)

    def fails(_):
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(durability, "_libc", SimpleNamespace(syncfs=fails))
    with pytest.raises(OSError, match="Input/output error"):
        durability.files(written)
