"""`lease`: one holder, found gone by its silence, and never by anybody's wall clock."""

import json
import threading
from dataclasses import asdict, replace

import pytest
from py4j.protocol import Py4JError

from ingest.lake.files import lease as module
from ingest.lake.files.lease import Lease, LeaseLostError, Owner
from ingest.lake.files.storage import LocalFiles
from ingest.model.errors import IngestError
from tests.support.disk import no_room


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "BEAT_EVERY", 0.1)
    monkeypatch.setattr(module, "EXPIRES_AFTER", 1.0)


@pytest.fixture
def make(tmp_path):
    made = []

    def lease():
        made.append(Lease(LocalFiles(str(tmp_path)), lambda _: None))
        return made[-1]

    yield lease
    for one in made:
        one._ended.set()


def acquire(lease, *, standby=False):
    return lease.acquire(standby=standby, stop=threading.Event())


def test_the_second_job_is_refused_while_the_first_lives_and_admitted_after_its_release(make):
    first = make()
    assert acquire(first).number == 1
    with pytest.raises(IngestError, match="already keeps this lake"):
        acquire(make())
    first.release()
    term = acquire(make())
    assert (term.number, term.fence) == (2, False)


def _held_by(tmp_path, owner):
    (tmp_path / "1.json").write_text(json.dumps(asdict(owner)))
    (tmp_path / "1.beat").write_text("7")


def test_a_process_that_is_gone_from_this_machine_is_succeeded_at_once(make, tmp_path):
    _held_by(tmp_path, replace(Owner.this_process(), pid=2**22 + 1))
    term = acquire(make())
    assert (term.number, term.fence) == (2, False)


def test_a_holder_elsewhere_that_does_not_move_is_succeeded_and_fenced(make, tmp_path):
    _held_by(tmp_path, replace(Owner.this_process(), host="elsewhere"))
    term = acquire(make())
    assert (term.number, term.fence) == (2, True)


def test_a_process_of_another_container_is_not_taken_for_gone(make, tmp_path):
    other = replace(Owner.this_process(), pid=2**22 + 1, boot="another space of process ids")
    assert not other.is_surely_gone(Owner.this_process())


def test_a_holder_that_was_succeeded_may_not_commit_any_more(make):
    first = make()
    acquire(first)
    first.refuse_lost()
    first._ended.set()  # it stands still, as under SIGSTOP
    second = acquire(make(), standby=True)
    assert (second.number, second.fence) == (2, True)
    with pytest.raises(LeaseLostError):
        first.refuse_lost()
    first.release()
    assert acquire_refused(make)


def acquire_refused(make):
    with pytest.raises(IngestError):
        acquire(make())
    return True


def test_what_earlier_holders_were_writing_when_they_died_goes_and_a_competitor_s_stays(
    make, tmp_path
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
    assert acquire(make()).number == 5
    names = {one.name for one in tmp_path.iterdir()}
    assert names == {"4.json", "4.beat", "5.json", "5.beat", *mine}


def test_a_lease_that_cannot_be_given_back_hides_nothing_and_is_said(tmp_path):
    said = []
    lease = Lease(LocalFiles(str(tmp_path)), said.append)
    acquire(lease)
    with no_room():
        lease.release()
    assert said == ["the lease was not given back: File too large"]
    assert not list(tmp_path.glob("*.part"))


def test_a_beat_that_cannot_be_written_leaves_nothing_behind_and_the_next_one_is(make, tmp_path):
    lease = make()
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
    lease = Lease(Gone(), said.append, 3)
    ended = iter([False, False, True])
    monkeypatch.setattr(lease._ended, "wait", lambda _: next(ended))
    lease._keep_beating()
    lease.release()
    assert said == ["the lease was not given back: Py4JError"]


def test_of_many_at_once_one_gets_the_lease(make, monkeypatch):
    monkeypatch.setattr(module, "EXPIRES_AFTER", 30.0)
    leases = [make() for _ in range(8)]
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
