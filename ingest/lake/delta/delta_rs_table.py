"""The second way to commit: delta-rs, in the driver's own process.

Spark plans a MERGE for about a second before a few rows reach a file; delta-rs takes some 30 ms, and reads
and rewrites the same files (docs/performance.md). The promise is the same one: the guards stand in the
clauses, and the commit carries its identity. What delta-rs does not do by itself is done here. It does not
skip a commit whose identity it has seen, so the table is looked at first (``Committer.once``), and the
commit may only be the very next version after what was looked at: whoever has committed in between, a
successor's fence included, makes it fail (``workspace``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import PostCommitHookProperties, WriterProperties, write_deltalake

from ingest.lake.delta import delta_log, lasting_commits, statistics_commit
from ingest.lake.delta.data_files import names_at, unneeded
from ingest.lake.delta.delta_log import Action, TornCommitError, UnknownLogError
from ingest.lake.delta.delta_snapshot import LiveFile, TableState, asked_of_writers
from ingest.lake.delta.delta_sql import queried
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_features import kept_for
from ingest.lake.delta.workspace import Scratch, scratch
from ingest.lake.files import file_cache, table_files
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.object_files import asked, opened
from ingest.model.location import delta_rs_folder, delta_rs_place
from ingest.model.names import RESERVED_COLUMN, Marker, scratch_of
from ingest.model.start_facts import Foreign
from ingest.targets.target import MergePlan

CHECKPOINT_EVERY = 20
"""Commits. Readers replay the log from the last checkpoint on; delta-rs alone would make one every 100."""

COMPRESSION = WriterProperties(
    compression="ZSTD", compression_level=1, dictionary_page_size_limit=64 * 2**10
)
"""A file of 125,000 rows of the benchmark's table: 0.35 MB, where Snappy and dictionaries of a megabyte make 2.3, in
less time: columns that hardly repeat are not made a dictionary of."""

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaRsTable:
    """A Delta table, read once and followed by its log: a ``TableHandle``. ``room``: a local folder for what is being
    written (``names.scratch_of``), best on the same disk.

    Raises ``ValueError`` for a table that delta-rs does not find.
    """

    def __init__(self, table: SparkTable, room: Path) -> None:
        at = table_files.at(table.path)
        if at is None:
            raise ValueError(f"delta-rs does not find {table.path}")
        self.path, self.at = table.path, at
        self._room = room
        self._state: TableState | None = None
        self._identity: tuple[str, int, str] | None = None
        self._checkpoints = 0
        self._own = -1
        """The newest version that went through a workspace, which has made it lasting."""
        self.merges = self.rows_written = 0
        """Commits of rows by this object, or by Spark (:meth:`was_merged_into`), and how many rows they wrote."""

    def version(self) -> int:
        """The newest version number. Raises ``UnknownLogError`` where its log is of a kind that is not read here."""
        return self._newest().version

    def id(self) -> str:
        """Delta's id of the table, as of the last look at its version; so are the facts below."""
        return str(self.state.metadata["id"])

    def committed(self, app_id: str) -> int | None:
        """The highest ``txnVersion`` that this table holds for an app id."""
        return self.state.markers.get(app_id)

    def commits(self, start: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """See ``TableHandle.commits``."""
        for version in range(start, self.version() + 1):
            yield version, delta_log.read(self.at, version) or []

    def metadata_at(self, version: int) -> Action | None:
        """See ``TableHandle.metadata_at``."""
        try:
            return TableState.of_version(self.at, version).metadata
        except TornCommitError:
            raise
        except UnknownLogError:
            return None

    def read_back(self, app_id: str, version: int, start: int | None = None) -> None:
        """Nothing: what delta-rs writes is put right before it is committed (``workspace``)."""

    def make_lasting(self, start: int) -> None:
        """See ``TableHandle.make_lasting``: what somebody else has committed; ours is lasting before it is there."""
        if self.at.local and (start != self._own or self.version() != self._own):
            lasting_commits.make_lasting(self.at.folder, start)

    def features(self) -> frozenset[str]:
        """See ``delta_snapshot.asked_of_writers``; partitions are none of Delta's features, but nothing that is written here."""
        partitions = ["partitions"] if self.state.metadata.get("partitionColumns") else []
        return asked_of_writers(
            self.state.protocol["minWriterVersion"], self.state.features, partitions
        )

    def size(self) -> tuple[int, int]:
        """Bytes and rows of its files; no rows where one does not say how many it has."""
        files = self.state.files.values()
        rows = [one.rows for one in files]
        known = [count for count in rows if count is not None]
        size = sum(int(one.add["size"]) for one in files)
        return size, sum(known) if len(known) == len(rows) else 0

    def ordinals(self, contents: Sequence[str]) -> dict[str, int]:
        """Of a multiset: content to its highest ordinal, for those of these that are there."""
        asked = ", ".join(f"'{content}'" for content in contents)  # hashes, so nothing to escape
        sql = (
            f"SELECT {RESERVED_COLUMN}['content'] AS content, "
            f"max({RESERVED_COLUMN}['ordinal']) AS ordinal FROM rows "
            f"WHERE {RESERVED_COLUMN}['content'] IN ({asked}) GROUP BY 1"
        )
        with self.scratch(self.state.files.values()) as work:
            return {row["content"]: row["ordinal"] for row in queried(work.table, sql)}

    @contextmanager
    def identified(self, app_id: str, version: int, note: str) -> Iterator[None]:
        """What is committed inside carries this identity."""
        self._identity = (app_id, version, note)
        try:
            yield
        finally:
            self._identity = None

    def scratch(
        self, files: Iterable[LiveFile], like: TableState | None = None
    ) -> AbstractContextManager[Scratch]:
        """A place to work on these files of the table as of the last look; what is done there is to be committed. ``like``: what the table is
        to be then; None: as it is.
        """
        return scratch(self._room, like or self.state, files)

    def merge(self, rows: pa.Table, plan: MergePlan, *, prune: Sequence[str]) -> None:
        """One MERGE as the next version, or none when no row of the table changes. ``prune``: the key's columns
        where files whose range the rows do not touch can be passed over (``delta_rs_limits.may_prune``), or none. Raises
        as :meth:`append` does.
        """
        if not rows.num_rows:
            return
        with self.scratch(self.state.reached_by(rows, prune)) as work:
            merger = work.table.merge(
                rows,
                plan.match,
                source_alias="s",
                target_alias="t",
                streamed_exec=not prune,
                writer_properties=COMPRESSION,
                post_commithook_properties=NO_HOOKS,
            )
            if plan.delete_when:
                merger = merger.when_matched_delete(plan.delete_when)
            if plan.update_when:
                merger = merger.when_matched_update(plan.assignments, plan.update_when)
            done = merger.when_not_matched_insert(plan.assignments, plan.insert_when).execute()
            info, actions = work.done(delta_log.now_ms())
            if actions:
                self.commit(work, info, actions, rows=int(done["num_output_rows"]))

    def add(self, rows: pa.Table) -> bool:
        """Rows of keys that no file may hold as the next version, or none where there is no row: what a MERGE of them
        makes, in half its time. False where it takes a MERGE: the table's columns are others, or mapped. Raises as
        :meth:`append` does.
        """
        with self.scratch(()) as work:
            schema = pa.schema(work.table.schema().to_arrow())
            if "columnMapping" in self.state.features or {*schema.names} != {*rows.schema.names}:
                return False
            if rows.num_rows:
                write_new(work, typed(rows, schema))
                self.commit(work, *work.done(delta_log.now_ms()), rows=rows.num_rows)
        return True

    def append(self, rows: pa.Table, how: WriterProperties = COMPRESSION) -> None:
        """Add rows as the next version; ``how`` their file is written.

        Raises :class:`LeaseLostError` or :class:`ForeignCommitError` when somebody else has committed.
        """
        with self.scratch(()) as work:
            write_new(work, rows, how)
            self.commit(work, *work.done(delta_log.now_ms()), rows=rows.num_rows)

    def commit(self, work: Scratch, info: Action, actions: Sequence[Action], rows: int) -> None:
        """These actions as the next version, ``rows`` new rows among them; ``info``: what it says of itself.
        Raises as :meth:`append` does.
        """
        assert self._identity is not None
        app_id, version, note = self._identity
        # What was looked at may be older than this version of the table, which the commit rests upon.
        self._refuse_succeeded(app_id, version)
        # Before a commit: one that has failed may be made by Spark instead, one that has succeeded may not.
        self._checkpoint_when_due()
        said = {**info, "readVersion": self.state.version}
        if note:
            said["userMetadata"] = note
        own = self.state.version + 1
        done = work.commit([{"commitInfo": said}, _marked(app_id, version), *actions])
        self._newest()
        if not done:
            self._refuse_succeeded(app_id, version)
            by = Foreign(self.version(), "a commit at the same time")
            raise ForeignCommitError(self.path, by)
        self._own = own
        self.merges += 1
        self.rows_written += rows

    def was_merged_into(self) -> None:
        """Spark has made the commit that was looked at last. How many rows it wrote, its files say."""
        actions = delta_log.read(self.at, self.state.version) or []
        self.merges += 1
        self.rows_written += sum(LiveFile(one["add"]).rows or 0 for one in actions if "add" in one)

    def vacuum(self, hours: int, refuse_lost: Callable[[], None], first: int | None = None) -> int:
        """Remove files that no version of the last ``hours`` has, nor version ``first``, which somebody needs; returns how many. Its log is ``delta_log.cut``'s. What is no
        file of its own is somebody else's. Raises what ``refuse_lost`` does, which is asked where a successor has the lease.

        A checkpoint has forgotten which files were removed, and when, before what the table's property said then: from there on a file goes by its own age,
        so those of ``first`` are looked up.

        delta-rs names the files, and only then the lease is asked for. Were delta-rs to remove them, too, a job that is
        suspended in the middle and wakes up hours later would look with old eyes: a file that its successor has made,
        and that is older than ``hours`` by now, would be one that no version has. So what is named counts only if nobody
        has taken over or committed since, and what is removed is what was named before that. Names are drawn by lot,
        never used again: a file that no version has stays one, however long this job is suspended from here on.
        """
        self.version()
        self._keep_for(hours)
        seen = opened(self.at.place)
        with asked(self.at.place):
            named = seen.vacuum(hours, dry_run=True, full=True)
        refuse_lost()
        if self.version() != seen.version():
            return 0
        needed = set() if first is None else names_at(self.at.place, first)
        gone = unneeded(named, self.state.configuration, needed)
        self.at.drop(gone, in_turn=False)
        return len(gone)

    def _keep_for(self, hours: int) -> None:
        """Have the table itself say for how long its versions stay: all that vacuum, or clean the log, go by it."""
        kept, state = kept_for(hours, by_checkpoints=False), self.state
        if kept.items() <= state.configuration.items():
            return
        self.describe(
            {"configuration": {**state.configuration, **kept}},
            "SET TBLPROPERTIES",
            {"properties": json.dumps(kept)},
        )

    def describe(
        self,
        changed: Action,
        operation: str,
        parameters: Mapping[str, str],
        protocol: Action | None = None,
        *,
        marked: bool = False,
    ) -> None:
        """Its metadata with these parts changed, as a commit that brings no rows. ``protocol``: another one, which that needs; ``marked``: it
        carries the identity that stands. Raises :class:`ForeignCommitError`, and :class:`LeaseLostError` as :meth:`append` does.
        """
        said, note = [{"protocol": protocol}] if protocol else list[Action](), ""
        if marked:
            assert self._identity is not None
            app_id, version, note = self._identity
            self._refuse_succeeded(app_id, version)
            self._checkpoint_when_due()
            said.append(_marked(app_id, version))
        metadata = {"metaData": {**self.state.metadata, **changed}}
        done = self._commit_alone(
            self.state.version, operation, parameters, [*said, metadata], note
        )
        if not done:
            if marked:
                self._refuse_succeeded(app_id, version)
            raise ForeignCommitError(
                self.path, Foreign(self.version(), "a commit at the same time")
            )

    def restate(self, of: int, files: Sequence[Action], marker: tuple[str, int]) -> None:
        """See ``read_back.Written``."""
        said = [_marked(*marker), *({"add": add} for add in files)]
        # Spark makes one at its own commits alone, and may never meet the number for it beside ours.
        self._checkpoint_when_due()
        self._commit_alone(of, statistics_commit.OPERATION, {"predicate": "[]"}, said)

    def _commit_alone(
        self,
        of: int,
        operation: str,
        parameters: Mapping[str, str],
        actions: Sequence[Action],
        note: str = "",
    ) -> bool:
        """A commit that brings no rows, as the very next version after ``of``: delta-rs itself would put it behind what a successor has
        committed. False where there is one.
        """
        now = delta_log.now_ms()
        info = {"timestamp": now, "operation": operation, "operationParameters": parameters}
        if note:
            info["userMetadata"] = note
        done = delta_log.write(self.at, of + 1, [{"commitInfo": info}, *actions])
        self._newest()
        return done

    def _checkpoint_when_due(self) -> None:
        due = self.state.version // CHECKPOINT_EVERY
        if due > self._checkpoints:
            table = opened(self.at.place)
            with asked(self.at.place):
                table.create_checkpoint()
                if self.at.local:
                    lasting_commits.make_lasting(self.at.folder, table.version())
            self._checkpoints = due

    def _refuse_succeeded(self, app_id: str, version: int) -> None:
        held = Marker.parse(self.committed(app_id) or 0)
        if held.term > Marker.parse(version).term:
            raise LeaseLostError(f"term {held.term} has committed to {self.path}")

    @property
    def state(self) -> TableState:
        """As it was when it was last looked at."""
        return self._state or self._newest()

    def _newest(self) -> TableState:
        state, self._state = (
            self._state,
            None,
        )  # not to be used again when it cannot be read to its end
        if state is None or not state.follow():
            state = TableState.read(self.at)
            self._checkpoints = max(0, state.version - 1) // CHECKPOINT_EVERY
        self._state = state
        return state


def _marked(app_id: str, version: int) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": delta_log.now_ms()}}


def within_reach(table: SparkTable, lake: str, term: int = 0) -> DeltaRsTable | None:
    """A table of this lake, where it is in a local folder or an object store, with a plain name, and its log can be read here. ``term``: of
    the job that writes to it; 0 for who only looks. Raises :class:`TornCommitError`: to anybody else such a commit looks
    like one without actions.
    """
    found = unread(table, lake, term)
    return found if found is not None and is_read(found) else None


def is_read(table: DeltaRsTable) -> bool:
    """Looks at its newest version; False where its log is of a kind that is not read here. Raises :class:`TornCommitError`."""
    try:
        table.version()
    except TornCommitError:
        raise
    except UnknownLogError:
        return False
    return True


def unread(table: SparkTable, lake: str, term: int, flow: str = "") -> DeltaRsTable | None:
    """The same without a look at its log, which may not have begun. ``flow``: whose term it is; empty for the mirrors' job."""
    if delta_rs_place(lake) is None or delta_rs_place(table.path) is None:
        return None
    room = delta_rs_folder(scratch_of(lake, term, flow)) or file_cache.of_this_process().root
    return DeltaRsTable(table, room)


def typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns in a table's order, of its types."""
    return pa.table([rows[one.name].cast(one.type) for one in schema], schema=schema)


def write_new(work: Scratch, rows: Any, how: WriterProperties = COMPRESSION) -> None:
    """Rows as new files in a scratch: anything that exports Arrow."""
    write_deltalake(
        work.table,
        rows,
        mode="append",
        writer_properties=how,
        post_commithook_properties=NO_HOOKS,
    )
