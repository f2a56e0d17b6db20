"""Small files by Hadoop's interface alone, without a server: the calls that tests/spark/lake/test_files_in_hdfs.py has a name node answer."""

import threading
from functools import reduce

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

from ingest.job.stream_failure import is_everybodys
from ingest.lake.files.hadoop_files import HadoopFiles, failed
from ingest.lake.files.server_failure import is_away


def java_class(spark, name):
    return reduce(getattr, name.split("."), spark._jvm)


def test_a_file_is_made_once_written_anew_and_read(spark, tmp_path):
    files = HadoopFiles(spark, f"file:{tmp_path}")
    assert files.read("a/1.json") is None
    assert files.create("a/1.json", "one")
    assert not files.create("a/1.json", "another")
    assert files.read("a/1.json") == "one"
    files.write("a/1.json", "two – 二")
    files.write("a/0.json", "")
    assert files.read("a/1.json") == "two – 二"
    assert [name for name in files.names("a") if not name.startswith(".")] == ["0.json", "1.json"]
    files.delete("a/1.json")
    assert files.read("a/1.json") is None


@pytest.mark.parametrize(
    ("java", "away"),
    [
        ("java.net.ConnectException", True),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", True),
        ("java.io.IOException", False),
        ("org.apache.hadoop.security.AccessControlException", False),
    ],
)
def test_a_file_system_that_does_not_answer_is_away_and_one_that_refuses_a_file_is_not(
    spark, java, away
):
    made = java_class(spark, java)
    failure = Py4JJavaError("An error occurred", made("node:9000 does not\nanswer"))
    error = failed("hdfs://node:9000/lake", failure)
    assert (error is not None) is away
    if away:
        assert (error.code, error.may_pass) == ("E-LAKE-AWAY", True)
        assert "hdfs://node:9000/lake" in error.what
        assert "node:9000 does not answer" in error.what
    # A disk of this machine says by its number what is the matter.
    assert failed("file:/lake", failure) is None


def test_what_is_no_failure_of_files_stays_what_it_is(spark):
    failure = Py4JJavaError("An error occurred", spark._jvm.java.lang.IllegalStateException("x"))
    assert failed("hdfs://node:9000/lake", failure) is None


@pytest.mark.parametrize(
    ("java", "away"),
    [
        ("java.net.ConnectException", True),
        ("org.apache.hadoop.ipc.StandbyException", True),
        ("java.net.PortUnreachableException", True),  # by the class above it
        ("javax.net.ssl.SSLHandshakeException", True),
        ("org.apache.hadoop.net.ConnectTimeoutException", True),
        ("java.io.EOFException", False),
        ("java.io.FileNotFoundException", False),
    ],
)
def test_a_server_that_does_not_answer_is_nobody_s_own_failure(spark, java, away):
    made = java_class(spark, java)
    inner = made("x")
    outer = spark._jvm.java.lang.RuntimeException("Job aborted", inner)
    failure = ValueError("of ours")
    failure.__cause__ = Py4JJavaError("An error occurred", outer)
    assert is_away(failure) is away
    assert is_everybodys(failure) is away


def test_a_connection_that_broke_off_is_told_from_a_file_that_ends_too_early(spark):
    said = 'End of File Exception between local host is: "a"; destination host is: "b":1'
    failure = Py4JJavaError("x", spark._jvm.java.io.EOFException(said))
    assert is_away(failure)
    remote = spark._jvm.org.apache.hadoop.ipc.RemoteException
    safe = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"
    assert is_away(Py4JJavaError("x", remote(safe, "not yet")))
    assert not is_away(Py4JJavaError("x", remote("java.io.IOException", "no room")))


def test_a_job_that_was_cancelled_is_everybody_s(spark):
    ended = threading.Event()

    def cancel():
        while not ended.wait(0.2):
            spark.sparkContext.cancelAllJobs()

    cancels = threading.Thread(target=cancel)
    cancels.start()
    sleeps = F.expr("reflect('java.lang.Thread', 'sleep', cast(300 as bigint))")
    long = spark.range(0, 40, 1, 40).select(sleeps)
    try:
        with pytest.raises(Exception, match="SPARK_JOB_CANCELLED") as failed:
            long.collect()
    finally:
        ended.set()
        cancels.join()
    assert is_everybodys(failed.value)
