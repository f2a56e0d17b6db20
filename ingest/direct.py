"""The second way to commit: delta-rs, in the driver's own process.

Spark plans a MERGE for about a second before a few rows reach a file; delta-rs takes some 30 ms, and reads
and rewrites the same files (docs/performance.md). The promise is the same one: the guards stand in the
clauses, and the commit carries its identity. What delta-rs does not do by itself is done here. It does not
skip a commit whose identity it has seen, so the table is looked at first (``Committer.once``), and the
commit may only be the very next version after what was looked at: whoever has committed in between, a
successor's fence included, makes it fail (capability test).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError

from ingest import table_log
from ingest.engine import features
from ingest.foreign import ForeignCommitError
from ingest.lease import LeaseLostError
from ingest.ledger import queried
from ingest.live_files import LiveFiles
from ingest.merge import MergePlan
from ingest.names import RESERVED_COLUMN, Marker
from ingest.start_facts import Foreign
from ingest.storage import local_folder
from ingest.table import LakeTable
from ingest.table_log import Action, Seen, is_there

CHECKPOINT_EVERY = 20
"""Commits. Readers replay the log from the last checkpoint on; delta-rs alone would make one every 100."""

COMPRESSION = WriterProperties(
    compression="ZSTD", compression_level=1, dictionary_page_size_limit=64 * 2**10
)
"""A file of 125,000 rows of the benchmark's table: 0.35 MB, where Snappy and dictionaries of a megabyte make 2.3, in
less time: columns that hardly repeat are not made a dictionary of."""

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DirectTable:
    """A Delta table in a local folder, opened once and followed by its log."""

    def __init__(self, table: LakeTable) -> None:
        self.path = table.path
        self._slow = table
        self._opened: DeltaTable | None = None
        self._seen: Seen | None = None
        self._identity: tuple[str, int, str] | None = None
        self._checkpoints = 0
        self._live: LiveFiles | None = None
        self.merges = self.rows_written = 0
        """Commits of rows by this object, and how many rows they wrote."""

    def version(self) -> int:
        """The newest version number."""
        return int(self._newest().version())

    def id(self) -> str:
        """Delta's id of the table, as of the last look at its version; so are the facts below."""
        return str(self.known().metadata().id)

    def committed(self, app_id: str) -> int | None:
        """The highest ``txnVersion`` that this table holds for an app id."""
        version = self.known().transaction_version(app_id)
        return None if version is None else int(version)

    def commits(self, start: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """See ``LakeTable.commits``."""
        folder = local_folder(self.path)
        for version in range(start, self.version() + 1):
            yield version, table_log.read(folder, version) or []

    def delta(self) -> Any:
        """The table as Spark's Delta has it."""
        return self._slow.delta()

    def features(self) -> frozenset[str]:
        """See ``engine.features``."""
        asked = self.known().protocol()
        return features(asked.min_writer_version, asked.reader_features, asked.writer_features)

    def size(self) -> tuple[int, int]:
        """Bytes and rows of its files; no rows where one does not say how many it has."""
        files = pa.table(self.known().get_add_actions())
        rows = files["num_records"].to_pylist()
        return sum(files["size_bytes"].to_pylist()), 0 if None in rows else sum(rows)

    def ordinals(self, contents: Sequence[str]) -> dict[str, int]:
        """Of a multiset: content to its highest ordinal, for those of these that are there."""
        asked = ", ".join(f"'{content}'" for content in contents)  # hashes, so nothing to escape
        sql = (
            f"SELECT {RESERVED_COLUMN}['content'] AS content, "
            f"max({RESERVED_COLUMN}['ordinal']) AS ordinal FROM rows "
            f"WHERE {RESERVED_COLUMN}['content'] IN ({asked}) GROUP BY 1"
        )
        return {row["content"]: row["ordinal"] for row in queried(self.known(), sql)}

    @contextmanager
    def identified(self, app_id: str, version: int, note: str) -> Iterator[None]:
        """What is committed inside carries this identity."""
        self._identity = (app_id, version, note)
        try:
            yield
        finally:
            self._identity = None

    def merge(self, rows: pa.Table, plan: MergePlan, *, prune: bool) -> None:
        """One MERGE as the next version, or none when no row of the table changes. ``prune``: read only
        files whose key range the rows touch. Raises as :meth:`append` does.
        """

        def act(table: DeltaTable, properties: CommitProperties) -> None:
            merger = table.merge(
                rows,
                plan.match,
                source_alias="s",
                target_alias="t",
                streamed_exec=not prune,
                writer_properties=COMPRESSION,
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            ).when_matched_delete(plan.delete_when)
            if plan.update_when:
                merger = merger.when_matched_update(plan.assignments, plan.update_when)
            done = merger.when_not_matched_insert(plan.assignments, plan.insert_when).execute()
            self._note_written(int(done["num_output_rows"]))

        if rows.num_rows:
            self._commit(act)

    def append(self, rows: pa.Table, how: WriterProperties = COMPRESSION) -> None:
        """Add rows as the next version; ``how`` their file is written.

        Raises :class:`LeaseLostError` or :class:`ForeignCommitError` when somebody else has committed.
        """

        def act(table: DeltaTable, properties: CommitProperties) -> None:
            write_deltalake(
                table,
                rows,
                mode="append",
                writer_properties=how,
                commit_properties=properties,
                post_commithook_properties=_NO_HOOKS,
            )
            self._note_written(rows.num_rows)

        self._commit(act)

    def live(self) -> LiveFiles:
        """Its files with their whole entries, as of the last look. Raises ``UnknownLogError``."""
        live, self._live = self._live or LiveFiles(local_folder(self.path)), None
        live.read_to(self.known().version())
        self._live = live
        return live

    def commit(self, actions: Sequence[Action], operation: str, rows: int) -> None:
        """These actions as the next version, ``rows`` new rows among them. Raises as :meth:`append` does."""

        def act(table: DeltaTable, _: CommitProperties) -> None:
            assert self._identity is not None
            app_id, version, note = self._identity
            now = time.time_ns() // 1_000_000
            info: Action = {"timestamp": now, "operation": operation, "operationParameters": {}}
            if note:
                info["userMetadata"] = note
            txn = {"appId": app_id, "version": version, "lastUpdated": now}
            whole = [{"commitInfo": info}, {"txn": txn}, *actions]
            if not table_log.write(local_folder(self.path), table.version() + 1, whole):
                raise CommitFailedError("somebody else was quicker")
            table.update_incremental()
            self._note_written(rows)

        self._commit(act)

    def _note_written(self, rows: int) -> None:
        self.merges += 1
        self.rows_written += rows

    def vacuum(self, hours: int) -> int:
        """Remove what no version of the last ``hours`` has, and in time the log of what came before; two or
        three commits that change no row. Returns how many files.
        """
        table, lasting = self._newest(), f"interval {hours} hours"
        kept = {
            "delta.logRetentionDuration": lasting,
            "delta.deletedFileRetentionDuration": lasting,
        }
        if not kept.items() <= table.metadata().configuration.items():
            table.alter.set_table_properties(kept)
        gone = table.vacuum(hours, dry_run=False, full=True, post_commithook_properties=_NO_HOOKS)
        self._newest()
        return len(gone)

    def _commit(self, act: Callable[[DeltaTable, CommitProperties], None]) -> None:
        assert self._identity is not None
        assert self._opened is not None
        app_id, version, note = self._identity
        # What was looked at may be older than this version of the table, which the commit rests upon.
        self._refuse_succeeded(app_id, version)
        properties = CommitProperties(
            custom_metadata={"userMetadata": note} if note else None,
            app_transactions=[Transaction(app_id, version)],
            max_commit_retries=0,
        )
        # Before a commit: one that has failed may be made by Spark instead, one that has succeeded may not.
        due = self._opened.version() // CHECKPOINT_EVERY
        if due > self._checkpoints:
            self._opened.create_checkpoint()
            self._opened.cleanup_metadata()
            self._checkpoints = due
        try:
            act(self._opened, properties)
            self._seen = Seen.at(local_folder(self.path), self._opened.version())
        except CommitFailedError:
            self._newest()
            self._refuse_succeeded(app_id, version)
            by = Foreign(self.version(), "a commit at the same time")
            raise ForeignCommitError(self.path, by) from None

    def _refuse_succeeded(self, app_id: str, version: int) -> None:
        assert self._opened is not None
        held = Marker.parse(self._opened.transaction_version(app_id) or 0)
        if held.term > Marker.parse(version).term:
            raise LeaseLostError(f"term {held.term} has committed to {self.path}")

    def known(self) -> DeltaTable:
        """As it was when it was last looked at."""
        return self._opened or self._newest()

    def _newest(self) -> DeltaTable:
        folder, seen = local_folder(self.path), self._seen
        if self._opened is None or seen is None or Seen.at(folder, seen.version) != seen:
            self._opened, self._live = DeltaTable(folder), None
            self._checkpoints = max(0, self._opened.version() - 1) // CHECKPOINT_EVERY
        elif is_there(folder, seen.version + 1):
            self._opened.update_incremental()
        else:
            return self._opened
        self._seen = Seen.at(folder, self._opened.version())
        return self._opened
