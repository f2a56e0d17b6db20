"""Upkeep is the one writer's: who has lost the lease, or wakes up in the middle, removes and rewrites nothing."""

import json
import os
import threading
import time
import uuid
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log, delta_rs_table
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import unread, write_new
from ingest.lake.files import lease as lease_module
from ingest.lake.files.lease import Lease, LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.maintenance import file_layout, schedule, vacuum_times
from ingest.maintenance.schedule import Maintenance
from ingest.model.names import (
    is_left_over,
    lease_path,
    maintenance_path,
    scratch_of,
    scratch_path,
)
from ingest.schema.change_log import LOG_PROPERTY
from tests.outside import vectors
from tests.support.direct_lake import DirectLake

HOURS = 24
DUTIES = ("put in order", "rid of old versions", "rid of the log of old versions")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lease_module, "BEAT_EVERY", 0.1)
    monkeypatch.setattr(lease_module, "EXPIRES_AFTER", 0.4)
    monkeypatch.setattr(delta_rs_table, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(schedule, "LOOK_EVERY", 1)
    monkeypatch.setattr(file_layout, "MANY_SMALL", 2)


class Lake:
    """One table, and who may write it."""

    def __init__(self, root):
        self.root = root
        self.table = DirectLake(root, {"id": pa.int32(), "v": pa.string()})
        self._leases = []

    def job(self):
        """Takes the lease, as a job that starts does: of one that stands still, if there is one."""
        for before in self._leases:
            before._ended.set()
        lease = Lease(LocalFiles(lease_path(str(self.root))), lambda _: None)
        self._leases.append(lease)
        term = lease.acquire(standby=True, stop=threading.Event())
        return Committer(term.number, lease.refuse_lost)

    def of(self, committer):
        """The table, as this job writes it."""
        self.table.table = unread(self.table.table._slow, str(self.root), committer.term)

    def upkeep(self, committer, only=None):
        found = Maintenance(str(self.root), HOURS, 1, committer, "p")
        if only:
            path = self.table.table.path
            found._given_up = {(path, duty) for duty in DUTIES if duty != only}
        return found

    def everything_is_due(self):
        """An order, a vacuum, a cut, a sweep."""
        for n in range(6):
            self.table.append({"id": [n], "v": [str(n)]})
        self.aged("orphan.parquet")
        said = json.dumps({self.table.table.path: 0.0})
        LocalFiles(maintenance_path(str(self.root))).write("vacuumed.json", said)
        LocalFiles(scratch_path(str(self.root))).write("0f3b/of a killed job", "")

    def aged(self, name=None):
        """Files from before the history that is kept."""
        if name:
            (self.table.path / name).write_bytes(b"of a commit that never was")
        for one in self.table.path.glob("*.*"):
            os.utime(one, (time.time() - 2 * HOURS * 3600,) * 2)

    def succeeded(self, rows=(100, 101)):
        """A successor has taken over, worked, and kept the lake for longer than its history."""
        before = self.table.table
        self.of(self.job())
        for n in rows:
            self.table.append({"id": [n], "v": [str(n)]})
        self.table.table = before
        self.aged()

    def all_files(self):
        """But for the lease's, whose counter moves."""
        inside = (one for one in self.root.rglob("*") if one.is_file())
        found = {str(one.relative_to(self.root)): one.stat().st_mtime_ns for one in inside}
        return {name: at for name, at in found.items() if "lease" not in name}


@pytest.fixture
def lake(tmp_path):
    found = Lake(tmp_path)
    yield found
    for one in found._leases:
        one._ended.set()


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


class UnreadLog:
    """The table as a change log, of which a flow has all versions from the first on still to read."""

    def __init__(self, lake):
        self.lake = lake
        self.job = lake.job()
        lake.of(self.job)
        self.direct, self.commits = lake.table.table, lake.table.path / "_delta_log"
        of = {**self.direct.state.configuration, LOG_PROPERTY: "d.t"}
        self.direct.describe({"configuration": of}, "SET TBLPROPERTIES", {})
        self.append()
        self.first = self.direct.version()

    def append(self):
        self.lake.table.append({"id": [1], "v": ["1"]})

    def aged(self, hours, *, said=True):
        """All commits so far; and so they say themselves."""
        at = time.time() - hours * 3600
        for one in self.commits.glob("*.json"):
            if said:
                lines = [json.loads(line) for line in one.read_text().splitlines()]
                for line in lines:
                    line.get("commitInfo", {})["timestamp"] = int(at * 1000)
                one.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            os.utime(one, (at, at))

    def vacuum(self):
        path = self.direct.path
        LocalFiles(maintenance_path(str(self.lake.root))).write("vacuumed.json", json.dumps({path: 0.0}))  # fmt: skip
        upkeep = Maintenance(str(self.lake.root), HOURS, 99, self.job, "p", lambda *_: self.first)
        assert upkeep._vacuum(self.direct)
        return upkeep

    def readable(self):
        return (self.commits / f"{self.first:020}.json").exists()


@pytest.mark.parametrize("hours", [23, 300, 3000])
def test_what_a_flow_has_still_to_read_outlasts_the_commits_until_old_versions_are_looked_for_again(
    lake, hours
):
    log = UnreadLog(lake)
    log.aged(hours)
    kept, _ = log.vacuum()._kept(log.direct)
    log.aged(hours + vacuum_times.every(kept) / 3600)
    for _ in range(5):
        log.append()
    assert log.readable()


def test_what_a_flow_has_still_to_read_outlasts_a_job_that_stood_still(lake):
    log = UnreadLog(lake)
    log.aged(300)
    log.vacuum()
    log.aged(400)
    for _ in range(5):
        log.append()
    log.vacuum()
    assert log.readable()
    log.first = log.direct.version()
    log.vacuum()
    assert not (log.commits / f"{1:020}.json").exists(), "the flow has read it"


def test_a_commit_is_as_old_as_it_says_where_its_file_was_copied_later(lake):
    log = UnreadLog(lake)
    log.aged(300)
    kept = log.vacuum()._kept(log.direct)
    log.aged(0, said=False)
    assert log.vacuum()._kept(log.direct) == kept


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


def test_of_many_tables_of_spark_s_each_has_its_turn(tmp_path):
    class Always:
        """Something to do for each table, at each look."""

        def __init__(self):
            self.served = []

        def compact(self, path, writes, say):
            self.served.append(path)
            return True

        def forget(self, path):
            raise AssertionError("nothing failed")

    upkeep = Maintenance(str(tmp_path), HOURS, 1, Committer(1), "p", by_spark=Always())
    left = {f"hdfs://node/lake/d/t{number}": 1 for number in range(20)}
    for _ in range(40):
        upkeep.between_batches([], left)
    assert upkeep.by_spark.served == [*left] * 2
