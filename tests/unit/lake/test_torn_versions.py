"""What a power cut leaves of commits that nobody has published, and how a table's log is brought back."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log
from ingest.lake.delta.torn_versions import (
    drop_torn_checkpoints,
    first_torn,
    is_whole_before,
    newest_published,
    take_back,
)
from tests.support.direct_lake import DirectLake

PUBLISHED = 2
"""Versions 1 and 2 are of batches 1 and 2; the manifest names version 2."""


@pytest.fixture
def lake(tmp_path):
    return DirectLake.of_batches(tmp_path, 4)


def cut(lake):
    """As a start does with a table of which the manifest names version 2, of batch 2."""
    first = first_torn(lake.path, 2, PUBLISHED)
    return [] if first is None else take_back(lake.path, first)


def test_what_is_of_a_batch_that_is_not_published_goes_though_it_is_whole(lake):
    assert cut(lake) == [3, 4]
    assert (DeltaTable(lake.path).version(), lake.count("true")) == (2, 2)
    assert cut(lake) == []


def test_what_a_version_has_left_that_never_was_goes_too(lake):
    log = lake.path / "_delta_log"
    orphans = [log / f".{5:020d}.json.crc", log / f"{5:020d}.crc"]
    for one in orphans:
        one.write_bytes(b"half")
    first = first_torn(lake.path, 4, 4)
    assert first == 5
    assert take_back(lake.path, first) == []
    assert not any(one.exists() for one in orphans)
    assert lake.count("true") == 4


def test_a_checkpoint_whose_version_is_lost_shows_nothing_of_it_any_more(lake):
    DeltaTable(lake.path).create_checkpoint()
    lake.entry(4).unlink()
    assert lake.count("true") == 4, "a reader begins with it"
    assert cut(lake) == [3]
    drop_torn_checkpoints(lake.path)
    assert lake.count("true") == 2


def test_files_of_old_versions_are_gone_in_time_and_nothing_is_taken_back(lake):
    """By upkeep of ours, or by a VACUUM of somebody else's: the published version's own files, too."""
    lake.compact()
    for version in (1, 2, 3, 4):
        for file in lake.files_of(version):
            file.unlink()
    assert first_torn(lake.path, 4, 4) is None
    assert first_torn(lake.path, 2, 4) is None
    assert newest_published(lake.path, 4) == 4
    assert lake.count("true") == 4


def test_where_the_version_before_has_not_all_of_its_files_there_is_no_way_back(lake):
    assert is_whole_before(lake.path, 3)
    lake.files_of(2)[0].unlink()
    assert not is_whole_before(lake.path, 3)
    assert is_whole_before(lake.path, 2)
    assert is_whole_before(lake.path, 0)


@pytest.mark.parametrize("name", ["%5Fusers", "a%20b%23%2B", "50%25"])
def test_whether_a_version_is_whole_is_known_whatever_the_table_is_called(lake, name):
    """delta-rs decodes percent signs once too often: it looked into another folder, and no such table was ever whole."""
    DeltaTable(lake.path).create_checkpoint()
    file, odd = lake.files_of(2)[0], lake.path.rename(lake.path.with_name(name))
    assert is_whole_before(odd, 3)
    (odd / file.name).unlink()
    assert not is_whole_before(odd, 3)
    assert is_whole_before(odd, 2)


def test_a_version_of_which_the_log_is_a_checkpoint_is_whole_while_its_files_are_there(lake):
    DeltaTable(lake.path).create_checkpoint()
    for version in (0, 1, 2, 3):
        lake.entry(version).unlink()
    assert is_whole_before(lake.path, 5)
    assert not is_whole_before(lake.path, 4), "of before the checkpoint nothing is known"
    lake.files_of(4)[0].unlink()
    assert not is_whole_before(lake.path, 5)


def test_a_version_without_its_deletion_vector_is_not_whole(lake):
    """One of Spark's, which lies in a file of its own."""
    actions = delta_log.read(lake.path, 4)
    (add,) = (one["add"] for one in actions if "add" in one)
    said = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1}
    add["deletionVector"] = {**said, "sizeInBytes": 36, "cardinality": 1}
    vector = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    lake.entry(4).unlink()
    assert delta_log.write(lake.path, 4, actions)
    assert not is_whole_before(lake.path, 5)
    (lake.path / vector).parent.mkdir()
    (lake.path / vector).touch()
    assert is_whole_before(lake.path, 5)


def test_of_a_table_that_the_manifest_does_not_name_the_newest_published_version_is_found(lake):
    assert [newest_published(lake.path, batch) for batch in (0, 1, 3, 9)] == [-1, 1, 3, 4]
    lake.entry(0).unlink()
    assert newest_published(lake.path, 0) == 0, "the log is cut there"


def test_what_is_published_stays_whatever_came_after(lake):
    assert first_torn(lake.path, 2, 4) is None
    assert first_torn(lake.path, 4, 0) is None


TORN = {
    "an empty entry": lambda lake: lake.entry(3).write_bytes(b""),
    "half an entry": lambda lake: lake.entry(3).write_bytes(lake.entry(3).read_bytes()[:200]),
    "no text": lambda lake: lake.entry(3).write_bytes(bytes(200)),
    "a hole": lambda lake: lake.entry(3).unlink(),
}  # fmt: skip


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_what_is_not_whole_goes_with_all_that_came_after_whoever_s_it_is(lake, tear):
    tear(lake)
    assert first_torn(lake.path, 2, 1_000_000) == 3
    assert 4 in cut(lake)
    assert (DeltaTable(lake.path).version(), lake.count("true")) == (2, 2)
    lake.table.version()
    lake.append({"id": [9], "v": ["again"]})
    assert lake.values("id") == {1, 2, 9}


def test_of_a_table_that_was_being_made_nothing_is_left(tmp_path):
    lake = DirectLake(tmp_path, {"id": pa.int32()})
    lake.entry(0).write_bytes(lake.entry(0).read_bytes().split(b"\n")[0])
    assert first_torn(lake.path, -1, 0) == 0
    assert take_back(lake.path, 0) == [0]
    assert not DeltaTable.is_deltatable(str(lake.path))


def test_upkeep_since_the_published_version_stays(lake):
    """What it has put together is vacuumed in time: back there is no way."""
    lake.compact()
    assert first_torn(lake.path, 4, 4) is None
    lake.append({"id": [7], "v": ["x"]})
    assert first_torn(lake.path, 4, 4) == 6


def test_what_others_have_committed_stays(lake):
    DeltaTable(lake.path).delete("id = 1")
    assert first_torn(lake.path, 4, 4) is None


def test_a_checkpoint_that_is_not_whole_goes_and_so_does_its_name(lake):
    table = DeltaTable(lake.path)
    table.create_checkpoint()
    log = lake.path / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:50])
    drop_torn_checkpoints(lake.path)
    assert not checkpoint.exists()
    assert not (log / "_last_checkpoint").exists()
    assert lake.count("true") == 4


def test_a_checkpoint_s_name_without_content_goes_and_the_checkpoint_stays(lake):
    DeltaTable(lake.path).create_checkpoint()
    log = lake.path / "_delta_log"
    (log / "_last_checkpoint").write_bytes(b"")
    drop_torn_checkpoints(lake.path)
    assert not (log / "_last_checkpoint").exists()
    assert list(log.glob("*.checkpoint.parquet"))
    assert lake.count("true") == 4


def test_checkpoints_of_versions_that_go_go_too(lake):
    DeltaTable(lake.path).create_checkpoint()
    cut(lake)
    drop_torn_checkpoints(lake.path)
    assert lake.count("true") == 2


def test_versions_that_a_checkpoint_stands_for_are_no_hole(lake):
    DeltaTable(lake.path).create_checkpoint()
    for version in (0, 1, 2, 3):
        lake.entry(version).unlink()
    assert first_torn(lake.path, -1, 4) is None
