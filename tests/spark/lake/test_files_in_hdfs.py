"""Small files in HDFS, against a real name node: whole or not there, and of writers of one name one alone has made it."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import example, given, settings

from ingest.job.stream_failure import again, is_everybodys
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.lake.files.lease import Lease
from ingest.lake.files.object_files import LakeAwayError
from ingest.lake.files.storage import LocalFiles, files_at
from ingest.lake.manifest import next_entry
from ingest.lake.manifest.manifest_reader import newest_term
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.lake.ownership import claim, refuse_other
from ingest.maintenance import vacuum_times
from ingest.maintenance.by_spark import SparkUpkeep
from ingest.maintenance.vacuum_times import VacuumTimes
from ingest.model.errors import IngestError
from ingest.model.names import INTERNAL_FOLDER, Role, app_id
from ingest.testing.lake import pipeline_at
from tests.support import hdfs
from tests.support.small_files import STEPS

pytestmark = (
    pytest.mark.long
)  # ten seconds until it is up; a lake in it: tests/integration/test_lake_in_hdfs.py

WRITERS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = hdfs.start(tmp_path_factory.mktemp("hdfs"))
    yield running
    running.stop()


@pytest.fixture
def root(server):
    return f"{server.uri}/{uuid.uuid4().hex}"


@settings(max_examples=40)
@given(steps=STEPS)
@example(steps=[("create", "a/b", "1"), ("create", "a/b", "2"), ("read", "a/b"), ("names", "a")])
def test_they_answer_as_files_on_a_disk_do(spark, tmp_path_factory, server, steps):
    here = LocalFiles(str(tmp_path_factory.mktemp("files")))
    there = files_at(f"{server.uri}/{uuid.uuid4().hex}")
    assert isinstance(there, HadoopFiles)
    for what, *said in steps:
        on_disk, in_hdfs = (getattr(files, what)(*said) for files in (here, there))
        assert on_disk == in_hdfs, (what, said)


def test_of_writers_that_make_one_file_one_alone_does_and_all_read_it_whole(spark, root):
    files = [files_at(root) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for race in range(25):
            gate = threading.Barrier(WRITERS)

            def make(one, race=race, gate=gate):
                gate.wait()
                return files[one].create(f"{race}.json", f"by {one}"), files[one].read(
                    f"{race}.json"
                )

            came = list(pool.map(make, range(WRITERS)))
            won = [one for one, (made, _) in enumerate(came) if made]
            assert len(won) == 1
            assert {text for _, text in came} == {f"by {won[0]}"}
    assert files[0].names("") == sorted(f"{race}.json" for race in range(25))


def test_who_reads_while_it_is_written_anew_sees_the_former_text_or_the_new_one(spark, root):
    files, done, seen = files_at(root), threading.Event(), set()
    files.write("one.json", "0")

    def read():
        while not done.is_set():
            seen.add(files.read("one.json"))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 120):
        files.write("one.json", str(number))
    done.set()
    reader.join()
    assert seen <= {str(number) for number in range(120)}
    assert len(seen) > 5


def test_a_path_without_its_name_node_is_there_by_spark_s_own_setting(spark, server):
    spark.conf.set("fs.defaultFS", server.uri)
    try:
        files = files_at("hdfs:///without")
        assert files.create("1.json", "one")
        files.write("1.json", "two")
        assert files.names("") == ["1.json"]
    finally:
        spark.conf.unset("fs.defaultFS")
    assert files_at(f"{server.uri}/without").read("1.json") == "two"


def test_a_lease_there_has_one_holder(spark, root):
    stop = threading.Event()
    first, second = (Lease(files_at(root), lambda said: None) for _ in range(2))
    assert first.acquire(standby=False, stop=stop) is not None
    with pytest.raises(IngestError, match="E-LEASE-HELD"):
        second.acquire(standby=False, stop=stop)
    first.release()
    assert second.acquire(standby=False, stop=stop) is not None
    second.release()


@pytest.fixture
def published(spark, root):
    """A lake there, of which a batch was published under term 57."""
    entry = replace(next_entry.before_the_first("abc"), batch_id=1, term=57)
    app = app_id("p", "abc", INTERNAL_FOLDER, Role.MANIFEST)
    Publisher(spark, root, Committer(57)).add(entry, Identity(app, 1))
    return root


def test_a_lease_there_whose_folder_is_gone_begins_above_what_the_manifest_names(published):
    """By a lower term no table takes a commit, and each start would say that another job had taken over."""
    files, said, stop = files_at(f"{published}/_ingest/lease"), [], threading.Event()
    lease = Lease(files, said.append, written=lambda: newest_term(published))
    term = lease.acquire(standby=False, stop=stop)
    lease.release()
    assert term.number > 57
    assert term.fence
    assert "it is lost or an older copy" in said[0]
    assert newest_term(f"{published}/none") == 0


def test_a_table_there_is_put_in_order_and_rid_of_old_versions_by_spark(spark, root, monkeypatch):
    monkeypatch.setattr(vacuum_times, "_AT_MOST_EVERY", 0.0)
    path, said = f"{root}/d/t", []
    for start in range(0, 20, 2):
        rows = spark.range(start, start + 2, 1, 1)
        rows.write.format("delta").mode("append").save(path)
    job, times = SparkUpkeep(spark, Committer(1), "ingest/p///upkeep", root), VacuumTimes(root)
    assert job.compact(path, 10, said.append)
    assert not job.compact(path, 11, said.append), "not so soon again"
    assert not job.vacuum(path, 0, times, said.append), "nothing of a table that is new is old"
    assert job.vacuum(path, 0, VacuumTimes(root), said.append), "also over restarts"
    assert [one.what for one in said] == ["ordered", "vacuumed"]
    held = spark.read.format("delta").load(path)
    assert len(held.inputFiles()) == 1
    assert [name for name in files_at(path).names("") if name.endswith(".parquet")] == [
        held.inputFiles()[0].rpartition("/")[2]
    ]
    assert sorted(row.id for row in held.collect()) == list(range(20))


def test_a_name_node_that_is_away_is_said_in_a_sentence_and_who_stands_by_waits_for_it(
    spark, server, root, tmp_path
):
    said, stop = [], threading.Event()
    holder = Lease(files_at(f"{root}/lease"), said.append)
    assert holder.acquire(standby=False, stop=stop)
    standing_by = Lease(files_at(f"{root}/lease"), said.append)
    rows = spark.range(10)
    rows.write.format("delta").save(f"{root}/table")
    with ThreadPoolExecutor(1) as pool:
        server.stop_names()
        try:
            waits = pool.submit(standing_by.acquire, standby=True, stop=stop)
            with pytest.raises(LakeAwayError, match="E-LAKE-AWAY|cannot be reached") as away:
                files_at(root).read("a.json")
            with pytest.raises(LakeAwayError):  # were it none, a term could be taken that is over
                newest_term(root)
            assert again(away.value, tmp_path / "log").code == "E-LAKE-AWAY"
            # A table whose turn it is then is not set aside for it.
            with pytest.raises(Exception) as failed:
                rows.write.format("delta").mode("append").save(f"{root}/table")
            assert is_everybodys(failed.value), repr(failed.value)[:3000]
            until = time.monotonic() + 120
            while not any("cannot be reached" in one for one in said):
                assert time.monotonic() < until, said
                time.sleep(0.2)
        finally:
            server.start_names()
        holder.release()
        assert waits.result(120).number == 2
    standing_by.release()
    assert spark.read.format("delta").load(f"{root}/table").count() == 10


def test_a_lake_in_hdfs_says_whose_it_is_and_refuses_all_others(spark, root):
    refuse_other(pipeline_at(root, "q"))
    claim(pipeline_at(root, "p"))
    claim(pipeline_at(root, "p"))
    for asks in (refuse_other, claim):
        with pytest.raises(IngestError, match="belongs to the pipeline 'p'"):
            asks(pipeline_at(root, "q"))
    assert files_at(root).names("_ingest/owner") == ["pipeline.json"]
