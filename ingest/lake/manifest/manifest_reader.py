"""Reading the manifest without Spark, for status, the live view and the audit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.lake.delta.delta_sql import queried
from ingest.lake.files.object_files import asked, opened
from ingest.lake.files.storage import files_at
from ingest.lake.manifest.part_rows import Fold
from ingest.model.errors import IngestError
from ingest.model.location import within_reach
from ingest.model.manifest import Entry
from ingest.model.names import manifest_path

_BLOCK = 200
"""Rows that are read together by who looks back."""

_FOLLOWED = 60.0
"""Seconds since the last look within which the log is followed: what came after must still be there
(``schedule`` keeps five hundred commits, the fastest job's of more than a minute)."""


def newest_term(lake: str) -> int:
    """Of the lease, that the newest batch was published under. 0 before the first, and where the manifest cannot be read: it may be of another
    format, or torn by a power cut, which is looked at behind the lease. Raises :class:`IngestError` where a store, or a name node, is away.
    """
    try:
        newest = Ledger(lake).last()
    except Exception as failure:
        if isinstance(failure, IngestError) and failure.may_pass:
            raise
        if not within_reach(lake):
            # What delta-rs says there does not tell a server that is away from a manifest that cannot be read. Spark's own way there does.
            files_at(manifest_path(lake)).names("")
        return 0
    return newest.term if newest else 0


class Ledger:
    """The manifest of one lake, opened once and updated from its log."""

    def __init__(self, lake: str) -> None:
        self._path = manifest_path(lake)
        self._table: DeltaTable | None = None
        self._looked = 0.0
        self._newest: tuple[int, Fold, Entry] | None = None
        """As of which version of the manifest, and what its newest row says."""
        self._lock = threading.Lock()

    def entries(self, newest: int = 1, *, below: int | None = None) -> list[Entry]:
        """The newest batches, or the newest ones with a number below, newest first; empty before the first. Those of which
        the whole row is gone, as old ones are, are not among them.
        """
        with self._lock:
            if (table := self._current()) is None:
                return []
            if below is None and newest == 1:
                found = self._last(table)
                return [found] if found else []
            end = _greatest(table) + 1 if below is None else below
            return _newest_of(table, newest, end)

    def back(self, below: int) -> Iterator[Entry]:
        """The batches with a number below, newest first, read as they are asked for."""
        while block := self.entries(_BLOCK, below=below):
            yield from block
            below = block[-1].batch_id

    def last(self) -> Entry | None:
        """The newest batch. Raises :class:`IngestError` where rows are missing that it rests upon."""
        found = self.entries(1)
        return found[0] if found else None

    def total_changes(self) -> int:
        """Changes applied so far, over all batches."""
        with self._lock:
            if (table := self._current()) is None:
                return 0
            newest = _greatest(table)
            if _has(table, "total_changes"):
                asked = f"SELECT total_changes FROM rows WHERE batch_id = {newest}"
                for row in queried(table, asked):
                    if row["total_changes"] is not None:
                        return int(row["total_changes"])
            # Written by a version that did not count them, and removed no rows.
            (total,) = queried(table, "SELECT sum(changes) AS changes FROM rows")
            return int(total["changes"] or 0)

    def _current(self) -> DeltaTable | None:
        try:
            now = time.monotonic()
            if self._table is None or now - self._looked > _FOLLOWED:
                self._newest = None  # whatever became of the manifest meanwhile
                self._table = opened(self._path)
            else:
                with asked(self._path):
                    self._table.update_incremental()
            self._looked = now
        except TableNotFoundError:
            return None
        return self._table

    def _last(self, table: DeltaTable) -> Entry | None:
        version = table.version()
        if self._newest and self._newest[0] == version:
            return self._newest[2]
        number = _greatest(table)
        if number == 0:
            return None
        fold = self._gone_on(table, number) if self._newest else None
        if fold is None:
            fold = _folded(table, number, number + 1)[1]
        if fold.newest is None or fold.newest.batch_id != number:
            raise _broken(self._path, number)
        found = fold.entry()
        self._newest = (version, fold, found)
        return found

    def _gone_on(self, table: DeltaTable, number: int) -> Fold | None:
        """What is known with the rows since; None where they do not follow."""
        assert self._newest is not None
        known, self._newest = self._newest, None  # not to be used again when it fails in between
        fold = known[1]
        if number < known[2].batch_id:
            return None
        for row in _rows(table, known[2].batch_id + 1, number + 1):
            if not fold.goes_on_with(row):
                return None
            fold.take(row)
        return fold


def _rows(table: DeltaTable, start: int, end: int) -> list[dict[str, Any]]:
    """Rows of a half-open range of numbers, ascending."""
    asked = f"SELECT * FROM rows WHERE batch_id >= {start} AND batch_id < {end}"
    return queried(table, f"{asked} ORDER BY batch_id")


def _whole(table: DeltaTable, start: int, end: int) -> int:
    """Where the whole row is that the first row of such a range rests upon; asked alone, a tenth of the time of a look at all
    columns.
    """
    if not _has(table, "base"):
        return start
    within = f"batch_id >= {start} AND batch_id < {end}"
    asked = f"SELECT base FROM rows WHERE {within} ORDER BY batch_id LIMIT 1"
    return min([start, *(int(row["base"]) for row in queried(table, asked) if row["base"])])


def _has(table: DeltaTable, column: str) -> bool:
    return column in {field.name for field in table.schema().fields}


def _folded(table: DeltaTable, start: int, end: int) -> tuple[list[Entry], Fold]:
    """The batches of such a range that can be made out, ascending."""
    fold, found = Fold(), list[Entry]()
    for row in _rows(table, _whole(table, start, end), end):
        if fold.goes_on_with(row):
            fold.take(row)
            if row["batch_id"] >= start:
                found.append(fold.entry())
    return found, fold


def _newest_of(table: DeltaTable, newest: int, end: int) -> list[Entry]:
    """So many batches with a number below ``end``, newest first. Where they lie says which files hold them, so that no others
    are read; and where numbers were left out (a batch of thousands of DDLs, a start that uses none twice), it is looked
    further back.
    """
    span = newest
    while True:
        found = _folded(table, end - span, end)[0]
        if len(found) >= newest or end - span <= 1:
            return found[::-1][:newest]
        span *= 8


def _greatest(table: DeltaTable) -> int:
    """The newest batch's number, by the statistics of the files where they all have them; 0 before the first."""
    files = pa.table(table.get_add_actions(flatten=True))
    name = "max.batch_id"
    if name in files.column_names and not files[name].null_count:
        return int(pc.max(files[name]).as_py() or 0)
    (row,) = queried(table, "SELECT max(batch_id) AS newest FROM rows")
    return int(row["newest"] or 0)


def _broken(path: str, number: int) -> IngestError:
    return IngestError(
        "E-MANIFEST-BROKEN",
        f"Row {number} of the manifest, its newest, rests upon rows that are not there: somebody has removed some of {path}.",
        means="What of the source the lake holds cannot be read from what is left; nothing was touched.",
        remedy=f"find the version before that by DESCRIBE HISTORY delta.`{path}`, bring it back by RESTORE TABLE, and run again.",
    )


def age(entry: Entry, now: float) -> timedelta | None:
    """How long before ``now`` (epoch seconds) the newest applied change was committed."""
    return timedelta(seconds=now - entry.source_time.timestamp()) if entry.source_time else None
