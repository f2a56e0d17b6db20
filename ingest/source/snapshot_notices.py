"""What the connector has said of its snapshots, in the topic of its notifications: which request has begun, and what of it was
read. Pure.

An incremental snapshot's notification names the signal, which is the ids of all its requests; a blocking one's does not, so of
that one the place in the topic tells whether it came after the request.

Debezium (3.6.1) collects a chunk's rows before it sends them. Where it gives a table up, by an error of SQL's in the middle of a
chunk or since the thread that takes signals and the one that streams have met, what it has collected stays: it is sent as
rows of the table that is read next, in the same signal or in a later one, or as older rows of the very table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.source.resync_request import Request

TOGETHER = ","
"""Between the ids of the requests that one signal carries."""
_READ = ("SUCCEEDED", "EMPTY")
_NOTHING_COLLECTED = ("SKIPPED", "UNKNOWN_SCHEMA", "NO_PRIMARY_KEY")
"""Statuses of tables that are given up before a row of theirs is read."""

Scan = tuple[str, str]
"""(a request's id, the scanned table): a signal is named by the ids of all its requests."""


@dataclass
class SnapshotNotices:
    """Of one connector, from the beginning of the topic: :meth:`take` is to be told each, in order."""

    begun: int = -1
    """Where a blocking snapshot that is under way was said to begin; -1 while none is."""
    ended: float = 0.0
    """When the newest of these was known to have ended, by the monotonic clock."""
    _started: set[str] = field(default_factory=set)
    _completed: set[Scan] = field(default_factory=set)
    _failed: set[Scan] = field(default_factory=set)
    """Scans that read nothing, of signals that have not begun anew since."""
    _empty: set[Scan] = field(default_factory=set)
    """Scans that found no row."""
    _collected: bool = False
    """Whether rows of a table that was given up may still wait to be sent: the next table that brings rows sends them."""
    _spoilt: set[Scan] = field(default_factory=set)
    """Scans that may have sent such rows."""
    _half_read: set[Scan] = field(default_factory=set)
    """Scans that were given up when rows may have been collected, once at least."""
    _read_at: dict[str, int] = field(default_factory=dict)
    """By table: where it was said that another snapshot than an incremental one begins to read it."""
    _scanned: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """By other snapshots than incremental ones: table to where that was said, and whether it was empty."""

    def take(self, said: Mapping[str, Any], offset: int, now: float) -> None:
        """The next notification, its place in the topic, and the monotonic clock."""
        kind, more = said.get("type"), said.get("additional_data") or {}
        if said.get("aggregate_type") == "Initial Snapshot":  # so a blocking one is called, too
            self._take_blocking(kind, more, offset, now)
        elif said.get("aggregate_type") == "Incremental Snapshot":
            self._take_incremental(kind, more, said["id"].split(TOGETHER))

    def _take_blocking(
        self, kind: object, more: Mapping[str, str], offset: int, now: float
    ) -> None:
        if kind == "STARTED":
            self.begun = offset
        elif kind == "ABORTED":
            self.begun = -1
        elif kind in ("COMPLETED", "SKIPPED"):
            # A task that begins skips its snapshot: one that was under way has ended with the task before.
            self.begun, self.ended = -1, now
        elif kind == "IN_PROGRESS":
            self._read_at[more.get("current_collection_in_progress", "")] = offset
        elif kind == "TABLE_SCAN_COMPLETED" and more.get("status") in _READ:
            table = more.get("scanned_collection", "")
            # As of when it began: what was asked for meanwhile is read behind it.
            self._scanned[table] = (self._read_at.get(table, offset), _found_no_row(more))

    def _take_incremental(self, kind: object, more: Mapping[str, str], asked: list[str]) -> None:
        if kind == "STARTED":
            self._failed = {(one, table) for one, table in self._failed if one not in asked}
        self._started.update(asked)
        if kind != "TABLE_SCAN_COMPLETED":
            return
        table, status = more.get("scanned_collection", ""), more.get("status")
        scans, empty = {(one, table) for one in asked}, _found_no_row(more)
        if status in _READ:
            self._completed |= scans
            # By the newest scan: one that was sent again may have met rows.
            self._empty = self._empty | scans if empty else self._empty - scans
            if not empty:
                self._sent(scans, collected=False)
            return
        # Not read: what is absent from it says nothing about the source.
        self._failed |= scans
        if status not in _NOTHING_COLLECTED:  # its count of rows leaves out the chunk in hand
            self._half_read |= scans
            self._sent(scans, collected=True)

    def _sent(self, scans: set[Scan], *, collected: bool) -> None:
        """These have sent what was collected before, if anything was. ``collected``: rows of theirs may be by now."""
        if self._collected:
            self._spoilt |= scans
        self._collected = collected

    def has_begun(self, one: Request) -> bool:
        """Whether an incremental snapshot of it has begun, whatever came of it."""
        return one.id in self._started

    def is_started(self, one: Request) -> bool:
        """Whether an incremental snapshot of it has begun, and its table was not given up since."""
        return one.id in self._started and (one.id, one.collection) not in self._failed

    def is_read(self, one: Request) -> bool:
        """Whether an incremental snapshot has read all of its table."""
        return (one.id, one.collection) in self._completed

    def is_over(self, one: Request) -> bool:
        """Whether an incremental snapshot has read its table, or given it up."""
        scan = (one.id, one.collection)
        return scan in self._completed or scan in self._failed

    def was_given_up(self, one: Request) -> bool:
        """Whether its table was given up, once at least: it is asked for alone from then on, so that it spoils no other's reading."""
        return (one.id, one.collection) in self._half_read

    def holds_other_rows(self, one: Request) -> bool:
        """Whether rows that were collected before, of a table that was given up, may stand among its own, or are about to."""
        scan = (one.id, one.collection)
        next_ = self._collected and self.is_started(one) and scan not in self._completed
        return scan in self._spoilt or next_

    def is_scanned(self, one: Request) -> bool:
        """Whether a blocking snapshot has read its table since it was asked for."""
        return self._scanned_at(one) >= one.heard

    def read_from(self, one: Request) -> int:
        """Where the newest reading of a blocking one is said to begin, or to have ended where that is all that is said; else -1."""
        begun = self._read_at.get(one.collection, -1)
        at = begun if begun >= one.heard else self._scanned_at(one)
        return at if one.kind == "BLOCKING" and at >= one.heard else -1

    def _scanned_at(self, one: Request) -> int:
        return self._scanned.get(one.collection, (-1, False))[0]

    def was_empty(self, one: Request) -> bool:
        """Whether the connector has read all of its table and found no row."""
        if one.kind == "BLOCKING":
            return self._scanned.get(one.collection, (-1, False))[1]
        return (one.id, one.collection) in self._empty


def _found_no_row(more: Mapping[str, str]) -> bool:
    return more.get("status") == "EMPTY" or more.get("total_rows_scanned") == "0"
