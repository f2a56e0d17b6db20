"""Why a streaming query failed, in our words, and whether a new start mends it."""

from __future__ import annotations

import re
from pathlib import Path

from ingest.errors import Exit, IngestError
from ingest.foreign import ForeignCommitError
from ingest.pipeline import StaleCheckpointError


def mendable(failure: Exception) -> str:
    """Why a new decision about the start mends this, or nothing."""
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


def translated(failure: Exception, log: Path) -> IngestError:
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
