"""Exactly one replay-safe commit per table per step.

Delta skips a commit whose (``txnAppId``, ``txnVersion``) it has seen. MERGE, UPDATE and DELETE take
the pair only from the session's configuration, where it stays after the commit; a later commit
under a stale pair would be skipped without a word. So it is set, used once and unset, in a session
that no other thread shares, and afterwards the marker must stand in the table's log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from ingest.errors import Exit, IngestError
from ingest.storage import Storage
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


@dataclass
class Committer:
    """Commits of one checkpoint. Remembers the markers it has read or written itself.

    The memory is sound because an app id holds the checkpoint id, which nobody else has; reading
    a marker from Delta costs a Spark job, and each batch asks for every table it touches.
    """

    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    def once(self, table: LakeTable, identity: Identity, act: Callable[[], object]) -> bool:
        """Run ``act`` (one Delta command on the table's session) unless its commit is there.

        Returns whether it ran. Raises :class:`IngestError` when the command ended without leaving
        its marker, which would mean that something else stood in the session's configuration.
        """
        place = (table.path, identity.app_id)
        if place not in self._known:
            held = table.committed(identity.app_id)
            self._known[place] = -1 if held is None else held
        if self._known[place] >= identity.version:
            return False
        before = table.version()
        with _identified(table.session, identity):
            act()
        _refuse_unmarked(table, identity, before)
        self._known[place] = identity.version
        return True

    def append_once(
        self, session: SparkSession, path: str, schema: str, rows: DataFrame, identity: Identity
    ) -> bool:
        """Append rows to a table of ours, created when absent, under the same promise."""
        if not DeltaTable.isDeltaTable(session, path):
            builder = DeltaTable.createIfNotExists(session).location(path)
            parsed = _parse_datatype_string(schema)
            assert isinstance(parsed, StructType)
            builder.addColumns(parsed).execute()
        options = {"txnAppId": identity.app_id, "txnVersion": str(identity.version)}
        writer = rows.write.format("delta").mode("append").options(**options)
        return self.once(LakeTable(session, path), identity, lambda: writer.save(path))


def _refuse_unmarked(table: LakeTable, identity: Identity, before: int) -> None:
    log = Storage(table.session, f"{table.path}/_delta_log")
    for version in range(before + 1, table.version() + 1):
        for line in (log.read(f"{version:020d}.json") or "").splitlines():
            action = json.loads(line) if '"txn"' in line else {}
            txn = action.get("txn", {})
            if txn.get("appId") == identity.app_id and txn.get("version") == identity.version:
                return
    raise IngestError(
        "E-COMMIT-MARKER",
        f"A commit to {table.path} ended without its marker "
        f"({identity.app_id}, {identity.version}).",
        means="The batch is not complete; its offsets were not committed, nothing is lost.",
        remedy="run the pipeline again; if it says so again, report it with the Spark log.",
        exit_code=Exit.FAILED,
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
