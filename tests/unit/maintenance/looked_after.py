"""A lake that is looked after: one table, and the jobs that take its lease one after the other."""

import json
import os
import threading
import time

import pyarrow as pa

from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import unread
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import LocalFiles
from ingest.maintenance.schedule import Maintenance
from ingest.model.names import (
    lease_path,
    maintenance_path,
    scratch_path,
)
from ingest.schema.change_log import LOG_PROPERTY
from tests.support.direct_lake import DirectLake

HOURS = 24
DUTIES = ("put in order", "rid of old versions", "rid of the log of old versions")


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
        self.table.table = unread(self.table.table, str(self.root), committer.term)

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

    def aged(self, hours, *, said=True, below=1_000_000):
        """All commits so far; and so they say themselves."""
        at = time.time() - hours * 3600
        for one in self.commits.glob("*.json"):
            if int(one.stem) >= below:
                continue
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
