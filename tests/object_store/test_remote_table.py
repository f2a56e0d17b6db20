"""A table in an object store, as the small lane writes it: the same rows as on a disk, and nobody's commit is lost."""

import errno
import uuid
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake.delta import delta_log, parquet_footers
from ingest.lake.delta.delta_rs_table import write_new
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.files import file_cache, table_files
from ingest.lake.files.file_cache import FileCache
from ingest.lake.files.object_files import LakeAwayError, ObjectFiles
from ingest.lake.files.table_files import RemoteTable
from ingest.maintenance.compaction import files, unpacked
from ingest.model.names import Marker
from tests.support import faulty_http, s3
from tests.support.direct_lake import DirectLake
from tests.support.remote_lake import RemoteLake, held

COLUMNS = {"id": pa.int32(), "v": pa.string()}
IDS = st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True)
TEXT = st.sampled_from(["a", "ä", "\u2028", "'", "", "x" * 40])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("merge"), IDS, TEXT, st.sampled_from("ud")),
        st.tuples(st.just("mark"), IDS, TEXT),
        st.tuples(st.sampled_from(["compact", "cut", "vacuum", "checkpoint", "begin anew"])),
    ),
    min_size=4,
    max_size=12,
)


def uri():
    return f"s3a://{s3.BUCKET}/{uuid.uuid4().hex}/t"


def step(lake, what, *said):
    if what == "merge":
        ids, text, op = said
        lake.merge({"id": ids, "v": [text] * len(ids)}, op)
    elif what == "mark":
        ids, text = said
        lake.mark({"id": ids, "v": [text] * len(ids)})
    elif what == "compact" and len(lake.table.state.files) > 1:
        lake.compact()
    elif what == "cut":
        delta_log.cut(lake.table.at, delta_log.newest(lake.table.at) - 3)
    elif what == "vacuum":
        lake.table.vacuum(24, lambda: None)
    elif what == "checkpoint":
        DeltaTable(lake.table.at.place).create_checkpoint()
    elif what == "begin anew" and isinstance(lake, RemoteLake):
        lake.open()


@settings(max_examples=8)
@given(steps=STEPS, room=st.sampled_from([0, 2**30]))
def test_it_holds_what_the_same_steps_make_on_a_disk(tmp_path_factory, store, steps, room):
    folder = tmp_path_factory.mktemp("both")
    with s3.environment(store.environment()):
        before = file_cache.of_this_process().most
        file_cache.of_this_process().most = room
        try:
            here, there = DirectLake(folder, COLUMNS), RemoteLake(uri(), folder, COLUMNS)
            for lake in (here, there):
                lake.append({"id": [1, 2, 3], "v": ["one", "two", None]})
                for one in steps:
                    step(lake, *one)
            assert held(there.uri) == held(here.path)
            assert there.table.version() == here.table.version()
            assert there.table.size()[1] == here.table.size()[1]
        finally:
            file_cache.of_this_process().most = before


def test_a_commit_behind_one_that_was_not_seen_is_refused(reached, tmp_path):
    one = RemoteLake(uri(), tmp_path, COLUMNS)
    one.append({"id": [1], "v": ["a"]})
    one.table.version()
    rows, version = one.rows({"id": [2], "v": ["b"]}), Marker(1, 99, 3).version
    with (
        one.table.identified("ingest/p/c/d.t/mirror", version, ""),
        one.table.scratch(()) as work,  # begun before the other one's commit
    ):
        write_new(work, rows)
        done = work.done(delta_log.now_ms())
        said = [{"commitInfo": {"timestamp": 1}}]
        assert delta_log.write(one.table.at, one.table.state.version + 1, said)
        with pytest.raises(ForeignCommitError):
            one.table.commit(work, *done, rows=1)
    assert [row["id"] for row in held(one.uri)] == [1]


def test_files_that_no_version_has_go_many_by_one_request_and_those_of_a_log_in_turn(store):
    place = uri()
    names = [f"part-{one}.parquet" for one in range(60)]
    with (
        faulty_http.before(store.port) as faulty,
        s3.environment(store.environment(faulty.endpoint)),
    ):
        table, files = table_files.at(place), ObjectFiles(place)
        for name in names[::2]:  # others are gone already
            files.write(name, "x")
        faulty.done.clear()
        table.drop(names, in_turn=False)
        assert len(faulty.done) == 1
        assert files.names("") == []
        faulty.done.clear()
        table.drop(["_delta_log/0.json", "_delta_log/1.json"])
        assert len(faulty.done) == 2


def test_files_that_are_not_here_are_chosen_by_their_footers_alone(reached, tmp_path):
    lake = RemoteLake(uri(), tmp_path, COLUMNS)
    for number in range(3):
        lake.merge({"id": [*range(number, 9_000, 3)], "v": ["äx" * 50] * 3_000})
    folder = tmp_path / "here"
    with lake.table.at.kept(lake.table.state.files):
        here = lake.table.at.folder
        expected = {
            one: parquet_footers.unpacked(one, (here / one).stat().st_size, partial(lake.table.at.part, one))
            for one in lake.table.state.files
        }  # fmt: skip
    elsewhere = RemoteTable(lake.table.at.place, FileCache(folder))
    lake.table.at = elsewhere
    assert unpacked(lake.table, files(lake.table, "id")) == expected
    assert min(expected.values()) > 10_000
    assert [*folder.rglob("*.parquet")] == [], "no whole file was fetched"


@pytest.mark.parametrize("fault", ["lost", "busy", "slow"])
def test_what_becomes_of_answers_adds_nothing_and_loses_nothing(store, tmp_path, fault):
    with (
        faulty_http.before(store.port) as faulty,
        s3.environment(store.environment(faulty.endpoint)),
    ):
        lake = RemoteLake(uri(), tmp_path, COLUMNS)
        turns = iter(range(10**6))
        faulty.fault = lambda method, path: (
            fault if method == "PUT" and next(turns) % 3 == 0 else "none"
        )
        for number in range(4):
            lake.merge({"id": [number, number + 1], "v": ["x", f"by {number}"]})
        faulty.fault = lambda method, path: "none"
        assert [(row["id"], row["v"]) for row in held(lake.uri, store.environment())] == [
                (0, "x"), (1, "x"), (2, "x"), (3, "x"), (4, "by 3")
            ]  # fmt: skip
        assert lake.table.version() == 4
    assert fault in {one for _, _, one in faulty.done}


def test_a_store_that_goes_away_in_the_middle_is_said_and_the_step_can_be_made_again(
    store, tmp_path
):
    with s3.environment(store.environment()):
        lake = RemoteLake(uri(), tmp_path, COLUMNS)
    with s3.environment(store.environment("http://127.0.0.1:1")):
        lake.open()
        with pytest.raises((LakeAwayError, DeltaError)):
            lake.append({"id": [1], "v": ["a"]})
    with s3.environment(store.environment()):
        lake.open()
        lake.append({"id": [1], "v": ["a"]})
        assert [row["id"] for row in held(lake.uri)] == [1]


def test_what_is_in_use_stays_in_the_cache_and_of_the_rest_what_was_used_last(tmp_path):
    cache = FileCache(tmp_path, most=20)
    fetched = []

    def fetch(name, to):
        fetched.append(name)
        to.write_bytes(b"x" * 10)

    with cache.kept("s3://a", ["1", "2", "3", "4"], fetch):
        assert all((cache.folder_of("s3://a") / name).exists() for name in "1234")
    assert sorted(file.name for file in cache.folder_of("s3://a").iterdir()) == ["3", "4"]
    with cache.kept("s3://a", ["3"], fetch), cache.kept("s3://b", ["3", "5"], fetch):
        assert (cache.folder_of("s3://a") / "3").exists()
    assert fetched.count("3") == 2  # of each table its own
    assert len(fetched) == 6


def test_of_files_that_nobody_uses_any_more_nothing_stays_in_memory(tmp_path):
    """Each commit brings new names, and a job runs for months."""
    cache = FileCache(tmp_path, most=0)

    def fetch(name, to):
        if name == "gone":
            raise FileNotFoundError(name)
        to.write_bytes(b"x")

    for commit in range(20):
        names = [f"{commit}-{one}" for one in range(5)]
        with cache.kept("s3://a", ["0-0"], fetch), cache.kept("s3://a", ["0-0", *names], fetch):
            assert len(cache._used) == (6 if commit else 5)
    with pytest.raises(FileNotFoundError), cache.kept("s3://a", ["gone"], fetch):
        pass
    assert (len(cache._used), len(cache._sizes)) == (0, 0)


def test_a_file_that_a_cleaner_removed_is_fetched_again(tmp_path):
    cache = FileCache(tmp_path)

    def fetch(name, to):
        to.write_bytes(b"x")

    with cache.kept("s3://a", ["1"], fetch):
        pass
    (cache.folder_of("s3://a") / "1").unlink()
    with cache.kept("s3://a", ["1"], fetch):
        assert (cache.folder_of("s3://a") / "1").exists()


def test_a_full_disk_is_given_what_is_not_in_use(tmp_path):
    def fetch_into(cache, name, to):
        if name == "2" and (cache.folder_of("s3://a") / "1").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        to.write_bytes(b"x")

    cache = FileCache(tmp_path)
    fetch = partial(fetch_into, cache)
    with cache.kept("s3://a", ["1"], fetch):
        pass
    with cache.kept("s3://a", ["2"], fetch):
        assert [one.name for one in cache.folder_of("s3://a").iterdir()] == ["2"]
    other = FileCache(tmp_path / "other")
    fetch_there = partial(fetch_into, other)
    there = partial(other.kept, "s3://a", fetch=fetch_there)
    with pytest.raises(OSError, match="No space"), there(["1"]), there(["2"]):
        pass  # what is in use is not given
