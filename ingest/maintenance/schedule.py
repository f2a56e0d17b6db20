"""What tables need beside their changes: files put in order, old versions removed. Between batches, by the one
writer that they have, so that it conflicts with nobody; one table at a time, so that no change waits long.

That this job is still the one writer is asked before each act, since it may have been suspended for hours anywhere. What
is removed by name is named first, and the lease is asked for between: a job that is suspended from there on removes what
nobody needed before its successor came.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from functools import cached_property, partial
from types import MappingProxyType

from pyspark.sql import SparkSession

from ingest.arrow import freed_memory
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import delta_log, own_commits
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.server_failure import is_away
from ingest.maintenance import old_changes, old_rows, vacuum_times
from ingest.maintenance.by_spark import SparkUpkeep
from ingest.maintenance.compaction import compact, files, unpacked
from ingest.maintenance.file_layout import Look, Written, choose, unpacked_within
from ingest.maintenance.upkeep import Upkeep
from ingest.maintenance.vacuum_times import VacuumTimes
from ingest.model.errors import IngestError
from ingest.model.location import delta_rs_place, is_local, local_folder
from ingest.model.names import (
    KEY_PROPERTY,
    Marker,
    is_left_over,
    manifest_path,
    scratch_path,
    upkeep_app_id,
)
from ingest.model.topics import TableId
from ingest.schema.change_log import LOG_PROPERTY

Duty = tuple[str, str, Callable[[], bool]]
"""A table's path, what is to be done for it, and who does it: whether anything was done."""

LOOK_EVERY = 4
"""MERGEs of a table, for a look at its files takes a millisecond or two."""

LOOK_AT_LOG_EVERY = 32
"""Appends to a change log. No order helps it, and no MERGE reads it: that its files are not too many is all that there is to do."""

_OF_MANIFEST = (1, 500)
"""Hours and versions that the manifest's own stay: all batches are in its newest one, and each adds a file. Nothing but
its own past hangs on the hour (``DeltaRsTable.vacuum``). Of a day, two batches a second would leave 170,000 files: 4 GB,
and two seconds for each look through them, where those of an hour take 0.2 GB and less than a tenth.
"""


def _hours_since(direct: DeltaRsTable, version: int) -> int:
    """Since a version was committed; 0 where its log is gone: then so are its files."""
    written = direct.at.written(delta_log.commit_name(version))
    if written is None:
        return 0
    return vacuum_times.hours_since(delta_log.read(direct.at, version) or [], written)


def _passes(failure: Exception) -> bool:
    """A server that is away for a moment is no reason to give a table's upkeep up."""
    return (isinstance(failure, IngestError) and failure.may_pass) or is_away(failure)


def _unsaid(_: Upkeep) -> None:
    """Of the manifest in a lake of Spark's, every ten minutes, whether there was anything to do or not."""


@dataclass
class _Known:
    """Of one table. ``merges``, ``rows``: of all MERGEs by the last look; ``cut_at``: the version at which its log
    was cut last.
    """

    written: Written = field(default_factory=Written)
    merges: int = 0
    rows: int = 0
    look: Look = field(default_factory=Look)
    cut_at: int | None = None
    days_dropped: date | None = None
    """The day on which old days of it were looked for last, and none was left."""
    appends: int = -1
    """``DeltaRsTable.merges`` when old days of it were looked for last, or removed."""


@dataclass
class Maintenance:
    """Of the tables of one lake: those that delta-rs writes, and by Spark the others. ``hours``: how long versions stay readable; ``versions``: how
    many at most. ``committer``: whose term it is, and who says whether it still is. ``pipeline``: whose lake it is. ``unread``: by path and
    id of a table, the lowest version that a flow has still to read, or to join with. ``days``: by table, how many its change log keeps; 0: all. ``flow``: whose tables they are; empty for mirrors and logs.
    """

    lake: str
    hours: int
    versions: int
    committer: Committer
    pipeline: str
    unread: Callable[[str, str], int | None] = lambda *_: None
    by_spark: SparkUpkeep | None = None
    days: Callable[[TableId], int] = lambda _: 0
    flow: str = ""
    _tables: defaultdict[str, _Known] = field(default_factory=lambda: defaultdict(_Known))
    _given_up: set[tuple[str, str]] = field(default_factory=set)
    _done: list[Upkeep] = field(default_factory=list)
    _swept: bool = False
    _served: tuple[str, str] | None = None
    """For which table what was done last."""
    _forgot: float = 0.0
    """When old rows of the manifest were last looked for, by this job."""

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        committer: Committer,
        session: SparkSession | None = None,
        *,
        unread: Callable[[str, str], int | None],
    ) -> Maintenance:
        """As the pipeline file says. ``session``: for tables that delta-rs does not write; None: none of these is looked after."""
        lake = pipeline.lake
        hours, versions = lake.history_hours, lake.history_versions
        upkeep = upkeep_app_id(pipeline.name)
        by_spark = SparkUpkeep(session, committer, upkeep, lake.path, unread) if session else None
        days = pipeline.change_log_days
        return cls(lake.path, hours, versions, committer, pipeline.name, unread, by_spark, days)

    def done(self) -> tuple[Upkeep, ...]:
        """What was done since this was asked last."""
        done, self._done = tuple(self._done), []
        return done

    def between_batches(
        self,
        tables: Sequence[DeltaRsTable],
        left: Mapping[str, int] = MappingProxyType({}),
    ) -> bool:
        """Do what is due for one of these tables at most, each in its turn; whether anything was. A failure is said, and not met again by this job. ``left``: by path, how often
        this job has written to tables of which Spark alone can be asked.

        Raises :class:`LeaseLostError`, which ends it.
        """
        if not self._swept:
            self._swept = True
            self._sweep()
        for path, what, act in self._in_turn([*self._duties(tables, left)]):
            if (path, what) in self._given_up:
                continue
            try:
                done = act()
            except LeaseLostError:
                raise
            except Exception as failure:  # noqa: BLE001 - whatever it is, no change depends on it
                done = _passes(failure)
                if done:
                    self._tables.pop(path, None)  # looked at anew, in a while
                    if self.by_spark is not None:
                        self.by_spark.forget(path)
                else:
                    self._given_up.add((path, what))
                    said = " ".join(str(failure).split())[:300]  # Java's have a stack
                    detail = f"cannot be {what} by this job: {said}"
                    self._done.append(Upkeep(path, "failed", detail))
            if done:
                self._served = (path, what)
                return True
        return False

    def _in_turn(self, duties: list[Duty]) -> list[Duty]:
        """What was done last comes last, else what stands behind tables that always want something would never be done. Each run begins
        elsewhere: one that ends soon has time for few of them.
        """
        at = self.committer.term % max(len(duties), 1)
        if self._served is not None:
            at = next((n for n, one in enumerate(duties, 1) if one[:2] == self._served), 0)
        return duties[at:] + duties[:at]

    def _duties(self, tables: Sequence[DeltaRsTable], left: Mapping[str, int]) -> Iterator[Duty]:
        for direct in tables:
            yield direct.path, "put in order", partial(self._compact, direct)
            yield direct.path, "rid of old rows", partial(self._forget, direct)
            yield direct.path, "rid of old changes", partial(self._drop_days, direct)
            yield direct.path, "rid of old versions", partial(self._vacuum, direct)
            yield direct.path, "rid of the log of old versions", partial(self._cut, direct)
        if self.by_spark is None:
            return
        for path in left:
            is_own, (hours, _) = path == manifest_path(self.lake), self._usual(path)
            say: Callable[[Upkeep], object] = _unsaid if is_own else self._done.append
            if not is_local(path) or delta_rs_place(path):
                # Not with a percent sign in its name: there no power cut behind an OPTIMIZE was tried yet (``power_cut``).
                compact = partial(self.by_spark.compact, path, left[path], say)
                yield path, "put in order", compact
            vacuum = partial(self.by_spark.vacuum, path, hours, self._times, say)
            yield path, "rid of old versions", vacuum

    def _sweep(self) -> None:
        """Remove what jobs before this one have left in the scratch that were killed in the middle of a commit."""
        scratch = local_folder(scratch_path(self.lake))
        there = list(scratch.iterdir()) if scratch is not None and scratch.is_dir() else []
        left = [one for one in there if is_left_over(one.name, self.committer.term, self.flow)]
        if left:
            self.committer.refuse_lost()
        for one in left:
            shutil.rmtree(one, ignore_errors=True)

    def _compact(self, direct: DeltaRsTable) -> bool:
        known = self._tables[direct.path]
        merges, rows = direct.merges - known.merges, direct.rows_written - known.rows
        is_log = LOG_PROPERTY in direct.state.configuration
        every = LOOK_AT_LOG_EVERY if is_log else LOOK_EVERY
        if merges < every and known.look.since is not None:
            return False
        known.merges, known.rows = direct.merges, direct.rows_written
        known.written = known.written.and_then(rows, merges)
        direct.version()
        key: list[str] = json.loads(direct.state.configuration.get(KEY_PROPERTY, "[]"))
        held, known.look = known.look.then(files(direct, key[0] if key else None), direct.merges)
        if direct.path == manifest_path(self.lake):
            key = ["batch_id"]  # so that its old rows have files of their own
        rewrite = choose(held, known.written)
        if rewrite is None:
            return False
        sizes = unpacked(direct, rewrite.files)
        rewrite = unpacked_within(rewrite, sizes)
        if rewrite is None:
            return False
        self.committer.refuse_lost()
        started = time.monotonic()
        if not compact(direct, rewrite, key):
            return False
        if sum(sizes.values()) >= freed_memory.LARGE:
            freed_memory.give_back()
        if rewrite.orders:
            known.written = Written(piece=rewrite.rows // rewrite.pieces)
        direct.version()
        _, known.look = known.look.then(files(direct, None), direct.merges)
        took = time.monotonic() - started
        rows, count = rewrite.rows, len(rewrite.files)
        detail = f"{rows:,} rows in {count} files put in order, {took:.1f} s"
        self._done.append(Upkeep(direct.path, "ordered", detail, rows, count, took))
        return True

    def _forget(self, direct: DeltaRsTable) -> bool:
        """Of the manifest alone: rows of which no version of a table can be brought back any more."""
        if direct.path != manifest_path(self.lake):
            return False
        now, every = time.time(), vacuum_times.every(self.hours)
        if now - self._forgot < every:
            return False
        self._forgot = now
        # Old versions of tables are removed so late, too.
        gone = old_rows.unneeded(direct, now - self.hours * 3600 - 2 * every)
        if gone is None:
            return False
        self.committer.refuse_lost()
        rows = self._removed(direct, gone, gone.below)
        detail = f"{rows:,} rows of batches before {gone.below:,} removed"
        self._done.append(Upkeep(direct.path, "forgotten", detail, rows, len(gone.files)))
        return True

    def _drop_days(self, direct: DeltaRsTable) -> bool:
        """Of a change log: changes of days that the pipeline file does not keep. Each day once, and behind an append alone: a log that is only
        looked after would in time lose the commit that says how far in Kafka it is.
        """
        known, today = self._tables[direct.path], datetime.now(timezone.utc).date()
        of = direct.state.configuration.get(LOG_PROPERTY)
        if of is None or known.days_dropped == today or known.appends == direct.merges:
            return False
        direct.version()
        days = self.days(TableId.parse(of))
        newest = old_changes.newest(direct) if days else None
        # No clock of ours alone empties a log: what is old is so beside its newest change, too.
        first = old_changes.first_kept(min(today, newest), days) if newest else None
        old = old_changes.old(direct, first) if first else None
        if first is None or old is None:
            known.days_dropped, known.appends = today, direct.merges
            return False
        self.committer.refuse_lost()
        if old.mixed:
            return old_changes.split(
                direct, old
            )  # what is in files of its own then goes by the next look
        said = old_changes.begins(old, first)
        changed = {"configuration": {**direct.state.configuration, **said}}
        direct.describe(changed, "SET TBLPROPERTIES", {"properties": json.dumps(said)})
        last = old.gone.below - 1
        rows = self._removed(direct, old.gone, last)
        known.appends = direct.merges  # it is one of them
        detail = f"{rows:,} changes before {first} removed"
        self._done.append(Upkeep(direct.path, "forgotten", detail, rows, len(old.gone.files)))
        return True

    def _removed(self, direct: DeltaRsTable, gone: old_rows.Unneeded, batch: int) -> int:
        """How many rows were. ``batch``: a published one, as a commit of one that is not may be taken back."""
        marker = Marker(self.committer.term, batch, 1)
        with direct.identified(upkeep_app_id(self.pipeline), marker.version, ""):
            return old_rows.remove(direct, gone)

    def _vacuum(self, direct: DeltaRsTable) -> bool:
        """Remove versions that are too old, and files of commits that never were."""
        if not self._times.is_due(direct.path, self._usual(direct.path)[0]):
            return False  # what flows need is asked for when it matters
        hours, _ = self._kept(direct)

        def vacuum() -> bool:
            self._refuse_foreign(direct)
            first = self._unread(direct)
            removed = direct.vacuum(hours, self.committer.refuse_lost, first)
            if removed:
                detail = f"{removed:,} files of old versions removed"
                self._done.append(Upkeep(direct.path, "vacuumed", detail, files=removed))
            upto = delta_log.committed_before(direct.at, time.time() - hours * 3600)
            self._cut_to(direct, upto if first is None else min(upto, first - 1))
            return True

        return self._times.when_due(direct.path, hours, self.committer.refuse_lost, vacuum)

    def _cut(self, direct: DeltaRsTable) -> bool:
        """Keep the log's folder short."""
        known, newest = self._tables[direct.path], direct.state.version
        every = self._usual(direct.path)[1] // 10
        if known.cut_at is not None and newest - known.cut_at < every:
            return False
        _, versions = self._kept(direct)
        known.cut_at = newest
        self._refuse_foreign(direct)
        return self._cut_to(direct, newest - versions) > 0

    def _cut_to(self, direct: DeltaRsTable, upto: int) -> int:
        """How many files of its log went; of a change log the commit stays that says how far in Kafka it is, however old it is."""
        if LOG_PROPERTY in direct.state.configuration:
            held = own_commits.log_held_at(direct)
            upto = min(upto, held[0]) if held else upto
        return delta_log.cut(direct.at, upto, self.committer.refuse_lost)

    def _refuse_foreign(self, direct: DeltaRsTable) -> None:
        """What somebody else has done to a table of the mirrors' is in its log alone, and whoever looks for it takes a commit that is not there any more for one of
        ours: so what goes was looked at before. Raises :class:`ForeignCommitError`.
        """
        if not self.flow and direct.path != manifest_path(self.lake):
            self.committer.continued(direct)

    def _kept(self, direct: DeltaRsTable) -> tuple[int, int]:
        """Hours that a table's versions stay readable, and how many do at most. What a flow has still to read, or to join with once more, stays, however
        far it is behind.
        """
        hours, versions = self._usual(direct.path)
        first = self._unread(direct)
        if first is not None:
            versions = max(versions, direct.state.version - first + 1)
            hours = max(hours, vacuum_times.lasting(_hours_since(direct, first)))
        return hours, versions

    def _usual(self, path: str) -> tuple[int, int]:
        """The same, whatever flows need."""
        return _OF_MANIFEST if path == manifest_path(self.lake) else (self.hours, self.versions)

    def _unread(self, direct: DeltaRsTable) -> int | None:
        """The first version that a flow needs. None where none does, or its log is gone: then so are its files."""
        first = self.unread(direct.path, direct.id())
        is_there = first is not None and delta_log.is_there(direct.at, first)
        return first if is_there else None

    @cached_property
    def _times(self) -> VacuumTimes:
        return VacuumTimes(self.lake, self.flow)
