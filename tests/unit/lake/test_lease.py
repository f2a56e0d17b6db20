"""`lease`: one holder, found gone by its silence, and never by anybody's wall clock."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from py4j.protocol import Py4JError

from ingest.lake.files import lease as module
from ingest.lake.files.lease import Lease, LeaseLostError
from ingest.lake.files.object_files import LakeAwayError
from ingest.lake.files.owner import Owner
from ingest.lake.files.storage import LocalFiles
from ingest.model.errors import IngestError
from tests.support.disk import no_room
from tests.unit.lake.conftest import acquire

NOBODY = 2**22 + 1
"""No process has this id: Linux has none above 2^22."""


pytestmark = pytest.mark.usefixtures("quick_lease")


def test_the_second_job_is_refused_while_the_first_lives_and_admitted_after_its_release(make_lease):
    first = make_lease()
    assert acquire(first).number == 1
    with pytest.raises(IngestError, match="already keeps this lake"):
        acquire(make_lease())
    first.release()
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, False)


def _held_by(tmp_path, owner):
    _left(tmp_path, owner.as_json().encode())


def _left(tmp_path, lease, beat=b"7"):
    (tmp_path / "1.json").write_bytes(lease)
    (tmp_path / "1.beat").write_bytes(beat)


def test_a_process_that_is_gone_from_this_machine_is_succeeded_at_once(make_lease, tmp_path):
    _held_by(tmp_path, replace(Owner.this_process(), pid=NOBODY))
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, False)


def test_a_holder_elsewhere_that_does_not_move_is_succeeded_and_fenced(make_lease, tmp_path):
    _held_by(tmp_path, replace(Owner.this_process(), host="elsewhere"))
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, True)


HOLDER = """
import sys, threading
from ingest.lake.files import lease
from ingest.lake.files.storage import LocalFiles
lease.BEAT_EVERY = 0.1
print(lease.Lease(LocalFiles(sys.argv[1]), print).acquire(standby=False, stop=threading.Event()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another job, alive and holding the lease."""
    found = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert "Term(number=1" in found.stdout.readline()
    yield found
    found.kill()
    found.communicate()


@pytest.mark.parametrize("step", [-3600, 5, 3600])
def test_a_clock_that_is_set_takes_the_lease_from_no_living_holder(
    make_lease, holder, monkeypatch, step
):
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + step)
    monkeypatch.setattr(psutil, "boot_time", lambda: 1e9 + step)
    monkeypatch.setattr(module, "EXPIRES_AFTER", 60.0)  # or it beats first
    with pytest.raises(IngestError, match=f"process {holder.pid} on"):
        acquire(make_lease())
    holder.kill()
    holder.wait()
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, False)


def test_what_an_earlier_version_has_left_says_whose_it_was_and_nobody_is_gone_by_its_clock(
    make_lease, tmp_path
):
    here = Owner.this_process()  # which runs, and did not begin at this time of day
    old = {"host": here.host, "boot": here.boot, "pid": here.pid, "started": 1_700_000_000.25}
    _left(tmp_path, json.dumps(old).encode())
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, True)


def test_of_an_earlier_version_s_holder_no_process_is_left(make_lease, tmp_path):
    here = Owner.this_process()
    old = {"host": here.host, "boot": here.boot, "pid": NOBODY, "started": 1_700_000_000.25}
    _left(tmp_path, json.dumps(old).encode())
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, False)


def test_fields_of_a_later_version_are_passed_over(make_lease, tmp_path):
    held = json.loads(replace(Owner.this_process(), pid=NOBODY).as_json())
    _left(tmp_path, json.dumps({**held, "since": "later"}).encode())
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, False)


unreadable = pytest.mark.parametrize(
    "left",
    [b"", b'{"host": "a", "bo', b"\0" * 64, b"\xff\xfe", b"[]", b'{"host": "a", "boot": "b", "pid": 0}'],
    ids=["empty", "cut off", "zeros", "no text", "no owner", "no process"],
)  # fmt: skip


@unreadable
def test_a_lease_that_a_power_cut_has_torn_is_that_of_somebody_who_may_live(
    make_lease, tmp_path, left
):
    _left(tmp_path, left, beat=left)
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, True)


@unreadable
def test_whoever_holds_it_by_a_torn_file_and_moves_is_not_succeeded(make_lease, tmp_path, left):
    first = make_lease()
    acquire(first)
    (tmp_path / "1.json").write_bytes(left)
    with pytest.raises(IngestError) as refused:
        acquire(make_lease())
    assert "a job whose file in the lease's folder cannot be read (term 1)" in refused.value.what


def test_a_successor_whose_file_is_torn_is_one_all_the_same(make_lease, tmp_path):
    first = make_lease()
    acquire(first)
    (tmp_path / "2.json").write_bytes(b'{"ho')
    with pytest.raises(LeaseLostError, match="cannot be read"):
        first.refuse_lost()


class Watched(LocalFiles):
    """The holder's counter, which moves while the watcher is suspended: right after its third look."""

    looks = 0

    def read(self, name):
        if name == "1.beat":
            self.looks += 1
            return "7" if self.looks <= 3 else "8"
        return super().read(name)


def test_while_the_watcher_is_suspended_nobody_is_silent(tmp_path, monkeypatch):
    files = Watched(str(tmp_path))
    _held_by(tmp_path, replace(Owner.this_process(), host="elsewhere"))
    monkeypatch.setattr(time, "monotonic", lambda: 3600.0 * (files.looks > 2))
    with pytest.raises(IngestError, match="already keeps this lake"):
        acquire(Lease(files, lambda _: None))


def test_a_holder_that_was_succeeded_may_not_commit_any_more(make_lease):
    first = make_lease()
    acquire(first)
    first.refuse_lost()
    first._ended.set()  # it stands still, as under SIGSTOP
    second = acquire(make_lease(), standby=True)
    assert (second.number, second.fence) == (2, True)
    with pytest.raises(LeaseLostError):
        first.refuse_lost()
    first.release()
    assert acquire_refused(make_lease)


def acquire_refused(make_lease):
    with pytest.raises(IngestError):
        acquire(make_lease())
    return True


def test_what_earlier_holders_were_writing_when_they_died_goes_and_a_competitor_s_stays(
    make_lease, tmp_path
):
    _held_by(tmp_path, replace(Owner.this_process(), pid=2**22 + 1))
    (tmp_path / "1.beat").rename(tmp_path / "4.beat")
    (tmp_path / "1.json").rename(tmp_path / "4.json")
    left = [
        "2.json",
        "3.beat",
        "3.beat.part",
        "3.beat.0123456789ab.part",
        "4.beat.0123456789ab.part",
    ]
    mine = ["5.json.0123456789ab.part", "6.json.0123456789ab.part"]
    for name in (*left, *mine):
        (tmp_path / name).write_text("")
    assert acquire(make_lease()).number == 5
    names = {one.name for one in tmp_path.iterdir()}
    assert names == {"4.json", "4.beat", "5.json", "5.beat", *mine}


class AwayBehindTheWin(LocalFiles):
    """Does not answer right after the next term's file was made: to the first beat, or to who tidies up."""

    def __init__(self, root, to):
        super().__init__(root)
        self.to, self.away = to, 0

    def create(self, name, text):
        made = super().create(name, text)
        self.away = int(made)
        return made

    def write(self, name, text, *, lasting=True):
        self._answers("beat")
        super().write(name, text, lasting=lasting)

    def names(self, folder):
        if threading.current_thread().name != "lease":
            self._answers("names")
        return super().names(folder)

    def _answers(self, asked):
        if self.away and asked == self.to:
            self.away = 0
            raise LakeAwayError("s3a://lake", "503 Slow Down")


@pytest.mark.parametrize("to", ["beat", "names"])
def test_who_has_won_a_term_has_it_although_the_store_is_away_right_then(tmp_path, to):
    _held_by(tmp_path, replace(Owner.this_process(), host="elsewhere"))
    lease, stop = Lease(AwayBehindTheWin(str(tmp_path), to), lambda _: None), threading.Event()
    ends = threading.Timer(4, stop.set)  # or it waits for itself for good
    ends.start()
    term = lease.acquire(standby=True, stop=stop)
    ends.cancel()
    assert term is not None
    assert (term.number, term.fence) == (2, True)
    time.sleep(0.3)
    assert (tmp_path / "2.beat").read_text().partition(" ")[0].isdigit()
    lease.release()


ELSEWHERE = replace(Owner.this_process(), host="elsewhere")


@pytest.mark.parametrize("fences", [True, False], ids=["fences", "does not"])
def test_who_gives_it_back_before_it_has_fenced_leaves_that_to_the_next(
    make_lease, tmp_path, fences
):
    """Whoever was before it may have been suspended in the middle of a commit all the while."""
    _held_by(tmp_path, ELSEWHERE)
    second = make_lease()
    assert acquire(second).fence
    if fences:
        second.fenced()
    second.release()
    term = acquire(make_lease())
    assert (term.number, term.fence) == (3, not fences)


@pytest.mark.parametrize("left", ["0 unfenced", "7 unfenced", None])
def test_who_has_died_before_it_has_fenced_leaves_that_to_the_next(make_lease, tmp_path, left):
    _held_by(tmp_path, replace(Owner.this_process(), pid=NOBODY))
    (tmp_path / "1.beat").unlink()
    if left is not None:
        (tmp_path / "1.beat").write_text(left)
    term = acquire(make_lease())
    assert (term.number, term.fence) == (2, True)


def test_the_counter_says_whether_a_fence_is_owed(make_lease, tmp_path):
    _held_by(tmp_path, ELSEWHERE)
    second = make_lease()
    acquire(second)
    assert (tmp_path / "2.beat").read_text().endswith(" unfenced")
    second.fenced()
    until = time.monotonic() + 3
    while not (beat := (tmp_path / "2.beat").read_text()).isdigit():
        assert time.monotonic() < until, beat
        time.sleep(0.02)


def test_a_lease_that_cannot_be_given_back_hides_nothing_and_is_said(tmp_path):
    said = []
    lease = Lease(LocalFiles(str(tmp_path)), said.append)
    acquire(lease)
    with no_room():
        lease.release()
    assert said == ["the lease was not given back: File too large"]
    assert not list(tmp_path.glob("*.part"))


def test_a_beat_that_cannot_be_written_leaves_nothing_behind_and_the_next_one_is(
    make_lease, tmp_path
):
    lease = make_lease()
    with no_room():
        with pytest.raises(OSError, match="File too large"):
            acquire(lease)
        assert not list(tmp_path.glob("*.part"))
    assert acquire(lease).number == 1


def test_a_lease_beyond_this_machine_survives_spark_s_death(monkeypatch):
    class Gone:
        """Spark is gone, through which the files were reached."""

        def names(self, folder):
            raise Py4JError("An error occurred while calling o7.exists")

        def write(self, name, text):
            raise Py4JError("An error occurred while calling o7.create")

    said = []
    lease = Lease(Gone(), said.append, _term=3)
    ended = iter([False, False, True])
    monkeypatch.setattr(lease._ended, "wait", lambda _: next(ended))
    lease._keep_beating()
    lease.release()
    assert said == ["the lease was not given back: Py4JError"]


def test_of_many_at_once_one_gets_the_lease(make_lease, monkeypatch):
    monkeypatch.setattr(module, "EXPIRES_AFTER", 30.0)
    leases = [make_lease() for _ in range(8)]
    terms, refused = [], []

    def compete(one):
        try:
            terms.append(acquire(one))
        except IngestError:
            refused.append(one)

    threads = [threading.Thread(target=compete, args=(one,)) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(terms) == 1
    assert len(refused) == 7
