"""Reading the manifest without Spark: milliseconds, for status, the live view and the audit."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.lake.delta.delta_sql import queried
from ingest.model.manifest import Entry
from ingest.model.names import manifest_path

_FOLLOWED = 60.0
"""Seconds since the last look within which the log is followed: what came after must still be there
(``schedule`` keeps five hundred commits, the fastest job's of more than a minute)."""


class Ledger:
    """The manifest of one lake, opened once and updated from its log."""

    def __init__(self, lake: str) -> None:
        self._path = manifest_path(lake)
        self._table: DeltaTable | None = None
        self._looked = 0.0
        self._newest: tuple[int, list[Entry]] | None = None
        self._lock = threading.Lock()

    def entries(self, newest: int = 1, *, below: int | None = None) -> list[Entry]:
        """The newest batches, or the newest ones with a number below, newest first; empty before the first."""
        with self._lock:
            try:
                now = time.monotonic()
                if self._table is None or now - self._looked > _FOLLOWED:
                    self._table = DeltaTable(self._path)
                else:
                    self._table.update_incremental()
                self._looked = now
            except TableNotFoundError:
                return []
            version = self._table.version()
            known = self._newest if below is None else None
            if known and known[0] == version and len(known[1]) >= newest:
                return known[1][:newest]
            end = _greatest(self._table) + 1 if below is None else below
            found = _below(self._table, end, newest)
            if below is None:
                self._newest = (version, found)
            return found

    def last(self) -> Entry | None:
        """The newest batch."""
        found = self.entries(1)
        return found[0] if found else None

    def total_changes(self) -> int:
        """Changes applied so far, over all batches."""
        with self._lock:
            try:
                table = DeltaTable(self._path)
            except TableNotFoundError:
                return 0
            (total,) = queried(table, "SELECT sum(changes) AS changes FROM rows")
            return int(total["changes"] or 0)


def _below(table: DeltaTable, end: int, newest: int) -> list[Entry]:
    """So many rows with a number below ``end``, newest first. Where they lie says which files hold them, so that no others
    are read; and where numbers were left out (a batch of thousands of DDLs, a start that uses none twice), it is looked
    further back.
    """
    span = newest
    while True:
        asked = f"SELECT * FROM rows WHERE batch_id >= {end - span} AND batch_id < {end}"
        rows = queried(table, f"{asked} ORDER BY batch_id DESC LIMIT {newest}")
        if len(rows) == newest or end - span <= 1:
            return [Entry.from_row(row) for row in rows]
        span *= 8


def _greatest(table: DeltaTable) -> int:
    """The newest batch's number, by the statistics of the files where they all have them."""
    files = pa.table(table.get_add_actions(flatten=True))
    name = "max.batch_id"
    if name in files.column_names and not files[name].null_count:
        return int(pc.max(files[name]).as_py() or 0)
    (row,) = queried(table, "SELECT max(batch_id) AS newest FROM rows")
    return int(row["newest"] or 0)


def age(entry: Entry, now: float) -> timedelta | None:
    """How long before ``now`` (epoch seconds) the newest applied change was committed."""
    return timedelta(seconds=now - entry.source_time.timestamp()) if entry.source_time else None
