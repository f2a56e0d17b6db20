"""Named places where a run can be made to die or to stand still, inert unless armed.

``INGEST_FAILPOINT=<name>[~<detail>][@<batch>]:<kill|hold>`` arms one, or ``INGEST_FAILPOINT_FILE``
names a file that holds the same text and may change while the run goes on. ``kill`` sends this
process SIGKILL itself; ``hold`` stands still until somebody kills the process from outside or empties
that file. Either way ``INGEST_FAILPOINT_REACHED`` (a file) is written first, which is how the demo
and the kill matrix make sure that a kill lands in the middle of a batch and not beside it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

NAMES = (
    "batch_started",
    "share_read",
    "changes_prepared",
    "quarantine_committed",
    "table_started",
    "files_written",
    "step_committed",
    "table_committed",
    "log_started",
    "log_committed",
    "tables_committed",
    "manifest_committed",
    "offsets_committed",
    "files_rewritten",
    "batch_logged",
)
"""In the order in which a batch passes them. ``share_read`` in the Python worker of each of Spark's tasks that reads a part of it, before that
hands its part over; ``table_started`` and ``table_committed`` once per
table, their detail, as ``log_started`` and ``log_committed`` around its change log; ``files_written`` where the files of a commit by delta-rs lie in their table and its
log does not name them yet; ``step_committed`` after each commit of a table; ``files_rewritten`` where a table is put in
order, before that is committed; ``batch_logged`` once Spark has
written its own commit, too."""

OF_FLOWS = ("flow_started", "flow_late", "flow_written")
"""The same of a batch of a flow: when it begins; once what came late is kept; behind each of its sinks. Their details are the flow's name, and
of the last one that with the sink's."""


def armed() -> str:
    """What is armed now, or the empty text."""
    file = os.environ.get("INGEST_FAILPOINT_FILE")
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError:
            return ""
    return os.environ.get("INGEST_FAILPOINT", "")


def reached(name: str, batch_id: int, detail: str = "") -> None:
    """Do what is armed for this place, or nothing."""
    found = armed()
    if not found:
        return
    place, _, action = found.rpartition(":")
    place, _, batch = place.partition("@")
    wanted, _, wanted_detail = place.partition("~")
    if wanted != name or (batch and int(batch) > batch_id):
        return
    if wanted_detail and wanted_detail != detail:
        return
    marker = os.environ.get("INGEST_FAILPOINT_REACHED")
    if marker:
        Path(marker).write_text(
            f"{name}~{detail} batch={batch_id} pid={os.getpid()}\n", encoding="utf-8"
        )
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while armed() == found:  # hold: ends by a signal from outside, or when it is disarmed
        time.sleep(0.05)
