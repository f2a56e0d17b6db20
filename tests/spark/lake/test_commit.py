"""`commit`: once per identity, and never silently skipped."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLake
from deltalake import write_deltalake

from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.names import Marker


@pytest.fixture
def table(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    return SparkTable(spark, path)


def delete(table, number):
    return lambda: table.delta().delete(f"id = {number}")


def ids(table):
    return sorted(row.id for row in table.frame().collect())


def test_a_commit_runs_once_per_identity_also_for_a_committer_without_memory(table):
    assert Committer().once(table, Identity("a", 1), delete(table, 0))
    assert not Committer().once(table, Identity("a", 1), delete(table, 1))
    assert ids(table) == [1, 2]


def test_two_steps_of_a_batch_both_commit(table):
    committer = Committer()
    assert committer.once(table, Identity("a", 1), delete(table, 0))
    assert committer.once(table, Identity("a", 2), delete(table, 1))
    assert ids(table) == [2]


def test_no_identity_stays_in_the_session_after_a_commit_or_a_failure(table):
    def fail():
        raise RuntimeError("boom")

    Committer().once(table, Identity("a", 1, 0, "note"), delete(table, 0))
    with pytest.raises(RuntimeError):
        Committer().once(table, Identity("a", 2), fail)
    for key in ("txnAppId", "txnVersion"):
        assert table.session.conf.get(f"spark.databricks.delta.write.{key}", None) is None
    assert table.session.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None


def test_a_command_that_leaves_no_marker_is_an_error(table):
    with pytest.raises(IngestError, match="without its marker"):
        Committer().once(table, Identity("a", 1), lambda: None)


def test_a_command_in_another_session_leaves_no_marker_and_is_an_error(table):
    other = SparkTable(sibling(table.session), table.path)
    with pytest.raises(IngestError, match="without its marker"):
        Committer().once(table, Identity("a", 1), delete(other, 0))


def in_the_middle(table, act, number):
    """A DELETE by Spark, before which, in the same commit of ours, something else happens to the table."""

    def both():
        act()
        delete(table, number)()

    return both


def test_what_another_adds_in_the_middle_of_a_commit_by_spark_is_not_taken_for_known(table):
    def append():
        write_deltalake(table.path, pa.table({"id": pa.array([9], pa.int64())}), mode="append")

    committer = Committer()
    with pytest.raises(ForeignCommitError, match="WRITE, version 1"):
        committer.once(table, Identity("a", 1), in_the_middle(table, append, 0))
    committer.begin_anew({table.path: table.version()})
    assert committer.once(table, Identity("a", 2), delete(table, 1))
    append()
    with pytest.raises(ForeignCommitError, match="WRITE"):
        committer.continued(table)


def test_files_put_together_in_the_middle_of_a_commit_by_spark_change_no_row(table):
    def optimize():
        DeltaLake(table.path).optimize.compact()

    table.session.range(5, 8).write.format("delta").mode("append").save(table.path)
    committer = Committer()
    assert committer.once(table, Identity("a", 1), in_the_middle(table, optimize, 0))
    assert ids(table) == [1, 2, 5, 6, 7]
    assert committer.continued(table) == table.version()


def test_threads_with_sessions_of_their_own_never_commit_under_each_other_s_identity(
    spark, tmp_path
):
    def work(index):
        path = str(tmp_path / f"t{index}")
        spark.range(4).write.format("delta").save(path)
        mine = SparkTable(sibling(spark), path)
        committer = Committer()
        for version in range(3):
            committer.once(mine, Identity(f"app{index}", version + 1), delete(mine, version))
        return ids(mine), mine.committed(f"app{index}")

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [([3], Marker(0, 3, 0).version)] * 3


def test_a_table_with_a_checkpoint_is_looked_at_in_a_thread_that_asks_spark_for_the_first_time(
    spark, tmp_path
):
    """A TRUNCATE right after a start, of a table whose newest commits are delta-rs's: Delta reads the checkpoint by the
    session that is active in the thread, and ours had none. Each batch failed with DELTA_SPARK_SESSION_NOT_SET.
    """
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    # delta-rs leaves no checksum file, from which Delta would know the markers without the checkpoint.
    write_deltalake(path, pa.table({"id": pa.array([7], pa.int64())}), mode="append")
    DeltaLake(path).create_checkpoint()
    table = SparkTable(sibling(spark), path)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(table.committed, "ingest/p/c/t/m").result() is None
    assert table.version() == 1
