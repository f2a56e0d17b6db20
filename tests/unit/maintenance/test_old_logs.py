"""What goes of a table's log, and what stays: what a flow needs, what a change log says of itself, what nobody has looked at."""

import json
import os
import time

import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log, own_commits
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.maintenance import vacuum_times
from ingest.maintenance.schedule import Maintenance
from ingest.model.names import maintenance_path
from ingest.model.start_facts import LogHeld, Note
from tests.unit.maintenance.looked_after import HOURS, UnreadLog


def _behind(lake, job, **more):
    return Maintenance(str(lake.root), HOURS, 1, job, "p", **more)


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
    log.aged(400, below=log.first)
    log.vacuum()
    assert not (log.commits / f"{1:020}.json").exists(), "the flow has read it"


def test_a_commit_is_as_old_as_it_says_where_its_file_was_copied_later(lake):
    log = UnreadLog(lake)
    log.aged(300)
    kept = log.vacuum()._kept(log.direct)
    log.aged(0, said=False)
    assert log.vacuum()._kept(log.direct) == kept


@pytest.mark.parametrize("duty", ["_vacuum", "_cut"])
def test_no_commit_of_somebody_else_s_goes_before_it_was_looked_at(lake, duty):
    """Once it has gone, whoever looks takes it for one of ours."""
    job = lake.job()
    lake.of(job)
    lake.everything_is_due()
    job.continued(lake.table.table)
    DeltaTable(lake.table.path).delete("id = 1")
    foreign = lake.table.path / "_delta_log" / f"{lake.table.table.version():020}.json"
    lake.table.append({"id": [7], "v": ["7"]})
    DeltaTable(lake.table.path).create_checkpoint()
    old = time.time() - 9999 * 3600
    for one in foreign.parent.iterdir():
        os.utime(one, (old, old))
    with pytest.raises(ForeignCommitError, match="DELETE"):
        getattr(_behind(lake, job), duty)(lake.table.table)
    assert foreign.exists()


def test_a_job_suspended_while_it_looks_what_to_cut_leaves_what_a_flow_has_to_read(
    lake, monkeypatch
):
    log = UnreadLog(lake)
    for _ in range(8):
        log.append()
    log.first = log.direct.version()
    upkeep = _behind(lake, log.job, unread=lambda *_: log.first)
    real = delta_log.cut

    def late(table, upto, refuse_lost):
        for _ in range(60):  # its successor's
            lake.table.append({"id": [1], "v": ["1"]})
        return real(table, upto, lambda: None)

    monkeypatch.setattr(delta_log, "cut", late)
    upkeep._cut(log.direct)
    assert log.readable()
    assert not (log.commits / f"{1:020}.json").exists()


def test_who_asks_for_the_lease_when_it_is_known_what_goes_cuts_nothing_of_a_successor_s(lake):
    for number in range(8):
        lake.table.append({"id": [number], "v": ["1"]})
    before = lake.all_files()

    def lost():
        raise LeaseLostError("another")

    with pytest.raises(LeaseLostError):
        delta_log.cut(lake.table.path, lake.table.table.version(), lost)
    assert lake.all_files() == before
    assert delta_log.cut(lake.table.path, lake.table.table.version()) > 0


def test_of_a_change_log_the_commit_stays_that_says_how_far_in_kafka_it_is(lake):
    log = UnreadLog(lake)
    with log.direct.identified(
        "ingest/p/x/d.t/log", 1, LogHeld(ends={0: 7}).written(Note(1, "abc").as_json())
    ):
        log.direct.append(lake.table.rows({"id": [1], "v": ["1"]}))
    said = log.direct.version()
    for number in range(8):  # of upkeep's
        log.direct.describe({"name": str(number)}, "SET TBLPROPERTIES", {})
        DeltaTable(lake.table.path).create_checkpoint()
    log.aged(9999)
    log.first = None
    log.vacuum()
    assert (log.commits / f"{said:020}.json").exists()
    assert own_commits.log_held(log.direct).ends == {0: 7}
    assert not (log.commits / f"{1:020}.json").exists()


def test_versions_of_the_last_hours_stay_readable_and_older_ones_go(lake):
    """Whatever checkpoint comes behind them."""
    for number in range(6):
        lake.table.append({"id": [number], "v": ["1"]})
        DeltaTable(lake.table.path).create_checkpoint()
    newest = lake.table.table.version()
    log = lake.table.path / "_delta_log"
    for one in log.glob("*.json"):
        age = 9999 if int(one.stem) < newest - 2 else 1
        at = time.time() - age * 3600
        os.utime(one, (at, at))
    upto = delta_log.committed_before(lake.table.path, time.time() - HOURS * 3600)
    assert upto == newest - 3
    assert delta_log.cut(lake.table.path, upto) > 0
    assert DeltaTable(lake.table.path, version=newest - 3).version() == newest - 3
    assert min(int(one.stem) for one in log.glob("*.json")) == newest - 3
    assert lake.table.count("true") == 6


def test_no_checkpoint_cleans_a_log_that_upkeep_looks_after(lake):
    lake.everything_is_due()
    lake.table.table.vacuum(HOURS, lambda: None)
    said = DeltaTable(lake.table.path).metadata().configuration
    assert said["delta.enableExpiredLogCleanup"] == "false"


def test_files_of_a_version_that_a_flow_needs_outlast_a_checkpoint_that_has_forgotten_them(lake):
    """Then a file goes by its own age, which is more than the version's: of a mirror most are older than what reads them."""
    job = lake.job()
    lake.of(job)
    table = lake.table.table
    for number in range(3):
        lake.table.append({"id": [number], "v": ["old"]})
    table.vacuum(HOURS, lambda: None)
    first, files = table.version(), [*lake.table.path.glob("*.parquet")]
    lake.table.merge({"id": [0, 1, 2], "v": ["new"] * 3})
    long_ago = time.time() - (HOURS + 6) * 3600
    for one in lake.table.path.rglob("*.json"):
        lines = [json.loads(line) for line in one.read_text().splitlines()]
        for line in lines:
            line.get("commitInfo", {})["timestamp"] = int(long_ago * 1000)
            if "remove" in line:
                line["remove"]["deletionTimestamp"] = int(long_ago * 1000)
        one.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for one in lake.table.path.rglob("*"):
        at = 0 if one in files else long_ago
        os.utime(one, (at, at))
    lake.of(job)
    DeltaTable(lake.table.path).create_checkpoint()
    said = json.dumps({lake.table.table.path: 0.0})
    LocalFiles(maintenance_path(str(lake.root))).write("vacuumed.json", said)

    def values():
        return {*DeltaTable(lake.table.path, version=first).to_pyarrow_table()["v"].to_pylist()}

    assert _behind(lake, job, unread=lambda *_: first)._vacuum(lake.table.table)
    assert values() == {"old"}
    LocalFiles(maintenance_path(str(lake.root))).write("vacuumed.json", said)
    assert _behind(lake, job)._vacuum(lake.table.table)
    assert not any(one.exists() for one in files)
    assert lake.table.values("v") == {"new"}


def test_what_this_job_has_brought_back_is_nobody_else_s(lake):
    job = lake.job()
    lake.of(job)
    table = lake.table.table
    lake.table.append({"id": [1], "v": ["published"]})
    before = job.continued(table)
    lake.table.append({"id": [2], "v": ["torn"]})
    job.continued(table)
    DeltaTable(lake.table.path).restore(before)
    with pytest.raises(ForeignCommitError, match="RESTORE"):
        job.continued(table)
    job.brought_back(table)
    assert job.continued(table) == before + 2
