"""What a failed stream leads to: a new decision, or a human."""

import json
import tempfile

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException, PySparkRuntimeError, PySparkValueError

from ingest.batch.parts import StaleCheckpointError
from ingest.job.stream_failure import again, is_everybodys
from ingest.lake.files import refused_alone
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.model.errors import Exit, IngestError, of_table


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "spark.log"


def test_an_unknown_failure_is_begun_again_and_names_itself_when_that_helps_nothing(log) -> None:
    ended = again(RuntimeError("trace\njava.util.ServiceConfigurationError: no jar\n at x"), log)
    assert "ServiceConfigurationError: no jar" in ended.reason
    assert ended.error.code == "E-STREAM-FAILED"


def test_a_stale_checkpoint_is_decided_anew(log) -> None:
    ended = again(StaleCheckpointError("7"), log)
    assert ended.reason == "the checkpoint does not continue the manifest"
    assert ended.error.code == "E-START-AGAIN"


def test_an_error_that_says_what_to_do_goes_to_the_human_who_can_do_it(log) -> None:
    with pytest.raises(IngestError, match="another job has the lease"):
        again(IngestError("E-LEASE-LOST", "another job has the lease", remedy="stop one"), log)


def test_a_password_that_mysql_took_as_the_run_began_is_tried_again_before_anybody_is_told(log):
    ended = again(IngestError("E-MYSQL-LOGIN", "no such password.", remedy="correct it"), log)
    assert (ended.code, ended.reason, ended.lasting) == (
        "E-MYSQL-LOGIN",
        "no such password",
        False,
    )
    assert ended.error.code == "E-MYSQL-LOGIN"
    assert is_everybodys(ended.error)


def parsed(text):
    return json.loads(text)


@pytest.mark.parametrize(
    "failure",
    [ValueError("step 8192 does not fit in 13 bits"), KeyError("k"), pa.ArrowInvalid("no\nnumber")],
)
def test_what_code_raises_of_itself_names_the_table_the_data_s_state_and_a_file(failure, log):
    of_table(failure, "shop.orders")
    ended = again(failure, log)
    assert (ended.error.code, ended.error.exit_code) == ("E-BATCH-FAILED", Exit.FAILED)
    assert ended.lasting, "it does not depend on when it is done"
    said = str(ended.error)
    assert "shop.orders" in said
    assert f"{type(failure).__name__}: " in said
    assert "Nothing of it was published; its changes stay in Kafka" in said
    assert str(log) in said
    assert "run it again" not in said
    assert "\n" not in said


def test_its_traceback_stands_in_the_file_and_nowhere_else(log, capsys):
    try:
        parsed('{"a": "\u2028')
    except ValueError as failure:
        error = again(failure, log).error
    assert "Traceback" not in str(error)
    assert "in parsed" in log.read_text(encoding="utf-8")
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_written_hides_no_failure_and_another_one_is_named(
    log, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    log.parent.write_text("in the way")
    error = again(ValueError("x"), log).error
    (other,) = tmp_path.glob("ingest-*-spark.log")
    assert (error.code, str(other) in error.remedy) == ("E-BATCH-FAILED", True)
    assert "ValueError: x" in other.read_text(encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(log.parent))
    assert again(ValueError("x"), log).error.code == "E-BATCH-FAILED"


def test_a_failure_of_spark_s_is_tried_longer_than_one_of_ours(log):
    assert not again(RuntimeError("away"), log).lasting
    assert not again(OSError(28, "No space left on device"), log).lasting
    assert not again(PySparkValueError("x"), log).lasting


@pytest.mark.parametrize(
    "failure",
    [
        OSError(28, "No space left on device"),
        DeltaError("Unable to copy data to file: No space left on device (os error 28)"),
        PySparkRuntimeError(
            "at x\nCaused by: java.io.IOException: No space left on device\n\tat y"
        ),
    ],
)
def test_a_full_disk_may_pass_and_says_so_where_it_does_not(failure, log, tmp_path):
    ended = again(failure, log, str(tmp_path))
    assert not ended.lasting
    assert ended.reason == f"The lake's disk is full ({tmp_path}): No space left on device"
    assert (ended.code, ended.error.code) == ("E-DISK-FULL", "E-DISK-FULL")
    assert ended.error.exit_code == Exit.FAILED
    assert "No space left" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize("value", ["cancelled", "Job 3 cancelled", "java.net.ConnectException: x"])
def test_a_value_in_a_failure_s_text_does_not_make_it_everybody_s(value):
    said = f'[CAST_INVALID_INPUT] The value \'{value}\' of the type "STRING" cannot be cast to "BIGINT"'
    assert not is_everybodys(PySparkException(said))
    failed = f"Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times: {said}"
    assert not is_everybodys(PySparkException(failed))


WORDS = [
    "possible data loss",
    "[KAFKA_DATA_LOSS] x",
    "OffsetOutOfRange",
    "[CONCURRENT_STREAM_LOG_UPDATE]",
    "java.lang.OutOfMemoryError: Java heap space",
    "Caused by: org.apache.kafka.common.KafkaException: x",
    "[SPARK_JOB_CANCELLED]",
    "ExecutorLostFailure (executor 1 exited)",
    "/lake/d/FetchFailed",
]


@pytest.mark.parametrize("value", WORDS)
def test_a_row_that_a_constraint_refuses_is_its_table_s_whatever_is_in_it(value, log):
    said = (
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint short (length(v) < 3) violated "
        f"by row with values:\n - v : {value}\n{value}\n"
    )
    lost = "Lost task 0.0 in stage 1.0 (TID 7) (host executor driver)"
    for text in (
        said,
        f"Job aborted due to stage failure: {said}",
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent "
            f"failure: {lost}: org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: "
            f"{said}\tat org.apache.spark.x(X.scala:1)"
        ),
    ):
        failure = PySparkException(text)
        assert not is_everybodys(failure)
        assert again(failure, log).code == "E-STREAM-FAILED"


@pytest.mark.parametrize("value", WORDS)
def test_an_error_of_ours_is_told_by_its_kind_before_any_word_of_it_is_read(value, log):
    ours = IngestError("E-OURS", f"a row holds {value}", remedy="none")
    assert not is_everybodys(ours)
    with pytest.raises(IngestError, match="a row holds"):
        again(ours, log)


@pytest.mark.parametrize(
    "said",
    [
        (
            "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] Some data may have been lost because they are "
            "not available in Kafka any more;"
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost"
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to "
            "stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
            "stage 1.0 (TID 7) (10.0.0.1 executor 2): org.apache.spark.sql.kafka010."
            "KafkaIllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some"
        ),
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position",
    ],
)
def test_what_kafka_has_lost_is_everybody_s_wherever_spark_says_it(said, log):
    assert is_everybodys(PySparkException(said))
    assert again(PySparkException(said), log).code == "lost-records"


@pytest.mark.parametrize(
    "said",
    [
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure:"
            " Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.1 executor 2): ExecutorLostFailure (executor 2"
            " exited caused by one of the running tasks) Reason: Command exited with code 137"
        ),
        (
            "Job aborted due to stage failure: ShuffleMapStage 3 (count at X.java:0) has failed the "
            "maximum allowable number of times: 4. Most recent failure reason:\n"
            "org.apache.spark.shuffle.FetchFailedException: Connection refused"
        ),
        "Job aborted due to stage failure: Task serialization failed: java.lang.OutOfMemoryError: x",
        "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_1_2 not found!",
        "[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs",
        "Job 3 cancelled because SparkContext was shut down",
        "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created",
    ],
)
def test_what_spark_says_of_itself_and_its_executors_is_everybody_s(said):
    assert is_everybodys(PySparkException(said))


def test_python_s_own_words_are_a_table_s_whatever_they_say(log):
    for said in ("possible data loss", "OffsetOutOfRange", "KAFKA_DATA_LOSS"):
        preview = DeltaError(f"Check or Invariant ({said}) violated by:\n| v |\n| {said} |")
        assert not is_everybodys(preview)
        assert again(preview, log).code == "E-STREAM-FAILED"
    for said in ("java.lang.OutOfMemoryError", "org.apache.kafka.common.KafkaException: x"):
        assert not is_everybodys(pa.ArrowInvalid(f"Could not convert '{said}' with type str"))
        assert not is_everybodys(DeltaError(f"Invariant violated: short\n| {said} |"))
        assert is_everybodys(PySparkException(f"Job aborted due to stage failure: {said}"))


@pytest.mark.parametrize(
    "said",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] x",
    ],
)
def test_a_heap_that_is_full_is_everybody_s_and_says_what_helps(tmp_path, said):
    failure = PySparkException(f"Job aborted due to stage failure: {said}")
    assert is_everybodys(failure)
    ended = again(failure, tmp_path / "log")
    assert ended.error.code == "E-SPARK-MEMORY"
    assert "spark.driver_memory" in str(ended.error.remedy)


@pytest.mark.parametrize("lets_in", [True, False])
def test_what_a_store_refuses_of_one_table_is_that_table_s_where_it_lets_us_in_otherwise(
    lets_in, monkeypatch
):
    monkeypatch.setattr(refused_alone, "lets_in", lambda lake: lets_in)
    denied, away = (kind("s3a://b/l", "why") for kind in (LakeDeniedError, LakeAwayError))
    assert is_everybodys(denied), "nobody was asked"
    assert is_everybodys(denied, "s3a://b/l") != lets_in
    assert is_everybodys(away, "s3a://b/l")
    assert is_everybodys(LeaseLostError("lost"), "s3a://b/l")
