"""Whether a flow runs is asked of its lease: who was killed has said last that it runs."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_now import FlowLooks, judged
from ingest.flows.flow_record import FlowStatus
from ingest.lake.files import lease as lease_module
from ingest.lake.files.lease import Lease
from ingest.lake.files.lease_holder import Holder
from ingest.lake.files.owner import Owner
from ingest.lake.files.storage import files_at
from ingest.testing.lake import pipeline_at
from tests.unit.lake.test_lease import NOBODY

FLOWS = {
    "f": {
        "sql": "f.sql",
        "inputs": {"w": {"files": "/in", "format": "text"}},
        "sinks": [{"console": True}],
    }
}
RUNS = FlowStatus("runs", 3, rows=12)


@pytest.mark.parametrize(
    ("held", "state"),
    [("runs", "runs"), ("none", "died"), ("gone", "died"), ("silent", "silent")],
)
def test_who_says_that_it_runs_is_believed_while_its_lease_is_held(held, state):
    found = judged(RUNS, Holder(held, 2, Owner.this_process()))
    assert (found.state, found.rows) == (state, 12)
    assert bool(found.error) == (state != "runs")
    for last in ("failed", "ended"):
        said = FlowStatus(last, error="why")
        assert judged(said, Holder(held)) == said


def test_a_flow_that_was_killed_has_died_and_one_that_lives_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "BEAT_EVERY", 0.05)
    pipeline = pipeline_at(tmp_path / "lake", flows=FLOWS)
    folder = FlowFolder(pipeline, "f")
    assert FlowLooks.first(pipeline).status() == {}
    lease = Lease(files_at(folder.lease), lambda _: None)
    lease.acquire(standby=False, stop=threading.Event())
    try:
        folder.say(RUNS)
        assert FlowLooks.first(pipeline).status() == {"f": RUNS}
    finally:
        lease.release()
    Path(folder.lease, "2.json").write_text(replace(Owner.this_process(), pid=NOBODY).as_json())
    Path(folder.lease, "2.beat").write_text("7")
    assert FlowLooks.first(pipeline).status()["f"].state == "died"
