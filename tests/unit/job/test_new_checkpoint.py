"""A checkpoint that is replaced, by a job that is killed between any two of the files that it removes or writes."""

import json
import shutil
from itertools import count
from types import SimpleNamespace

import pytest

from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.model.names import IDENTITY_FILE
from ingest.start import new_checkpoint
from ingest.start.gather_facts import checkpoint_facts
from ingest.start.start_decision import Start, decide
from tests.support.sound_start import IDLE, PLACE, entry, facts
from tests.support.untouched_stream import streaming


class Killed(Exception):
    pass


class Dying(LocalFiles):
    """Of a process that has so many steps left: a file that is removed, or written. Whole folders go as Hadoop's go: file by file, in any order."""

    def __init__(self, root, order):
        super().__init__(str(root))
        self.root, self.order, self.left = root, order, 10**6

    def delete(self, name):
        place = self.root / name
        files = [one for one in place.rglob("*") if one.is_file()] if place.is_dir() else [place]
        for file in sorted(files, key=str, reverse=self.order == "last first"):
            self.step()
            file.unlink(missing_ok=True)
        if place.is_dir():
            shutil.rmtree(place)

    def write(self, name, text, *, lasting=True):
        self.step()
        super().write(name, text, lasting=lasting)

    def step(self):
        if not self.left:
            raise Killed
        self.left -= 1


def filled(files):
    """By three batches, of which the last is not over; what is read begins at 3."""
    offsets = json.dumps({PLACE[0]: {"0": 3}})
    files.write(IDENTITY_FILE, "p\nold\nstateless\n")
    files.write("metadata", '{"id": "x"}')
    files.write("sources/0/0", f"v1\n{offsets}")
    for number in range(3):
        files.write(f"offsets/{number}", f"v1\n{{}}\n{offsets}")
    for number in range(2):
        files.write(f"commits/{number}", "v1\n{}")
    files.write("state/0/0/1.delta", "")


@pytest.mark.parametrize("order", ["first first", "last first"])
@pytest.mark.parametrize("newest", [entry(), None], ids=["of a lake", "before the first batch"])
def test_one_that_is_half_gone_is_never_another_job_s_and_never_gone_on_with(
    tmp_path, monkeypatch, order, newest
):
    monkeypatch.setattr("ingest.job.streaming.broker.partitions", lambda _: [PLACE, IDLE])
    committer = SimpleNamespace(refuse_lost=lambda: None)
    run, batches = streaming(committer=committer), SimpleNamespace(newest=newest)
    run.pipeline.name = "p"
    known = {} if newest else {"newest": None, "history": [], "lake": [], "kafka": {}}

    def replace(files):
        anew = facts(checkpoint=checkpoint_facts(files), **known)
        start = decide(anew)
        assert isinstance(start, Start), start
        if start.resume:
            assert files.names("") == [IDENTITY_FILE], "only one that has begun nothing"
        else:
            run._checkpoint(files, batches, start, anew)

    for steps in count():
        files = Dying(tmp_path / str(steps), order)
        filled(files)
        files.left = steps
        try:
            replace(files)
        except Killed:
            files.left = 10**6
            replace(files)
            assert files.names("") == [IDENTITY_FILE]
            assert checkpoint_facts(files).id != "old"
        else:
            break
    assert steps > 10


def test_of_a_checkpoint_that_is_its_successor_s_by_now_a_job_removes_no_more(tmp_path):
    """It was suspended between two of its files."""
    files, asked = Dying(tmp_path, "first first"), count()
    filled(files)

    def refuse_lost():
        if next(asked) == 2:
            filled(files)
            raise LeaseLostError("another")

    with pytest.raises(LeaseLostError):
        new_checkpoint.begin(files, "p", "stateless", refuse_lost)
    assert {"offsets", "commits", "state", IDENTITY_FILE} <= {*files.names("")}
