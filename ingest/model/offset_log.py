"""Spark's offset log, a file a batch in the checkpoint: where the batch ends in Kafka, and what Spark made of its time. Pure."""

from __future__ import annotations

import json

from ingest.model.manifest import Place
from ingest.model.offset_ranges import offsets_from_json


def offsets_from_log(text: str) -> dict[Place, int]:
    """Kafka end offsets from a file of Spark's offset log (``checkpoint/offsets/<batch>``).

    The file holds a version line, a metadata line and one JSON line per source; ours has one.
    Raises ``ValueError`` when it is torn.
    """
    return offsets_from_json(_lines(text)[2])


def is_behind_its_watermark(text: str) -> bool:
    """True when an offset log file says that its batch came "before" Spark's watermark.

    Our event time is the batch's own time (see ``record_stream``), so this takes a clock that was set back
    by more than ``dedup.delay``; every record of such a batch is late, and Spark drops all of them.
    """
    metadata = json.loads(_lines(text)[1])
    return int(metadata["batchTimestampMs"]) <= int(metadata["batchWatermarkMs"])


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    if len(lines) < 3 or not lines[0].startswith("v"):
        raise ValueError("the offset log file is torn")
    return lines
