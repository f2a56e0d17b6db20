"""The newest published batch of the mirrors, once it holds what a flow has read: what is not published may still be taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ingest.lake.delta import delta_log, other_writers, own_commits
from ingest.lake.delta.delta_log import Action, TornCommitError, UnknownLogError
from ingest.lake.files import table_files
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry
from ingest.model.names import Role, app_id_parts

WAITS = 60.0
"""Seconds within which the mirrors are to publish what a flow has read already."""


def is_published(path: str, published: int | None, version: int) -> bool:
    """True where a version of a table holds nothing but published changes: the manifest names it (``published``) or a later one, or all commits since are
    upkeep's, which change no row. ``published`` is None for tables that the mirrors do not keep.
    """
    if published is None or version <= published:
        return True
    at = table_files.at(path)
    if at is None:
        return False
    with suppress(TornCommitError, UnknownLogError):
        return all(
            _is_upkeep(delta_log.read(at, one) or ()) for one in range(published + 1, version + 1)
        )
    return False


def batch_of(path: str, version: int) -> int:
    """The batch of the mirrors' that a version of a table is of; 0 where its log does not say."""
    at = table_files.at(path)
    with suppress(TornCommitError, UnknownLogError):
        return own_commits.batch_of((at and delta_log.read(at, version)) or ()) or 0
    return 0


def _is_upkeep(actions: Sequence[Action]) -> bool:
    named = [app_id_parts(action["txn"]["appId"]) for action in actions if "txn" in action]
    if named:
        return all(parts is not None and parts[3] == Role.UPKEEP.value for parts in named)
    return bool(actions) and not other_writers.changes_data(actions)


def newest(ledger: Ledger, flow: str, holds: Callable[[Entry], bool]) -> Entry:
    """``holds``: whether a batch of the manifest has what was read, and may be taken. Raises :class:`IngestError` where none comes that does."""
    until = time.monotonic() + WAITS
    while True:
        entry = ledger.last()
        if entry is not None and holds(entry):
            return entry
        if time.monotonic() > until:
            raise unpublished(flow)
        time.sleep(0.1)


def unpublished(name: str) -> IngestError:
    """The error of a flow that has read changes which are not published yet, and which a start may take back, or has."""
    return IngestError(
        "E-FLOW-INPUT",
        f"The flow {name!r} waits for the mirrors: what it has read is not published yet, or a table of it is being read again.",
        means="Nothing of the batch was written; it comes again.",
        remedy="run the pipeline; it finishes its batch.",
        may_pass=True,
    )
