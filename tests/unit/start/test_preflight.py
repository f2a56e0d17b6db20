"""What is refused before anything is started."""

import errno

import pytest

from ingest.model.errors import Exit, IngestError
from ingest.model.topics import TableId
from ingest.start import preflight
from ingest.start.preflight import (
    refuse_folders_of_logs,
    refuse_shared_folders,
    refuse_unwritable,
)
from ingest.testing.lake import pipeline_at
from tests.support.disk import no_room


def test_whether_the_lake_s_disk_tells_letters_case_apart_is_looked_at(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "A").touch()
    two = len(list(tmp_path.iterdir())) == 2
    assert refuse_unwritable(str(tmp_path)) is two
    assert refuse_unwritable(f"file://{tmp_path}/new") is two
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("lake", [".", "new"])
def test_a_disk_that_takes_names_and_no_bytes_is_refused_and_nothing_is_left_on_it(tmp_path, lake):
    with no_room(), pytest.raises(IngestError) as refused:
        refuse_unwritable(str(tmp_path / lake))
    assert (refused.value.code, refused.value.exit_code) == ("E-LAKE-UNWRITABLE", Exit.REFUSED)
    assert "File too large" in refused.value.what
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_refused_as_one(tmp_path, monkeypatch):
    def write(probe):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(preflight, "_write", write)
    with pytest.raises(IngestError) as refused:
        refuse_unwritable(str(tmp_path))
    assert (refused.value.code, refused.value.exit_code) == ("E-DISK-FULL", Exit.REFUSED)
    assert refused.value.what == f"The lake's disk is full ({tmp_path}): No space left on device."


@pytest.mark.parametrize(
    "names",
    [("T", "t"), ("straße", "STRASSE"), ("caf\u00e9", "cafe\u0301")],
)
def test_two_tables_of_one_folder_are_refused_by_name(names):
    one, other = (TableId("d", name) for name in names)
    with pytest.raises(IngestError) as refused:
        refuse_shared_folders([TableId("d", "x"), one, other])
    assert refused.value.code == "E-LAKE-FOLDER-SHARED"
    assert str(one) in str(refused.value)
    assert str(other) in str(refused.value)


def test_tables_of_one_name_in_two_databases_share_no_folder():
    refuse_shared_folders([TableId("d", "t"), TableId("D2", "T"), TableId("d", "t_")])


def test_a_table_that_would_lie_in_another_one_s_change_log_is_refused(tmp_path):
    tables = [TableId("d", "t"), TableId("d", "t__changes")]
    logged = {"targets": ["mirror", "change_log"]}
    with pytest.raises(
        IngestError, match="The change log of d.t would lie in .*/d/t__changes"
    ) as refused:
        refuse_folders_of_logs(pipeline_at(tmp_path, defaults=logged), tables)
    assert refused.value.code == "E-CHANGE-LOG-FOLDER"
    refuse_folders_of_logs(pipeline_at(tmp_path), tables)
    lake = {"path": str(tmp_path), "change_log_suffix": "--log"}
    refuse_folders_of_logs(pipeline_at(tmp_path, defaults=logged, lake=lake), tables)
