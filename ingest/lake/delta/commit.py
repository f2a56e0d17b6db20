"""Exactly one replay-safe commit per table per step.

Delta skips a commit whose (``txnAppId``, ``txnVersion``) it has seen. How the pair gets into a commit
is the table's own (``TableHandle.identified``); afterwards the marker must stand in the table's log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ingest.lake.delta import fence_commit, other_writers
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.files.lease import LeaseLostError
from ingest.model.errors import Exit, IngestError
from ingest.model.names import Marker, numbered
from ingest.model.start_facts import Foreign
from ingest.schema.delta_types import fields_json


@dataclass(frozen=True)
class Identity:
    """What makes a commit this one and no other: app id, batch, step, and a note for history."""

    app_id: str
    batch: int
    step: int = 0
    note: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """(batch, step) as markers have it."""
        return numbered(self.batch, self.step)


@dataclass
class Committer:
    """Commits of one job. Remembers the markers it has read or written itself.

    The memory only saves reading: were it stale, because another job has committed since, Delta
    would skip our commit by its marker, and the missing marker is an error here. ``refuse_lost``
    raises when a successor has taken the lease.
    """

    term: int = 0
    refuse_lost: Callable[[], None] = lambda: None
    _known: dict[tuple[str, str], Marker] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)

    def once(
        self,
        table: TableHandle,
        identity: Identity,
        act: Callable[[], object],
        *,
        may_do_nothing: bool = False,
    ) -> bool:
        """Run ``act`` (one Delta command on the table) unless its commit is there.

        ``may_do_nothing``: a DELETE that matches no row, or a MERGE by delta-rs that changes none, makes
        no commit, so it leaves no marker either; again it would change nothing again.

        Returns whether it ran. Raises :class:`IngestError` when the command ended without leaving
        its marker, which would mean that something else stood in the session's configuration.
        """
        place = (table.path, identity.app_id)
        seen, marker = place in self._known, Marker(self.term, *identity.place)
        if self.holds(table, identity):
            if not seen:
                self._read_back_again(table, identity)
            return False
        self.refuse_lost()
        before = self._continued(table)
        with table.identified(identity.app_id, marker.version, identity.note):
            act()
        if not (may_do_nothing and table.version() == before):
            self._refuse_unmarked(table, identity, marker, before)
            table.read_back(identity.app_id, marker.version, before + 1)
        self._known[place] = marker
        self._versions[table.path] = table.version()
        return True

    def holds(self, table: TableHandle, identity: Identity) -> bool:
        """True when this commit, or one after it, stands in the table."""
        place = (table.path, identity.app_id)
        if place not in self._known:
            self._known[place] = Marker.parse(table.committed(identity.app_id) or 0)
        held = self._known[place]
        if held.term > self.term:
            raise LeaseLostError(f"term {held.term} has committed to {table.path}")
        return held.place >= identity.place

    def begin_anew(self) -> None:
        """Every table was looked at again and what others did there was decided upon."""
        self._versions.clear()

    def fence(self, table: SparkTable, *app_ids: str) -> None:
        """Put this job's term into a table under these app ids, keeping the batch and step of each.

        From this commit on, a predecessor that wakes up in the middle of a commit of its own meets
        a conflict (Delta: the transaction read this app id's version), and whatever it begins later
        is skipped, since its versions, which lead with its lower term, are lower. It touches no data.
        """
        for app_id, version in fence_commit.commit(table.session, table.path, app_ids, self.term):
            self._known[table.path, app_id] = Marker.parse(version)

    def append_once(
        self, session: SparkSession, path: str, schema: str, rows: DataFrame, identity: Identity
    ) -> bool:
        """Append rows to a table of ours, created when absent, under the same promise."""
        if not DeltaTable.isDeltaTable(session, path):
            builder = DeltaTable.createIfNotExists(session).location(path)
            builder.addColumns(StructType.fromJson(fields_json(schema))).execute()
        # As options, too: the rows may belong to another session than the one configured.
        options = {
            "txnAppId": identity.app_id,
            "txnVersion": str(Marker(self.term, *identity.place).version),
            **({"userMetadata": identity.note} if identity.note else {}),
        }
        writer = rows.write.format("delta").mode("append").options(**options)
        return self.once(SparkTable(session, path), identity, lambda: writer.save(path))

    def _continued(self, table: TableHandle) -> int:
        """The table's version, when nobody else has changed it since our last commit to it."""
        now = table.version()
        known = self._versions.get(table.path, now)
        if now != known:
            found = other_writers.since(table, known).foreign if now > known else None
            if found or now < known:
                raise ForeignCommitError(table.path, found or Foreign(now, "made again"))
        return now

    def _read_back_again(self, table: TableHandle, identity: Identity) -> None:
        """Whoever made this commit may have died before it was read back."""
        held = self._known[table.path, identity.app_id]
        if held.place == identity.place:
            table.read_back(identity.app_id, held.version)

    def _refuse_unmarked(
        self, table: TableHandle, identity: Identity, marker: Marker, before: int
    ) -> None:
        for _, actions in table.commits(before + 1):
            for txn in (action["txn"] for action in actions if "txn" in action):
                if txn["appId"] == identity.app_id and txn["version"] == marker.version:
                    return
        newest = Marker.parse(table.committed(identity.app_id) or 0)
        if newest.term > self.term:
            raise LeaseLostError(f"term {newest.term} has committed to {table.path}")
        raise _unmarked(table, identity)


def _unmarked(table: TableHandle, identity: Identity) -> IngestError:
    return IngestError(
        "E-COMMIT-MARKER",
        f"A commit to {table.path} ended without its marker "
        f"({identity.app_id}, batch {identity.batch}, step {identity.step}).",
        means="The batch is not complete; its offsets were not committed, nothing is lost.",
        remedy="run the pipeline again; if it says so again, report it with the Spark log.",
        exit_code=Exit.FAILED,
    )


def sibling(session: SparkSession) -> SparkSession:
    """A session of one's own on the same Spark, with the runtime settings of the first.

    Commit identity lives in session configuration; a thread that shared a session would commit
    under another thread's identity, or be skipped in silence (``tests/capability/test_delta.py``).
    """
    jvm_session = session._jsparkSession.cloneSession()
    return SparkSession(session.sparkContext, jvm_session)
