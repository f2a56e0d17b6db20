"""Why a streaming query failed, in our words, and whether a new start mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import Exit, IngestError
from ingest.foreign import ForeignCommitError
from ingest.pipeline import StaleCheckpointError


@dataclass(frozen=True)
class Again:
    """Streaming ended and may be begun anew. ``error`` is for when that helped nothing."""

    reason: str
    error: IngestError


def again(failure: Exception, log: Path) -> Again:
    """Every start is decided from facts and repeats nothing, so a failure is no reason to wait for
    a human, known or not; only an error of ours, which says what to do, is.

    Raises the failure if it is one of ours that neither a new decision nor time mends.
    """
    reason = _mended_by_deciding(failure)
    if reason:
        return Again(reason, _changing_below(log))
    if isinstance(failure, IngestError):
        if not failure.may_pass:
            raise failure
        return Again(failure.what.rstrip("."), failure)
    error = _translated(failure, log)
    return Again(error.what.rstrip("."), error)


def _mended_by_deciding(failure: Exception) -> str:
    text = str(failure)
    if isinstance(failure, ForeignCommitError):
        return failure.what.rstrip(".")
    if isinstance(failure, StaleCheckpointError):
        return "the checkpoint does not continue the manifest"
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return "another job wrote to the checkpoint"
    if "OffsetOutOfRange" in text or "KAFKA_DATA_LOSS" in text or "data loss" in text.lower():
        return "Kafka no longer has records that were to be applied"
    return ""


def spark_died(log: Path) -> IngestError:
    """The JVM is gone, and nothing can be begun anew inside this process."""
    return IngestError(
        "E-SPARK-DIED",
        "Spark's process has ended by itself, most often because its memory did not suffice.",
        means="The batch in hand was not published; the next run finishes it.",
        remedy=f"raise `spark.driver_memory` (or lower `spark.max_changes_per_batch`) and run again; "
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
    named = [line for line in lines if re.search(r"(Exception|Error): |^\[[A-Z_]+\]", line)]
    return IngestError(
        "E-STREAM-FAILED",
        f"The streaming query failed: {(named or lines or ['no reason given'])[0][:300]}",
        means="The batch in hand was not published; its changes stay in Kafka and are applied "
        "by the next run.",
        remedy=f"run it again; if it fails again, read {log}.",
        exit_code=Exit.FAILED,
    )
