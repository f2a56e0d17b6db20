"""`lease_holder`: whether a job keeps the lake, for whoever only looks."""

import json
import threading
from dataclasses import replace

import pytest

from ingest.lake.files import lease as lease_module
from ingest.lake.files.lease import Lease
from ingest.lake.files.lease_folder import look
from ingest.lake.files.lease_holder import SILENT_AFTER, holder
from ingest.lake.files.owner import Owner
from ingest.lake.files.storage import LocalFiles
from tests.unit.lake.test_lease import NOBODY

ELSEWHERE = replace(Owner.this_process(), host="elsewhere", boot="another")


@pytest.fixture
def files(tmp_path):
    return LocalFiles(str(tmp_path))


def held_by(files, owner, beat="7", term=3):
    files.write(f"{term}.json", owner.as_json())
    files.write(f"{term}.beat", beat)


def test_a_job_that_lives_is_seen_by_its_counter_and_gone_once_it_has_given_the_lease_back(
    files, monkeypatch
):
    monkeypatch.setattr(lease_module, "BEAT_EVERY", 0.05)
    lease = Lease(files, lambda _: None)
    assert holder(files, look(files)).state == "none"
    lease.acquire(standby=False, stop=threading.Event())
    try:
        found = holder(files, look(files))
        assert (found.state, found.term, found.owner) == ("runs", 1, Owner.this_process())
        assert found.sentence == f"{Owner.this_process()} keeps the lake (term 1)"
    finally:
        lease.release()
    assert holder(files, look(files)).as_json() == {"state": "none", "term": 1}


def test_a_counter_that_has_moved_since_the_first_look_needs_no_second_wait(files):
    held_by(files, ELSEWHERE, "7")
    first = look(files)
    held_by(files, ELSEWHERE, "8")
    pauses = []
    assert holder(files, first, pauses.append).state == "runs"
    held_by(files, ELSEWHERE, "0", term=4)
    assert holder(files, first, pauses.append).term == 4
    assert pauses == []


def test_a_counter_that_stands_still_is_called_silent_after_three_beats_and_not_dead(files):
    held_by(files, ELSEWHERE)
    pauses = []
    found = holder(files, look(files), pauses.append)
    assert found.state == "silent"
    assert sum(pauses) == pytest.approx(SILENT_AFTER)
    assert "process" in found.sentence
    assert "has not moved for 6 s" in found.sentence


def test_a_process_that_has_ended_on_this_machine_is_known_at_once(files):
    held_by(files, replace(Owner.this_process(), pid=NOBODY))
    pauses = []
    found = holder(files, look(files), pauses.append)
    assert (found.state, pauses) == ("gone", [])
    assert json.dumps(found.as_json())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 0}'])
def test_a_holder_whom_its_file_does_not_name_is_watched_all_the_same(files, text):
    held_by(files, ELSEWHERE)
    files.write("3.json", text)
    found = holder(files, look(files), lambda _: None)
    assert (found.state, found.owner) == ("silent", None)
    assert found.sentence.startswith("a job holds the lease")
