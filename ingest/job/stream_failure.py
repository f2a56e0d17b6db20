"""Why a streaming query failed, in our words, and whether a new start mends it."""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TextIO

from pyspark.errors import PySparkException

from ingest.batch import spark_failure
from ingest.batch.parts import StaleCheckpointError
from ingest.job.spark_session import has_died, is_stopped
from ingest.job.wall_clock import ClockSetBackError
from ingest.kafka.topic_identity import TopicMadeAgainError
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.files.disk_failure import of_disk
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.refused_alone import is_refused_alone
from ingest.lake.files.server_failure import is_away
from ingest.model import restart_reasons
from ingest.model.errors import Exit, IngestError, table_of
from ingest.model.reasons import Reason


@dataclass(frozen=True)
class Again:
    """Streaming ended and may be begun anew. ``error`` is for when that helped nothing. ``lasting``: it most likely
    helps nothing, since what failed does not depend on when it is done.
    """

    reason: str
    error: IngestError
    lasting: bool = False
    code: str = ""
    """The reason in one word, for machines: the failure's own text may hold values of rows."""


def again(failure: Exception, log: Path, lake: str = "") -> Again:
    """Every start is decided from facts and repeats nothing, so a failure is no reason to wait for
    a human, known or not; only an error of ours, which says what to do, is. ``lake``: its path.

    Raises the failure if it is one of ours that neither a new decision nor time mends.
    """
    reason = _mended_by_deciding(failure)
    if reason is not None:
        said = failure.what.rstrip(".") if isinstance(failure, ForeignCommitError) else reason.says
        return Again(said, _changing_below(log), code=reason.code)
    if isinstance(failure, IngestError):
        if not may_pass(failure):
            raise failure
        return Again(failure.what.rstrip("."), failure, code=failure.code)
    if disk := of_disk(failure, lake):  # somebody may make room, or old versions go
        written(failure, log)
        return Again(disk.what.rstrip("."), disk, code=disk.code)
    lasting = isinstance(failure, _LASTING) and not isinstance(failure, PySparkException)
    error = _unexpected(failure, log) if lasting else _translated(failure, log)
    return Again(error.what.rstrip("."), error, lasting, error.code)


def may_pass(failure: IngestError) -> bool:
    """Whether a run that has begun waits for it to pass. MySQL took its password then: it was changed there, and the file that holds it is read
    with each question, so the new one is found when it is there.
    """
    return failure.may_pass or failure.code == "E-MYSQL-LOGIN"


def tried_again() -> Again:
    """A table that stands still by one failure is tried once more."""
    says = restart_reasons.TRIED_AGAIN.says
    error = IngestError("E-START-AGAIN", f"{says}.", remedy="run again.", exit_code=Exit.FAILED)
    return Again(says, error, code=restart_reasons.TRIED_AGAIN.code)


def is_everybodys(failure: BaseException, lake: str = "") -> bool:
    """True for a failure at a table that is not its own: of the lease, a disk, a server, Spark, or a run that is ended. ``lake``: its path, where the
    store that keeps it is to be asked whether it refuses one table alone.
    """
    if isinstance(failure, LeaseLostError | ForeignCommitError | MemoryError) or of_disk(failure):
        return True
    if lake and is_refused_alone(failure, lake):
        return False
    if isinstance(failure, IngestError):
        return may_pass(failure)
    if has_died(failure) or _mended_by_deciding(failure) is not None:
        return True
    return _is_any(failure, *_OF_ALL) or is_away(failure)


def lost_executor(failure: BaseException) -> bool:
    """Whether a batch was lost with an executor, which it may have been too much for."""
    return _is_any(failure, *_OF_EXECUTORS)


def _is_any(failure: BaseException, *signs: str) -> bool:
    kinds = spark_failure.kinds(failure)
    return any(sign in kind for kind in kinds for sign in signs)


FULL_HEAP = "OutOfMemoryError"
"""In names of classes: Java's own, and Spark's of the part of the heap that it shares out."""

_OF_EXECUTORS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "ExecutorLostFailure", "FetchFailed")
"""One that is gone, with the rows of the batch that it kept."""

_OF_ALL = (
    "org.apache.kafka.",
    "InterruptedException",
    "InterruptedIOException",
    spark_failure.CANCELLED,
    spark_failure.STOPPED,
    FULL_HEAP,
    *_OF_EXECUTORS,
)
"""In what Spark's failures are: Kafka, from which its tasks read; a query that was stopped; Spark itself; executors."""

_LASTING = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What code raises of itself: a defect of ours, or data of a kind that nobody thought of."""


def _unexpected(failure: Exception, log: Path) -> IngestError:
    """A failure that nobody expected, as an error of ours; its traceback goes to the log."""
    table = table_of(failure)
    where = f"The changes of {table}" if table else "A batch"
    return IngestError(
        "E-BATCH-FAILED",
        f"{where} could not be applied: {in_one_line(failure)}",
        means="Nothing of it was published; its changes stay in Kafka, and readers see the batch before it.",
        remedy=f"report it with the file {written(failure, log)}, where all of it stands: this is a defect of ingest, "
        "or data that it does not know, and the next run ends the same way.",
        exit_code=Exit.FAILED,
    )


def in_one_line(failure: BaseException) -> str:
    """Kind and text, short enough for a screen."""
    said = " ".join(str(failure).split())
    return f"{type(failure).__name__}: {said}"[:300] if said else type(failure).__name__


def written(failure: BaseException, log: Path) -> Path:
    """The log, with the failure's traceback at its end. Where it cannot be written: a file of the folder for what is
    temporary; where that cannot be either, what the log holds must do.
    """
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as text:
            _write(failure, text)
        return log
    with suppress(OSError):
        other = Path(tempfile.gettempdir()) / f"ingest-{os.getuid()}-{log.name}"
        # Everybody may write into that folder, and a traceback is for its owner's eyes.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(other, flags, 0o600), "a", encoding="utf-8") as text:
            _write(failure, text)
        return other
    return log


def _write(failure: BaseException, text: TextIO) -> None:
    text.write(f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC\n")
    traceback.print_exception(failure, file=text)


def _mended_by_deciding(failure: BaseException) -> Reason | None:
    """Why a new decision mends it; None for any other failure. By what a failure is: its text may hold values of rows."""
    if isinstance(failure, ForeignCommitError):
        return restart_reasons.CONFLICT
    if isinstance(failure, StaleCheckpointError):
        return restart_reasons.STALE_CHECKPOINT
    if isinstance(failure, ClockSetBackError):
        return restart_reasons.CLOCK_SET_BACK
    if isinstance(failure, IngestError):
        return None
    if _is_any(failure, "CONCURRENT_STREAM_LOG_UPDATE"):
        return restart_reasons.SHARED_CHECKPOINT
    lost = isinstance(failure, TopicMadeAgainError)
    if lost or _is_any(failure, "OffsetOutOfRange", "KAFKA_DATA_LOSS"):
        return restart_reasons.LOST_RECORDS
    return None


def spark_died(log: Path) -> IngestError:
    """The JVM is gone, or Spark in it, and nothing can be begun anew inside this process."""
    if is_stopped():
        return IngestError(
            "E-SPARK-STOPPED",
            "Spark has ended in the middle of the run: a cluster has removed the application, or lost it.",
            means="The batch in hand was not published; the next run finishes it.",
            remedy=f"run again; a service manager does so by itself. {log} and the master's page say why.",
            exit_code=Exit.FAILED,
        )
    return IngestError(
        "E-SPARK-DIED",
        "Spark's process has ended by itself, most often because its memory did not suffice.",
        means="The batch in hand was not published; the next run finishes it.",
        remedy=f"raise `spark.driver_memory` (or lower `spark.max_megabytes_per_batch`) and run again; "
        f"{log} may say more.",
        exit_code=Exit.FAILED,
    )


def _changing_below(log: Path) -> IngestError:
    return IngestError(
        "E-START-AGAIN",
        "The start was decided again and again, and each time something had changed below it.",
        means="The lake is as it was at the last published batch.",
        remedy=f"read {log}; see that no other job writes to this lake, then run again.",
        exit_code=Exit.FAILED,
    )


def _translated(failure: Exception, log: Path) -> IngestError:
    """Spark's or Kafka's failure as an error of ours; ``log`` is where the whole of it stands."""
    text = str(failure)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    table = table_of(failure)
    where = f" at {table}" if table else ""
    if _is_any(failure, FULL_HEAP):
        return IngestError(
            "E-SPARK-MEMORY",
            f"Java's memory did not suffice{where}.",
            means="The batch in hand was not published; its changes stay in Kafka.",
            remedy="raise `spark.driver_memory`, or lower `spark.max_megabytes_per_batch`, and run again; where a flow took the memory "
            f"(`ingest flow list`), run that one elsewhere by `ingest flow run`. {written(failure, log)} has all of it.",
            exit_code=Exit.FAILED,
        )
    named = [line for line in lines if re.search(r"(Exception|Error): |^\[[A-Z_]+\]", line)]
    return IngestError(
        "E-STREAM-FAILED",
        f"The streaming query failed{where}: {(named or lines or ['no reason given'])[0][:300]}",
        means="The batch in hand was not published; its changes stay in Kafka.",
        remedy=f"read {written(failure, log)}, where all of it stands. It was begun anew several times, each time "
        "with this end: where Kafka, the lake's disk or memory is the reason, mend that and run again, else report it "
        "with that file.",
        exit_code=Exit.FAILED,
    )
