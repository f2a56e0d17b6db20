"""The newest published batch of the mirrors, once it holds what a flow has read: what is not published may still be taken back."""

from __future__ import annotations

import time
from collections.abc import Callable

from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry

WAITS = 60.0
"""Seconds within which the mirrors are to publish what a flow has read already."""


def newest(ledger: Ledger, flow: str, holds: Callable[[Entry], bool]) -> Entry:
    """``holds``: whether a batch of the manifest is, or comes behind, what was read. Raises :class:`IngestError` where none comes that does."""
    until = time.monotonic() + WAITS
    while True:
        entry = ledger.last()
        if entry is not None and holds(entry):
            return entry
        if time.monotonic() > until:
            raise _unpublished(flow)
        time.sleep(0.1)


def _unpublished(name: str) -> IngestError:
    return IngestError(
        "E-FLOW-INPUT",
        f"The flow {name!r} waits for the mirrors: what it has read is not published yet.",
        means="Nothing of the batch was written; it comes again.",
        remedy="run the pipeline; it finishes its batch.",
        may_pass=True,
    )
