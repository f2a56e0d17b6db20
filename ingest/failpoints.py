"""Named places where a run can be made to die or to stand still, inert unless armed.

``INGEST_FAILPOINT=<name>[@<batch>]:<kill|hold>`` arms one. ``kill`` sends this process SIGKILL
itself; ``hold`` writes ``INGEST_FAILPOINT_REACHED`` (a file) and stands still until somebody kills
the process from outside, which is how the demo and the end-to-end test make sure that a kill lands
in the middle of a batch and not beside it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

NAMES = (
    "batch_started",
    "table_committed",
    "tables_committed",
    "manifest_committed",
    "offsets_committed",
)
"""In the order in which a batch passes them; ``table_committed`` once per table."""


def reached(name: str, batch_id: int) -> None:
    """Do what is armed for this place, or nothing."""
    armed = os.environ.get("INGEST_FAILPOINT")
    if not armed:
        return
    place, _, action = armed.partition(":")
    wanted, _, batch = place.partition("@")
    if wanted != name or (batch and int(batch) > batch_id):
        return
    marker = os.environ.get("INGEST_FAILPOINT_REACHED")
    if marker:
        Path(marker).write_text(f"{name} batch={batch_id} pid={os.getpid()}\n")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:  # hold: only a signal from outside ends this
        time.sleep(1)
