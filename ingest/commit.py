"""Exactly one replay-safe commit per table per step.

Delta skips a commit whose (``txnAppId``, ``txnVersion``) it has seen. MERGE, UPDATE and DELETE take
the pair only from the session's configuration, where it stays after the commit; a later commit
under a stale pair would be skipped without a word. So it is set, used once and unset, in a session
that no other thread shares, and afterwards the table must hold the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import _parse_datatype_string

from ingest.errors import Exit, IngestError
from ingest.table import LakeTable

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class Identity:
    """What makes a commit this one and no other: app id, version, and a note for its history."""

    app_id: str
    version: int
    note: str = ""


def commit_once(table: LakeTable, identity: Identity, act: Callable[[], object]) -> bool:
    """Run ``act`` (one Delta command on the table's session) unless its commit is there already.

    Returns whether it ran. Raises :class:`IngestError` when the command ended without leaving the
    marker, which would mean that something else stood in the session's configuration.
    """
    before = table.committed(identity.app_id)
    if before is not None and before >= identity.version:
        return False
    with _identified(table.session, identity):
        act()
    after = table.committed(identity.app_id)
    if after != identity.version:
        raise IngestError(
            "E-COMMIT-MARKER",
            f"A commit to {table.path} ended without its marker "
            f"({identity.app_id}, {identity.version}); the table holds {after}.",
            means="The batch is not complete; its offsets were not committed, nothing is lost.",
            remedy="run the pipeline again; if it says so again, report it with the Spark log.",
            exit_code=Exit.FAILED,
        )
    return True


def append_once(
    session: SparkSession, path: str, schema: str, rows: DataFrame, identity: Identity
) -> bool:
    """Append rows to a table of ours, created when absent, under the same promise."""
    builder = DeltaTable.createIfNotExists(session).location(path)
    for column in _parse_datatype_string(schema).fields:
        builder = builder.addColumn(column.name, column.dataType)
    builder.execute()
    table = LakeTable(session, path)
    return commit_once(
        table, identity, lambda: rows.write.format("delta").mode("append").options(
            txnAppId=identity.app_id, txnVersion=identity.version
        ).save(path)
    )


@contextmanager
def _identified(session: SparkSession, identity: Identity) -> Iterator[None]:
    settings = {
        _APP_ID: identity.app_id,
        _VERSION: str(identity.version),
        **({_METADATA: identity.note} if identity.note else {}),
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(key)
