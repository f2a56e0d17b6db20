"""Small files in an object store, against a real server, and what networks do to its answers."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings

from ingest.lake.files import object_files
from ingest.lake.files.lease import Lease, LeaseLostError
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError, ObjectFiles
from ingest.lake.files.storage import LocalFiles, files_at
from ingest.lake.ownership import claim, refuse_other
from ingest.model.errors import IngestError
from ingest.testing.lake import pipeline_at
from tests.support import faulty_http, s3
from tests.support.small_files import STEPS

WRITERS = 8


@pytest.fixture
def root(reached):
    return f"s3a://{s3.BUCKET}/{uuid.uuid4().hex}"


def test_of_writers_that_make_one_file_one_alone_does(root):
    """The server itself: everything else rests on that."""
    files = [ObjectFiles(root) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for race in range(40):
            gate = threading.Barrier(WRITERS)

            def make(one, race=race, gate=gate):
                gate.wait()
                return files[one].create(f"{race}.json", f"by {one}")

            won = [one for one, made in enumerate(pool.map(make, range(WRITERS))) if made]
            assert len(won) == 1
            assert files[0].read(f"{race}.json") == f"by {won[0]}"


@settings(max_examples=25)
@given(steps=STEPS)
@example(steps=[("write", "a/b", "\r\n"), ("read", "a/b")])
@example(steps=[("write", "a/b", ""), ("write", "a/c/d", ""), ("delete", "a/c/d"), ("names", "a")])
def test_they_answer_as_files_on_a_disk_do(tmp_path_factory, store, steps):
    with s3.environment(store.environment()):
        disk = tmp_path_factory.mktemp("files")
        here = LocalFiles(str(disk))
        there = ObjectFiles(f"s3://{s3.BUCKET}/{uuid.uuid4().hex}")
        for what, *said in steps:
            on_disk, in_store = (getattr(files, what)(*said) for files in (here, there))
            if what == "names":
                on_disk = [name for name in on_disk if has_files(disk / said[0] / name)]
            assert on_disk == in_store


def has_files(path):
    """A folder that is empty stands on a disk alone."""
    return path.is_file() or any(below.is_file() for below in path.rglob("*"))


def test_whose_answer_is_lost_sees_that_the_file_is_its_own(root, store):
    with faulty_http.before(store.port) as faulty:
        lose = ["lost"]
        faulty.fault = lambda method, path: lose.pop() if lose and method == "PUT" else "none"
        with s3.environment(store.environment(faulty.endpoint)):
            files = ObjectFiles(root)
            assert files.create("1.json", "ours")
            assert not files.create("1.json", "ours")
    assert ("PUT", "lost") in [(method, fault) for method, _, fault in faulty.done]


def test_a_put_that_is_refused_beside_one_under_way_is_not_taken_for_another_s(root, store):
    """Amazon answers 409 then, and says to try again: there is no file yet, and its maker may be we ourselves."""
    with faulty_http.before(store.port) as faulty:
        conflicts = ["conflict", "conflict"]
        faulty.fault = lambda method, path: (
            conflicts.pop() if conflicts and method == "PUT" else "none"
        )
        with s3.environment(store.environment(faulty.endpoint)):
            assert ObjectFiles(root).create("1.json", "ours")
        faulty.fault = lambda method, path: "conflict" if method == "PUT" else "none"
        with s3.environment(store.environment(faulty.endpoint)), pytest.raises(LakeAwayError):
            ObjectFiles(root).create("2.json", "ours")


def test_who_stands_by_waits_for_a_store_that_is_away(root, store):
    said, stop = [], threading.Event()
    holder = Lease(files_at(f"{root}/lease"), said.append)
    assert holder.acquire(standby=False, stop=stop)
    with faulty_http.before(store.port) as faulty:
        with s3.environment(store.environment(faulty.endpoint)):
            standing_by = Lease(files_at(f"{root}/lease"), said.append)
        away = [True] * 12
        faulty.fault = lambda method, path: "busy" if away and away.pop() else "none"
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(standing_by.acquire, standby=True, stop=stop)
            while away and not waits.done():
                stop.wait(0.2)
            holder.release()
            assert waits.result(60).number == 2
        standing_by.release()


def test_a_server_that_is_busy_is_asked_again_and_a_file_is_made_once(root, store):
    with faulty_http.before(store.port) as faulty:
        faults = ["none", "busy", "busy", "slow"]
        faulty.fault = lambda method, path: faults.pop() if faults else "none"
        with s3.environment(store.environment(faulty.endpoint)):
            files = ObjectFiles(root)
            assert files.create("1.json", "one")
            files.write("1.beat", "7")
            assert (files.read("1.json"), files.read("1.beat")) == ("one", "7")
            assert files.names("") == ["1.beat", "1.json"]


def test_a_store_that_is_away_or_does_not_know_us_is_said_in_a_sentence(root, store):
    with s3.environment(store.environment("http://127.0.0.1:1")), pytest.raises(LakeAwayError):
        object_files.refuse_unfit(root)
    wrong = store.environment() | {"AWS_SECRET_ACCESS_KEY": "canary"}
    with s3.environment(wrong), pytest.raises(LakeDeniedError) as denied:
        object_files.refuse_unfit(root)
    assert "canary" not in str(denied.value)
    with pytest.raises(LakeAwayError):
        object_files.refuse_unfit("s3a://no-such-bucket/lake")


@pytest.mark.parametrize("fault", ["obliging", "hasty"])
def test_a_store_that_does_not_hold_conditions_is_refused_and_nothing_stays_there(
    root, store, fault
):
    """Also one that looks first and writes then, which two puts one after the other do not meet."""
    with faulty_http.before(store.port) as faulty:
        faulty.fault = lambda method, path: fault
        with (
            s3.environment(store.environment(faulty.endpoint)),
            pytest.raises(IngestError) as refused,
        ):
            object_files.refuse_unfit(root)
    assert refused.value.code == "E-LAKE-UNSAFE"
    assert ObjectFiles(root).names("_ingest") == []


def test_a_fit_store_is_left_as_it_was(root):
    object_files.refuse_unfit(root)
    assert ObjectFiles(root).names("") == []


def test_a_fit_store_that_refuses_puts_beside_one_another_is_taken(root, store):
    with faulty_http.before(store.port) as faulty:
        conflicts = ["conflict"] * 12
        faulty.fault = lambda method, path: (
            conflicts.pop() if conflicts and method == "PUT" else "none"
        )
        with s3.environment(store.environment(faulty.endpoint)):
            object_files.refuse_unfit(root)
    assert not conflicts
    assert ObjectFiles(root).names("") == []


def test_two_jobs_never_hold_one_lake_and_the_one_that_was_taken_over_hears_it(root):
    said = []
    for _ in range(3):
        leases = [Lease(files_at(f"{root}/lease"), said.append) for _ in range(4)]
        gate = threading.Barrier(len(leases))

        def take(lease, gate=gate):
            gate.wait()
            try:
                return lease.acquire(standby=False, stop=threading.Event())
            except IngestError as failure:
                return failure.code

        with ThreadPoolExecutor(len(leases)) as pool:
            terms = list(pool.map(take, leases))
        assert sorted(map(str, terms)).count("E-LEASE-HELD") == len(leases) - 1
        (holder,) = [one for one, term in zip(leases, terms, strict=True) if term != "E-LEASE-HELD"]
        holder.refuse_lost()
        files = files_at(f"{root}/lease")
        newest = max(int(name.partition(".")[0]) for name in files.names(""))
        assert files.create(f"{newest + 1}.json", "{}")
        with pytest.raises(LeaseLostError):
            holder.refuse_lost()
        holder.release()
        files.write(f"{newest + 1}.beat", "released")


def test_a_lake_in_a_store_says_whose_it_is_and_refuses_all_others(root):
    refuse_other(pipeline_at(root, "q"))
    claim(pipeline_at(root, "p"))
    claim(pipeline_at(root, "p"))
    for asks in (refuse_other, claim):
        with pytest.raises(IngestError, match="belongs to the pipeline 'p'"):
            asks(pipeline_at(root, "q"))
    assert ObjectFiles(root).names("_ingest/owner") == ["pipeline.json"]
