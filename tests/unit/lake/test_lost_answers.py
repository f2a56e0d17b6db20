"""A folder that several machines have, as by NFS: a server makes a link, its answer is lost, and asked again it says that the name is taken."""

import errno
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.files.storage import LocalFiles
from tests.support.direct_lake import DirectLake
from tests.unit.lake.conftest import acquire


@pytest.fixture
def answers_are_lost(monkeypatch):
    """Each link is made, and asked for once more, as by a kernel that has heard nothing."""
    link = os.link

    def twice(old, new):
        link(old, new)
        link(old, new)

    monkeypatch.setattr(os, "link", twice)


@pytest.fixture
def lake(tmp_path):
    found = DirectLake(tmp_path, {"id": pa.int32()})
    found.append({"id": [1, 2]})
    return found


@pytest.mark.usefixtures("answers_are_lost")
def test_who_has_made_a_file_is_told_so_and_leaves_nothing_beside_it(tmp_path):
    files = LocalFiles(str(tmp_path))
    assert files.create("1.json", "mine")
    assert not files.create("1.json", "another's")
    assert (files.read("1.json"), files.names("")) == ("mine", ["1.json"])


def test_a_file_that_is_gone_again_was_another_s(tmp_path, monkeypatch):
    """As the lease's, once a later holder has swept it."""

    def taken(old, new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)

    monkeypatch.setattr(os, "link", taken)
    assert not LocalFiles(str(tmp_path)).create("1.json", "mine")


@pytest.mark.usefixtures("answers_are_lost")
def test_a_lease_is_taken_by_who_has_made_its_file(make_lease):
    assert acquire(make_lease()).number == 1


def test_a_commit_that_stands_keeps_its_files(lake, answers_are_lost):
    lake.append({"id": [3]})
    assert DeltaTable(lake.path).version() == 2
    assert lake.values("id") == {1, 2, 3}


def committed_meanwhile(monkeypatch, act):
    """Instead of a commit this happens, and the answer is that the version is there already."""

    def write(table, version, actions):
        act(table, version, actions)
        return False

    monkeypatch.setattr(delta_log, "write", write)


def test_nothing_is_removed_before_the_commit_that_stands_was_read(lake, monkeypatch):
    real = delta_log.write
    committed_meanwhile(monkeypatch, real)
    lake.append({"id": [3]})
    assert lake.values("id") == {1, 2, 3}

    def torn(table, version, actions):
        Path(lake.entry(version)).write_text(json.dumps(actions[-1])[:20])

    committed_meanwhile(monkeypatch, torn)
    before = set(lake.path.glob("*.parquet"))
    with pytest.raises(Exception, match="cut off"):
        lake.append({"id": [4]})
    assert len(set(lake.path.glob("*.parquet")) - before) == 1, "whose it is nobody can say"


def test_files_of_a_commit_whose_version_is_another_s_go(lake, monkeypatch):
    real = delta_log.write

    def another(table, version, actions):
        theirs = [one for one in actions if "add" not in one and "txn" not in one]
        real(table, version, [*theirs, {"txn": {"appId": "another", "version": 1}}])

    committed_meanwhile(monkeypatch, another)
    before = set(lake.path.glob("*.parquet"))
    with pytest.raises(ForeignCommitError):
        lake.append({"id": [3]})
    assert set(lake.path.glob("*.parquet")) == before


@pytest.mark.parametrize(("number", "stays"), [(errno.ENOSPC, 0), (errno.EIO, 1)])
def test_where_no_answer_comes_the_files_stay_and_on_a_full_disk_they_go(
    lake, monkeypatch, number, stays
):
    """A server may still make the link that it was asked for. It has not where it says that there is no room."""

    def fails(old, new):
        raise OSError(number, os.strerror(number), str(new))

    before = set(lake.path.glob("*.parquet"))
    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(OSError, match=os.strerror(number)):
        lake.append({"id": [3]})
    assert len(set(lake.path.glob("*.parquet")) - before) == stays
