"""A disk that is full, read-only or broken is found in whatever its failure is wrapped in, and said in one sentence."""

import errno
import os
from pathlib import Path
from tempfile import gettempdir

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_rs_table import write_new
from ingest.lake.files.disk_failure import DiskFailure, found, of_disk, told_by
from ingest.lake.files.storage import LocalFiles
from ingest.model.errors import Exit
from tests.support.direct_lake import DirectLake
from tests.support.disk import no_room, on_a_full_disk

IN_JAVA = """An error occurred while calling o41.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/shop/t. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:792)
Caused by: {}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 17 more
"""


@pytest.mark.parametrize(
    ("line", "number", "path"),
    [
        ("java.io.IOException: No space left on device", errno.ENOSPC, ""),
        (
            "org.apache.hadoop.fs.FSError: java.io.IOException: Disk quota exceeded",
            errno.EDQUOT,
            "",
        ),
        (
            "java.nio.file.FileSystemException: /a b/c: No space left on device",
            errno.ENOSPC,
            "/a b/c",
        ),
        (
            "java.io.FileNotFoundException: /lake/x (Read-only file system)",
            errno.EROFS,
            "/lake/x",
        ),
        ("java.io.FileNotFoundException: /lake/x (Permission denied)", errno.EACCES, "/lake/x"),
        ("java.nio.file.AccessDeniedException: /lake/y", errno.EACCES, "/lake/y"),
        ("java.io.IOException: Input/output error", errno.EIO, ""),
        (
            "org.rocksdb.RocksDBException: While appending to file: /tmp/1.log: No space left on device",
            errno.ENOSPC,
            "/tmp/1.log",
        ),
        (
            "org.apache.spark.SparkException: Lost task 0.0: java.io.IOException: No space left on device",
            errno.ENOSPC,
            "",
        ),
    ],
)
def test_java_s_words_are_known_wherever_they_stand_in_a_trace(line, number, path):
    assert told_by(IN_JAVA.format(line)) == DiskFailure(number, path)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (
            "External: Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)",
            errno.ENOSPC,
        ),
        (
            "Kernel error: Arrow error: Unable to open file /t/0.parquet#1: Read-only file system (os error 30)",
            errno.EROFS,
        ),
        (
            'Could not create local directory: /t\nError: Os { code: 30, kind: ReadOnlyFilesystem, message: "x" }',
            errno.EROFS,
        ),
        (
            "[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
            errno.ENOSPC,
        ),
    ],
)
def test_delta_rs_s_and_arrow_s_words_are_known(text, number):
    assert found(DeltaError(text)) == DiskFailure(number)
    assert found(OSError(text)) == DiskFailure(number), "delta-rs gives some no number"


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("No space left on device"),
        ValueError("java.io.IOException: No space left on device"),
        DeltaError("Generic error: No such file or directory (os error 2)"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/lake/x"),
        PySparkException(
            "[CAST_INVALID_INPUT] The value 'java.io.IOException: No space left on device' of the type "
            '"STRING" cannot be cast to "INT".'
        ),
        PySparkException("org.apache.spark.SparkException: the row is 'Permission denied'"),
    ],
)
def test_a_row_s_value_and_other_failures_are_none_of_a_disk_s(failure):
    assert found(failure) is None
    assert of_disk(failure, "/lake") is None


def test_a_failure_that_another_has_led_to_is_looked_at_and_one_that_was_put_away_is_not():
    def fail(*, put_away):
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as failure:
            raise RuntimeError("the batch failed") from (None if put_away else failure)

    for put_away, disk in ((False, DiskFailure(errno.ENOSPC)), (True, None)):
        with pytest.raises(RuntimeError) as failed:
            fail(put_away=put_away)
        assert found(failed.value) == disk


def test_a_failure_of_spark_s_that_cannot_be_asked_any_more_is_read_as_far_as_it_is_known():
    class Gone(Py4JJavaError):
        def __init__(self):
            pass

        def __str__(self):
            raise ConnectionRefusedError

    class Captured(PySparkException):
        def __init__(self):
            self._stackTrace = IN_JAVA.format("java.io.IOException: No space left on device")

        def __str__(self):
            raise Py4JError

    assert found(Gone()) is None
    assert found(Captured()) == DiskFailure(errno.ENOSPC)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_sentence_with_its_place_what_it_means_and_what_to_do():
    with pytest.raises(OSError, match="No space") as full, Path("/dev/full").open("w") as file:
        file.write("x" * 9999)
    told = of_disk(full.value, "/")
    assert told.code == "E-DISK-FULL"
    assert told.what == "The lake's disk is full (/): No space left on device."
    assert (told.exit_code, told.may_pass) == (Exit.FAILED, True)
    assert "stays in Kafka" in told.means
    assert "make room" in told.remedy


@pytest.mark.parametrize(
    ("number", "path", "lake", "what"),
    [
        (errno.ENOSPC, "/lake/d/t/x", "/lake", "The lake's disk is full (/lake): No space left"),
        (errno.ENOSPC, "/tmp/x", "/lake", "The disk of /tmp/x is full: No space left on device."),
        (errno.ENOSPC, "/logs/x", "s3a://b/l", "The disk of /logs/x is full: No space left"),
        (errno.EDQUOT, "/lake/x", "file:///lake", "The lake's disk is full (file:///lake): Disk q"),
        (errno.EROFS, "/lake/x", "/lake", "The lake's disk cannot be used (/lake/x): Read-only"),
        (errno.EIO, "", "/lake", "The lake's disk cannot be used (/lake): Input/output error."),
        (errno.EACCES, "/logs/x", "/lake", "/logs/x cannot be used: Permission denied."),
        (errno.EIO, "", "s3a://b/l", "A disk cannot be used: Input/output error."),
        (errno.ENOSPC, "", "s3a://b/l", f"The disk of {gettempdir()} is full: No space left"),
        (errno.ENOSPC, "", "", "A disk is full: No space left on device."),
    ],
)
def test_which_disk_it_is_is_said_as_far_as_it_is_known(number, path, lake, what):
    assert of_disk(OSError(number, os.strerror(number), path or None), lake).what.startswith(what)


def test_a_failed_write_leaves_nothing_under_another_name(tmp_path):
    files = LocalFiles(str(tmp_path))
    files.write("1.beat", "7")
    for act in (files.write, files.create):
        with no_room(), pytest.raises(OSError, match="File too large"):
            act("1.beat", "8")
        with no_room(), pytest.raises(OSError, match="File too large"):
            act("2.json", "{}")
    assert files.names("") == ["1.beat"]
    assert files.read("1.beat") == "7"
    assert not files.create("1.beat", "9")
    assert files.create("2.json", "{}")
    assert files.names("") == ["1.beat", "2.json"]


def test_files_of_a_commit_that_finds_no_room_for_its_log_do_not_take_the_next_try_s(tmp_path):
    lake = DirectLake(tmp_path, {"id": pa.int64()})
    lake.append({"id": [1]})
    before = set(lake.path.rglob("*"))
    with lake.table.scratch(()) as work:
        write_new(work, lake.rows({"id": [2]}))
        _, actions = work.done(delta_log.now_ms())
        with no_room(), pytest.raises(OSError, match="File too large"):
            work.commit(actions)
    assert set(lake.path.rglob("*")) == before
    lake.append({"id": [2]})
    assert lake.values("id") == {1, 2}


def test_what_a_killed_job_was_writing_into_a_log_goes_when_the_log_is_cut(tmp_path):
    lake = DirectLake(tmp_path, {"id": pa.int64()})
    lake.append({"id": [1]})
    log = lake.path / "_delta_log"
    left = log / f"{2:020d}.json.0123456789ab.part"
    others = log / "of somebody else.part"
    for one in (left, others):
        one.write_text("")
    assert delta_log.cut(lake.path, delta_log.newest(lake.path) - 500) == 1
    assert not left.exists()
    assert others.exists()
    assert lake.values("id") == {1}


def test_on_a_disk_that_is_full_each_write_says_so_nothing_is_left_and_it_goes_on_with_room(
    tmp_path,
):
    came = on_a_full_disk(tmp_path)
    what = f"The lake's disk is full ({tmp_path}): No space left on device."
    assert came["came to"] == {
        "write": ["E-DISK-FULL", what, "OSError"],
        "create": ["E-DISK-FULL", what, "OSError"],
        "start": ["E-DISK-FULL", what, "2"],
        "merge": ["E-DISK-FULL", what, "OSError"],
        "delta-rs": ["E-DISK-FULL", what, "DeltaError"],
    }
    assert came["left"] == []
    assert came["rows"] == [1, 3]
