"""Exactly one replay-safe commit per table per step.

Delta skips a commit whose (``txnAppId``, ``txnVersion``) it has seen. How the pair gets into a commit
is the table's own (``TableHandle.identified``); afterwards the marker must stand in the table's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    _own: set[tuple[str, str]] = field(default_factory=set)
    """Where this job's own hand has been: elsewhere whoever made a commit may have died before it was read back."""
    _lasting: dict[str, int] = field(default_factory=dict)
    """By path of a table: the version up to which all of it outlasts a power cut."""

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
        its marker, which would mean that something else stood in the session's configuration, and
        :class:`ForeignCommitError` when somebody else has changed the table, before it or meanwhile.
        """
        place, marker = (table.path, identity.app_id), Marker(self.term, *identity.place)
        if self.holds(table, identity):
            if place not in self._own:
                self._read_back_again(table, identity)
                self._own.add(place)
            return False
        self.refuse_lost()
        before = self.continued(table)
        try:
            with table.identified(identity.app_id, marker.version, identity.note):
                act()
            self._look_back(table, identity, marker, before, may_do_nothing=may_do_nothing)
            self._keep(table, self._lasting.get(table.path, before))
        except BaseException:
            self._known.pop(place, None)  # it may be there: who tries it again has to look
            raise
        self._known[place] = marker
        self._own.add(place)
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

    def begin_anew(
        self, versions: Mapping[str, int] | None = None, lasting: Mapping[str, int] | None = None
    ) -> None:
        """Every table was looked at again and what others did there was decided upon. ``versions``: by path, what was
        looked at: what others do from there on is noticed, however long a table's next commit is away. ``lasting``: by
        path, up to which version all of it outlasts a power cut.
        """
        self._versions, self._lasting = dict(versions or {}), dict(lasting or {})
        self._known.clear()
        self._own.clear()

    def continued(self, table: TableHandle) -> int:
        """The table's version, when nobody else has changed it since our last commit to it, or since it was looked at
        (:meth:`begin_anew`). Raises :class:`ForeignCommitError`.
        """
        known = self._versions.get(table.path)  # first: another thread of ours may commit meanwhile
        now = table.version()
        if known is not None and now != known:
            found = other_writers.since(table, known).foreign if now > known else None
            if found or now < known:
                raise ForeignCommitError(table.path, found or Foreign(now, "made again"))
        self._versions[table.path] = now
        return now

    def brought_back(self, table: TableHandle) -> None:
        """By a RESTORE of this job's, which undoes whatever came since: from here on the table is as it is to be."""
        self._versions[table.path] = table.version()

    def fence(self, table: SparkTable, *app_ids: str) -> None:
        """Put this job's term into a table under these app ids, keeping the batch and step of each.

        From this commit on, a predecessor that wakes up in the middle of a commit of its own meets
        a conflict (Delta: the transaction read this app id's version), and whatever it begins later
        is skipped, since its versions, which lead with its lower term, are lower. It touches no data.
        """
        for app_id, version in fence_commit.commit(table.session, table.path, app_ids, self.term):
            self._known[table.path, app_id] = Marker.parse(version)
        table.make_lasting(table.version())

    def append_once(
        self,
        session: SparkSession,
        path: str,
        schema: str,
        rows: DataFrame,
        identity: Identity,
        *,
        adds_columns: bool = False,
    ) -> bool:
        """Append rows to a table of ours, created when absent, under the same promise. ``adds_columns``: those that it does not
        have yet.
        """
        table = SparkTable(session, path)
        if not DeltaTable.isDeltaTable(session, path):
            builder = DeltaTable.createIfNotExists(session).location(path)
            builder.addColumns(StructType.fromJson(fields_json(schema))).execute()
            table.make_lasting(0)
        return self.once(table, identity, lambda: table.append(rows, adds_columns=adds_columns))

    def to_publish(self, table: TableHandle) -> int:
        """The table's version, for the manifest: nobody else has changed it, and all of it is lasting, also what no ``once``
        has made. Raises :class:`ForeignCommitError`.
        """
        now = self.continued(table)
        self._keep(table, self._lasting.get(table.path, -1))
        return now

    def _keep(self, table: TableHandle, known: int) -> None:
        """What came after version ``known`` is lasting from here on, whoever has committed it."""
        now = table.version()
        if known < now:
            table.make_lasting(known + 1)
        self._lasting[table.path] = now

    def _read_back_again(self, table: TableHandle, identity: Identity) -> None:
        """Whoever made this commit may have died before it was read back."""
        held = self._known[table.path, identity.app_id]
        if held.place == identity.place:
            table.read_back(identity.app_id, held.version)

    def _look_back(
        self,
        table: TableHandle,
        identity: Identity,
        marker: Marker,
        before: int,
        *,
        may_do_nothing: bool,
    ) -> None:
        """Whether the commit after version ``before`` is there and is the only one that changed anything.

        Delta lets a MERGE commit behind another's append that came meanwhile: neither has read what the other wrote. So
        all versions up to the newest are looked at, and no later one is taken for known.
        """
        happened = other_writers.since(table, before, identity.app_id)
        if may_do_nothing and happened.version == before:
            return
        marked = (happened.markers or {}).get(identity.app_id) == marker.version
        if not marked:
            newest = Marker.parse(table.committed(identity.app_id) or 0)
            if newest.term > self.term:
                raise LeaseLostError(f"term {newest.term} has committed to {table.path}")
            if not may_do_nothing:
                raise _unmarked(table, identity)
        if happened.foreign:
            raise ForeignCommitError(table.path, happened.foreign)
        self._versions[table.path] = happened.version
        if marked:
            table.read_back(identity.app_id, marker.version, before + 1)


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
