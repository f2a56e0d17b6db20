"""Upkeep is the one writer's: who has lost the lease, or wakes up in the middle, removes and rewrites nothing."""

import os
import time
import uuid
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import write_new
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.maintenance.schedule import Maintenance
from ingest.model.names import (
    is_left_over,
    scratch_of,
    scratch_path,
)
from tests.outside import vectors
from tests.support.direct_lake import DirectLake
from tests.unit.maintenance.looked_after import DUTIES, HOURS


@pytest.mark.parametrize("duty", [*DUTIES, None])
def test_who_has_lost_the_lease_does_none_of_it_and_ends(lake, duty):
    first = lake.job()
    lake.of(first)
    lake.everything_is_due()
    upkeep = lake.upkeep(first, duty or "nothing")
    upkeep._swept = duty is not None
    lake.job()
    before = lake.all_files()
    with pytest.raises(LeaseLostError):
        upkeep.between_batches([lake.table.table])
    assert lake.all_files() == before
    assert upkeep.done() == (), "not a failure of its own that is said and passed over"


@pytest.mark.parametrize("duty", [*DUTIES, None])
def test_who_has_it_does_all_of_it(lake, duty):
    first = lake.job()
    lake.of(first)
    lake.everything_is_due()
    upkeep = lake.upkeep(first, duty or "nothing")
    upkeep._swept = duty is not None
    before = lake.all_files()
    upkeep.between_batches([lake.table.table])
    assert set(before) - set(lake.all_files()) or duty == "put in order"
    assert lake.all_files() != before
    assert lake.table.count("true") == 6
    assert not [one for one in upkeep.done() if one.what == "failed"]


def test_a_job_suspended_before_the_files_are_listed_removes_none_of_its_successor_s(
    lake, monkeypatch
):
    first, real = lake.job(), DeltaTable.vacuum
    lake.of(first)
    lake.everything_is_due()

    def suspended(table, *args, **kwargs):  # it has read the log, and wakes up long after
        lake.succeeded()
        return real(table, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "vacuum", suspended)
    with pytest.raises(LeaseLostError):
        lake.upkeep(first, "rid of old versions").between_batches([lake.table.table])
    assert lake.table.values("v") == {*map(str, range(6)), "100", "101"}
    assert (lake.table.path / "orphan.parquet").exists()


def test_a_job_suspended_before_the_first_file_is_removed_removes_what_was_none_before(
    lake, monkeypatch
):
    first, real, asked = lake.job(), Path.unlink, []
    lake.of(first)
    lake.everything_is_due()

    def suspended(path, *, missing_ok=False):
        if path.suffix == ".parquet" and not asked:
            asked.append(path)
            lake.succeeded()
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", suspended)
    with pytest.raises(LeaseLostError):  # before its log is cut
        lake.upkeep(first, "rid of old versions").between_batches([lake.table.table])
    assert [one.name for one in asked] == ["orphan.parquet"]
    assert lake.table.values("v") == {*map(str, range(6)), "100", "101"}


def test_files_are_named_anew_where_somebody_has_committed_since(lake, monkeypatch):
    first, real = lake.job(), DeltaTable.vacuum
    lake.of(first)
    lake.everything_is_due()
    lake.aged()

    def meanwhile(table, *args, **kwargs):
        found = real(table, *args, **kwargs)
        lake.table.append({"id": [9], "v": ["9"]})
        return found

    monkeypatch.setattr(DeltaTable, "vacuum", meanwhile)
    lake.upkeep(first, "rid of old versions").between_batches([lake.table.table])
    assert (lake.table.path / "orphan.parquet").exists()
    assert lake.table.count("true") == 7


def test_old_versions_go_and_the_table_says_how_long_they_stay(lake):
    lake.everything_is_due()
    lake.table.merge({"id": [1], "v": ["new"]})
    lake.table.mark({"id": [2], "v": ["new"]})
    version = lake.table.table.version()
    kept = lake.table.table.vacuum(HOURS, lambda: None)
    assert kept == 1, "the orphan: what the MERGE took out is of the last day"
    assert lake.table.table.vacuum(0, lambda: None) >= 1
    live = {one.path for one in lake.table.table.state.files.values()}
    assert {one.name for one in lake.table.path.glob("*.parquet")} == live
    assert lake.table.values("v") == {"0", "3", "4", "5", "new"}
    said = DeltaTable(lake.table.path).metadata().configuration
    assert said["delta.deletedFileRetentionDuration"] == "interval 0 hours"
    assert said["delta.enableDeletionVectors"] == "true", "what else it says stays"
    assert lake.table.table.version() == version + 2, "a commit each time for how long, no other"


def test_a_deletion_vector_in_a_file_of_its_own_is_none_of_what_is_removed(lake):
    lake.table.append({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    lake.table.mark({"id": [1], "v": ["new"]})
    state = lake.table.table.state
    (marked,) = (one for one in state.files.values() if "deletionVector" in one.add)
    _in_a_file_of_its_own(lake.table, marked)
    lake.aged("orphan.parquet")
    assert lake.table.values("v") == {"new", "b", "c"}
    assert lake.table.table.vacuum(HOURS, lambda: None) == 1
    assert lake.table.values("v") == {"new", "b", "c"}
    assert lake.table.count("true") == 3


def _in_a_file_of_its_own(table, marked):
    """The same vector, as Spark would write it."""
    vector, name = marked.add["deletionVector"], "ab^-aqEH.-t@S}K{vb[*"
    raw = vectors.z85(vector["pathOrInlineDv"])[: vector["sizeInBytes"]]
    file = table.path / f"deletion_vector_{uuid.UUID(bytes=vectors.z85(name))}.bin"
    file.write_bytes(b"\1" + len(raw).to_bytes(4, "big") + raw + zlib.crc32(raw).to_bytes(4, "big"))
    outside = {**vector, "storageType": "u", "pathOrInlineDv": name, "offset": 1}
    add = {**marked.add, "deletionVector": outside, "partitionValues": {}, "dataChange": False}
    info = {"commitInfo": {"operation": "REORG", "timestamp": 1}}
    assert delta_log.write(
        table.path, table.table.version() + 1, [info, marked.removed(1), {"add": add}]
    )
    table.table.version()


def test_a_predecessor_that_wakes_sweeps_nothing_of_the_living_one_s(lake):
    first, second = lake.job(), lake.job()
    lake.of(second)
    lake.table.append({"id": [1], "v": ["a"]})
    stopped = Maintenance(str(lake.root), HOURS, 1, Committer(first.term), "p")  # asked just before
    table, rows = lake.table.table, lake.table.rows({"id": [2], "v": ["b"]})

    def act():
        with table.scratch(()) as work:
            write_new(work, rows)
            stopped.between_batches([])
            table.commit(work, *work.done(1), rows=1)

    lake.table.step(act)
    assert lake.table.values("v") == {"a", "b"}


def test_what_killed_jobs_have_left_is_swept_and_ones_own_stays(lake):
    for name in ("0f3b", "term-1", "term-10", "term-11", "term-12", "term-x"):
        LocalFiles(scratch_path(str(lake.root))).write(f"{name}/file", "")
    Maintenance(str(lake.root), HOURS, 1, Committer(11), "p").between_batches([])
    assert LocalFiles(scratch_path(str(lake.root))).names("") == ["term-11", "term-12"]


def test_a_folder_of_a_term_is_left_over_from_the_next_term_on():
    name = Path(scratch_of("/lake", 7)).name
    assert [is_left_over(name, term) for term in (6, 7, 8, 70)] == [False, False, True, True]
    assert is_left_over("flow-a-term-1", 2, "a")
    assert not is_left_over("flow-a-term-1-term-1", 2, "a"), "of the flow `a-term-1`"


def test_what_lies_deeper_than_a_table_s_files_is_somebody_else_s(lake):
    """A flow's table `sales`, and the mirrors of a database of that name."""
    nested = lake.table.path / "orders"
    inner = DirectLake(nested, {"id": pa.int32()})
    inner.append({"id": [1, 2]})
    odd = lake.table.path / "notes.txt"
    odd.write_text("mine")
    old = time.time() - 9999 * 3600
    for one in [odd, *nested.rglob("*")]:
        os.utime(one, (old, old))
    before = {one for one in nested.rglob("*") if one.is_file()}
    lake.aged("orphan.parquet")
    assert lake.table.table.vacuum(HOURS, lambda: None) == 1
    assert {one for one in nested.rglob("*") if one.is_file()} == before
    assert odd.exists()
    assert inner.count("true") == 2
