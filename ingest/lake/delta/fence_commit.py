"""A successor's term put into a table, under all app ids that its predecessor may use, in one commit without data.

Delta's writers take one app id a commit. A table without a key has one of its own in the quarantine (``names.Role``), so a
lake of a thousand of them would take a thousand commits there. A transaction of Delta's takes all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta.exceptions import (
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import SparkSession

from ingest.lake.delta.spark_transaction import SparkTransaction
from ingest.model.names import Marker

_FASTER = (
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""What Delta raises where another commit came first; they have no class in common."""


def commit(
    session: SparkSession, path: str, app_ids: Sequence[str], term: int
) -> list[tuple[str, int]]:
    """Returns app ids and their new ``txnVersion``, of those that held a lower term."""
    while True:
        try:
            return _commit(session, path, app_ids, term)
        except _FASTER:
            continue  # the predecessor was faster, in a commit that it was in the middle of: what that says is kept


def _commit(
    session: SparkSession, path: str, app_ids: Sequence[str], term: int
) -> list[tuple[str, int]]:
    transaction = SparkTransaction(session, path)
    # Asked for, so that Delta notes that we rely on it: a predecessor that is faster is a conflict, and no lost marker.
    held = {app_id: int(transaction.of.txnVersion(app_id)) for app_id in app_ids}
    raised = fenced(held, term)
    if raised:
        markers = [transaction.marker(app_id, version) for app_id, version in raised]
        transaction.commit(markers, transaction.operation("ManualUpdate$"))
    return raised


def fenced(held: Mapping[str, int], term: int) -> list[tuple[str, int]]:
    """App ids that hold a lower term, with the version that has this one, and their batch and step. ``held``: their
    ``txnVersion``, negative for none. Pure.
    """
    markers = {app_id: Marker.parse(max(0, version)) for app_id, version in held.items()}
    return [
        (app_id, Marker(term, *marker.place).version)
        for app_id, marker in markers.items()
        if marker.term < term
    ]
