"""What earlier versions of this code have left in a lake and today's code writes differently, and how it is brought over.

Three things. Contents of rows in tables without a key that were hashed in another way (``multiset_rows.content``): a change
of such a row would not find it. Statistics that do not contain every value of their file. Both are put right before
the first batch, under the lease. And labels that a snapshot read as NULL (``snapshot_select``): only the source has
them, so their tables are taken again. What is to be done is read off the tables themselves, so a crash in the middle
is followed by the rest; that all is done stands in a file of the lake, and a start that finds it looks only at tables
that were restored since, which brings the old state back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Schemas
from ingest.lake.delta import delta_log, file_statistics, parquet_footers
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_log import UnknownLogError
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.spark_table import Description, SparkTable
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.location import delta_rs_folder
from ingest.model.manifest import Entry
from ingest.model.names import (
    INTERNAL_FOLDER,
    RESERVED_COLUMN,
    Marker,
    manifest_path,
    quoted,
    upgrade_app_id,
)
from ingest.model.reasons import Reason
from ingest.model.start_facts import LakeFacts, StartFacts
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Kind, column_type
from ingest.start import lake_format
from ingest.start.lake_format import FORMAT, LABELS
from ingest.targets import multiset_rows

_HASHED_ANEW = {"timestamp", "timestamp_ntz", "float", "double"}
"""Delta types of columns by which a row's content may be another one than before."""
_MILLISECONDS = 3


@dataclass
class Upgrade:
    """Of one pipeline's lake, in one run. ``takes_again``: whether the source lets tables be taken again."""

    session: SparkSession
    pipeline: Pipeline
    committer: Committer
    schemas: Schemas
    say: Callable[[str], None]
    takes_again: Callable[[], bool]
    _looked: set[tuple[str, int]] = field(default_factory=set)
    _hashed: set[str] = field(default_factory=set)
    _corrected: set[str] = field(default_factory=set)
    _told: list[str] = field(default_factory=list)

    def put_right(self, facts: StartFacts) -> bool:
        """Contents and statistics of the lake's tables; returns whether anything was committed.

        Before a torn batch is finished: its changes look for rows by today's contents.
        """
        done, changed = self._is_done(), False
        for lake in facts.lake:
            restored = lake.foreign.version if lake.foreign else 0
            if lake.is_copy:  # of before the upgrade, perhaps
                restored = lake.version or 0
            place = (lake.path, restored)
            if lake.version is None or place in self._looked or (done and not restored):
                continue
            changed = self._table(lake) or changed
            self._looked.add(place)
        ledger = manifest_path(self.pipeline.lake.path)
        if facts.newest is not None and not done and (ledger, 0) not in self._looked:
            changed = self._statistics(f"{INTERNAL_FOLDER}/manifest", ledger) or changed
            self._looked.add((ledger, 0))
        return changed

    def entry(self, facts: StartFacts) -> Entry | None:
        """The manifest with a gap for each table that may hold a wrong row; None where it has them already.

        After a torn batch is finished, whose number a row of the manifest would take.
        """
        newest, noted = facts.newest, self._noted()
        if newest is None or (noted >= LABELS and not self._hashed):
            return None
        found = list[Gap]()
        for lake in facts.lake:
            state = newest.tables.get(lake.name)
            if state is None:
                continue
            for reason in self._doubts(lake, noted):
                if any(_is_same(gap, lake.name, reason) for gap in newest.gaps):
                    continue
                topic, since = facts.topic_of[lake.name], newest.batch_id + 1
                at, row = newest.ends.get((topic, 0), 0), state.position
                found.append(Gap(lake.name, topic, 0, at, at, reason.says, since, position=row))
        mended = found if found and self.takes_again() else []
        for gap in found:
            if gap in mended:
                self._tell(f"{gap.table} is taken again: {gap.reason}")
            else:
                remedy = "should be taken again with `ingest resync FILE --all`"
                self._tell(f"{gap.table} {remedy}: {gap.reason}")
        return replace(newest, gaps=(*newest.gaps, *mended)) if mended else None

    def done(self) -> None:
        """All is brought over, which is said once and noted."""
        parts = [
            f"{what} of {', '.join(sorted(tables))}"
            for what, tables in (
                ("contents", self._hashed),
                ("statistics", self._corrected),
            )
            if tables
        ]
        made = f"put right {' and '.join(parts)}" if parts else ""
        if said := "; ".join(filter(None, (made, *self._told))):
            self.say(f"this lake was filled by an earlier version of ingest: {said}")
        self._hashed, self._corrected, self._told = set(), set(), []
        if self._noted() < FORMAT:
            lake_format.note(self.pipeline.lake.path)

    def _is_done(self) -> bool:
        """Contents and statistics of all tables that were not restored since."""
        return self._noted() > 0

    def _noted(self) -> int:
        return lake_format.noted(self.pipeline.lake.path)

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.append(sentence)

    def _table(self, lake: LakeFacts) -> bool:
        table = SparkTable(self.session, lake.path)
        ours = not lake.name.startswith(f"{INTERNAL_FOLDER}/")
        description = table.describe() if ours else None
        hashed = bool(description and needs_hashing(description)) and self._contents(lake, table)
        return self._statistics(lake.name, lake.path) or hashed

    def _contents(self, lake: LakeFacts, table: SparkTable) -> bool:
        """Rows whose content is not what today's code makes of them: the table is written anew."""
        rows = table.frame()
        fields = StructType([one for one in rows.schema.fields if one.name != RESERVED_COLUMN])
        row = F.struct(*[F.col(quoted(one.name)) for one in fields])
        held = F.col(f"{RESERVED_COLUMN}.content")
        if rows.filter(held != multiset_rows.content(row, fields)).isEmpty():
            return False
        # Under a name of its own each time: a restored table may have to be put right again.
        identity = Identity(self._app(lake.name, table.version()), 0, 1)
        self.committer.once(table, identity, table.number_anew)
        self._hashed.add(lake.name)
        return True

    def _statistics(self, name: str, path: str) -> bool:
        """In a local folder: entries of the log alone, never data."""
        folder = delta_rs_folder(path)
        if folder is None:
            return False
        try:
            state = TableState.read(folder)
        except UnknownLogError:
            return False
        files = corrected(state)
        if files:
            self.committer.refuse_lost()
            marker = Marker(self.committer.term, 0, 1)
            now = delta_log.now_ms()
            txn = {"appId": self._app(name, state.version), "version": marker.version}
            info = {"timestamp": now, "operation": "CORRECT STATISTICS", "operationParameters": {}}
            actions = [
                {"commitInfo": {**info, "readVersion": state.version}},
                {"txn": {**txn, "lastUpdated": now}},
                *files,
            ]
            if not delta_log.write(folder, state.version + 1, actions):
                return True  # somebody else was faster; what that means is decided anew
            self._corrected.add(name)
        _checkpoint(folder)
        return bool(files)

    def _app(self, name: str, version: int) -> str:
        return upgrade_app_id(self.pipeline.name, name, version)

    def _doubts(self, lake: LakeFacts, noted: int) -> Iterator[Reason]:
        """Why a table has to be taken again. One that keeps each change stays as it is."""
        hashed = lake.name in self._hashed or not noted
        if not hashed and noted >= LABELS:
            return
        description = SparkTable(self.session, lake.path).describe()
        table = TableId.parse(lake.name)
        if description is None:
            return
        if self.pipeline.target(table, keyed=not description.multiset).outlives:
            return
        self.schemas.read_to_end()
        versions = self.schemas.catalog.versions.get(table, ())
        if hashed and description.multiset and has_microseconds(versions):
            yield reasons.MICROSECONDS  # rows that MySQL tells apart by microseconds
        if noted < LABELS and has_binary_labels(versions):
            yield reasons.LABELS_AS_NULL


def needs_hashing(held: Description) -> bool:
    """True for a table without a key in which a row's content may be another one than before."""
    return held.multiset and bool(_HASHED_ANEW & set(held.columns.values()))


def has_microseconds(versions: Iterable[SchemaVersion]) -> bool:
    """True when a table has, or had, a DATETIME or TIMESTAMP of more than three fraction digits."""
    return any(
        column_type(column).kind in (Kind.DATETIME, Kind.TIMESTAMP)
        and (column.length or 0) > _MILLISECONDS
        for version in versions
        for column in version.followed
    )


def has_binary_labels(versions: Iterable[SchemaVersion]) -> bool:
    """True when a table has, or had, an ENUM or SET of the binary character set."""
    return any(column_type(column).marked for version in versions for column in version.followed)


def corrected(state: TableState) -> list[delta_log.Action]:
    """The entries of files whose statistics are not what they should be, as they should be: the same files with the
    same deleted rows, so nothing is removed and no data changes.
    """
    known = file_statistics.columns(state.metadata["schemaString"])
    wide, found = file_statistics.wide(known), list[delta_log.Action]()
    for one in state.files.values():
        try:
            exact = parquet_footers.decimals(state.folder / unquote(one.path), wide)
        except OSError:  # not there: nobody can read it
            exact = {}
        add = file_statistics.corrected(one.add, known, exact)
        if _said(add) != _said(one.add):
            found.append({"add": {**add, "partitionValues": {}, "dataChange": False}})
    return found


def _said(add: delta_log.Action) -> Any:
    """An entry's statistics, whatever the order; numbers with a fraction as text, as -0.0 equals 0.0."""
    return json.loads(add.get("stats") or "{}", parse_float=str)


def _is_same(gap: Gap, table: str, reason: Reason) -> bool:
    return gap.is_open and gap.table == table and reason.is_in(gap.reason)


def _checkpoint(folder: Path) -> None:
    """A new one where there is one: readers begin with it, and it may hold what was wrong before."""
    if (folder / "_delta_log" / "_last_checkpoint").exists():
        DeltaTable(folder).create_checkpoint()
