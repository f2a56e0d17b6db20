"""Source tables and the versions of their schemas, ordered by position.

Built from Debezium's schema-change topic, which holds each table's full column list from the
snapshot on. A change is decoded by the version in force at its position, never by the newest one. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from ingest.model.position import Position, file_number
from ingest.model.topics import TableId
from ingest.schema.ddl import (
    REPLACED,
    Unlogged,
    column_changes,
    computing,
    dropped_database,
    is_conditional,
    renamed_tables,
    unlogged,
)
from ingest.schema.mysql_types import Column

UNKNOWN = "UNKNOWN"
"""The kind of a version of which only MySQL knows the columns."""


@dataclass(frozen=True)
class SchemaVersion:
    """A table's columns and key from a position on; ``columns`` is empty once it was dropped.

    ``kind`` is Debezium's CREATE, ALTER or DROP, or ``UNKNOWN``. ``key`` is the primary key's columns in key order.
    """

    table: TableId
    position: Position
    kind: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ddl: str
    offset: int = 0
    """Where in the schema-change topic it stands."""
    from_snapshot: bool = False
    moved_from: TableId | None = None
    """The table had another name until now: its rows are not those that stood under this name, and
    no change brings them."""
    unlogged: str = ""
    """By what the statement made rows come or go of which the binlog has no event (``ddl.unlogged``); empty for none."""
    replaces: bool = False
    """Another table had the name before, and nobody has told how that one went."""
    computes: frozenset[tuple[str, str]] = frozenset()
    """Its generated columns, each with each word of its expression, in lower case, as far as statements have told them."""
    left_out: frozenset[str] = frozenset()
    """Columns that a policy leaves out of the lake."""
    kept: tuple[str, ...] = ()
    """Columns of the lake that the source no longer has and a policy keeps."""
    committed_at: datetime | None = field(default=None, compare=False)
    """When MySQL committed the statement, as far as it is known."""

    @property
    def followed(self) -> tuple[Column, ...]:
        """The columns that the lake has, too."""
        return tuple(column for column in self.columns if column.name not in self.left_out)

    def is_like(self, other: SchemaVersion) -> bool:
        """Whether changes of both are read in one way: an index more makes no difference."""
        return (self.columns, self.key) == (other.columns, other.key)


@dataclass
class Catalog:
    """All versions of all tables seen so far. Fed in topic order, asked by position."""

    versions: dict[TableId, list[SchemaVersion]] = field(default_factory=dict)
    _being_read: set[TableId] = field(default_factory=set, compare=False)
    """Tables of which a snapshot has written its own DROP record, and not its CREATE yet."""

    def add(self, record: Mapping[str, Any], epoch: int, offset: int = 0) -> list[SchemaVersion]:
        """Take one schema-change record in; returns the versions it brought.

        The snapshot's own DROP records are not facts about the source (Debezium writes them before
        each CREATE) and are left out. A CREATE of a table that is there, and that no snapshot has made, says that another had the name before: it was
        renamed out of the patterns, of which Debezium tells nothing (``ddl.REPLACED``). Of a table that it leaves out Debezium forgets the columns when its task begins anew:
        given the name of one that it follows, it is told without columns, and its changes are read by those that the name stood
        for before (seen with 3.6.1). Such a version is ``UNKNOWN``. So is one that a table gets without a statement: asked for an
        incremental snapshot of one that it does not know, Debezium takes its columns from what the driver says.
        """
        source = record["source"]
        if not source.get("file"):
            return []
        position = Position(epoch, file_number(source["file"]), source["pos"], source["row"] or 0)
        from_snapshot = source.get("snapshot") not in (None, "false")
        statement, committed_at = str(record.get("ddl") or ""), _moment(source.get("ts_ms"))
        database = str(record.get("databaseName") or "")
        moved_from: dict[TableId, TableId] = {}
        gone: set[TableId] = set()
        rows: Unlogged | None = None
        if not from_snapshot:
            rows = unlogged(statement, database)
            moved_from = {new: old for old, new in renamed_tables(statement, database)}
            name = dropped_database(statement)
            gone = {table for table in self.versions if table.database == name}
            gone |= set(moved_from.values())

        def unknown(table: TableId, key: tuple[str, ...], came: TableId | None) -> SchemaVersion:
            found = SchemaVersion(
                *(table, position, UNKNOWN, (), key, statement, offset),
                moved_from=came,
                committed_at=committed_at,
            )
            self.versions.setdefault(table, []).append(found)
            return found

        brought = []
        for other in sorted(gone & set(self.versions)):
            left = SchemaVersion(
                *(other, position, "DROP", (), (), statement, offset), committed_at=committed_at
            )
            self.versions[other].append(left)
            brought.append(left)
        for change in record.get("tableChanges") or []:
            table, named = change.get("table") or {}, _table_id(change["id"])
            if change["type"] == "DROP" and from_snapshot:
                self._being_read.add(named)
                continue
            columns = tuple(Column.from_json(column) for column in table.get("columns", ()))
            key = _key(table.get("primaryKeyColumnNames", ()), columns)
            before = next(iter(self.versions.get(named, ())[-1:]), None)
            altered = change["type"] == "ALTER" and named not in moved_from
            if change["type"] == "CREATE" and not statement:
                brought.append(unknown(named, key, None))
                continue
            if altered and before is not None and before.kind == UNKNOWN:
                # Debezium has altered columns that are not the table's.
                brought.append(unknown(named, key, before.moved_from))
                continue
            made = change["type"] == "CREATE"
            replaced = made and not from_snapshot and self._replaces(named, position, statement)
            self._being_read -= {named} if made else set()
            version = SchemaVersion(
                table=named,
                position=position,
                kind=change["type"],
                columns=columns,
                key=key,
                ddl=statement,
                offset=offset,
                from_snapshot=from_snapshot,
                moved_from=moved_from.get(named),
                unlogged=rows.what if rows else REPLACED if replaced else "",
                replaces=replaced,
                computes=self._computing(moved_from.get(named, named), position, statement, columns)
                if change["type"] == "ALTER"
                else computing(statement),
                committed_at=committed_at,
            )
            self.versions.setdefault(version.table, []).append(version)
            brought.append(version)
        if rows and rows.other and brought:
            brought += self._exchanged(rows.other, brought[-1])
        told = {version.table for version in brought}
        for new in sorted(moved_from.keys() & self.versions.keys() - told):
            brought.append(unknown(new, self.versions[new][-1].key, moved_from[new]))
        return brought

    def _replaces(self, table: TableId, at: Position, statement: str) -> bool:
        """Whether a CREATE is a statement's, of a name that another table had. With IF NOT EXISTS it may have done nothing."""
        before = next(iter(self.versions.get(table, ())[-1:]), None)
        if before is None or not before.columns or before.position == at:
            return False
        return table not in self._being_read and not is_conditional(statement)

    def _computing(
        self, table: TableId, at: Position, statement: str, columns: Sequence[Column]
    ) -> frozenset[tuple[str, str]]:
        """What generated columns are computed of behind an ALTER, of the table under its name of before."""
        known = reversed(self.versions.get(table, ()))
        before = next((v for v in known if v.columns and v.position <= at), None)
        if before is None:
            return frozenset()
        was, now = ([one.name for one in some] for some in (before.columns, columns))
        return column_changes(statement).computing(before.computes, was, now)

    def _exchanged(self, other: TableId, by: SchemaVersion) -> list[SchemaVersion]:
        """The same statement for the table at its other end, of which Debezium has no word."""
        found = []
        for table in sorted(self.versions):
            named = table.name == other.name and other.database in ("", table.database)
            was = self.at(table, by.position) if named and table != by.table else None
            if was is not None and was.columns:
                left = replace(
                    by, table=table, columns=was.columns, key=was.key, computes=was.computes
                )
                self.versions[table].append(left)
                found.append(left)
        return found

    def until(self, offset: int) -> Catalog:
        """What the topic held before an offset: a batch that is finished after a crash must be cut
        at the very barriers of its first attempt.
        """
        return Catalog(
            {
                table: kept
                for table, versions in self.versions.items()
                if (kept := [version for version in versions if version.offset < offset])
            }
        )

    def snapshots(self, table: TableId) -> list[Position]:
        """Positions at which snapshots of a table were pinned, in order; attempts included."""
        return sorted({v.position for v in self.versions.get(table, ()) if v.from_snapshot})

    def at(self, table: TableId, position: Position) -> SchemaVersion | None:
        """The version in force at a position: the last one not after it. None when unknown.

        A row event and a DDL event never share a position, and a snapshot's rows carry the very
        position of its schema records, so "not after" is exact.
        """
        known = [v for v in self._ordered(table) if v.position <= position]
        return known[-1] if known else None

    def pending(
        self,
        table: TableId,
        applied: Position | None,
        streamed: Position,
        before: Position | None = None,
    ) -> Position | None:
        """The newest DDL of a table after ``applied``, up to ``streamed`` and ``before`` a barrier;
        snapshots' own records are none. None when there is none.
        """
        found = [
            version.position
            for version in self.versions.get(table, ())
            if not version.from_snapshot
            and (applied is None or version.position > applied)
            and version.position <= streamed
            and (before is None or version.position < before)
        ]
        return max(found, default=None)

    def between(self, table: TableId, low: Position | None, high: Position) -> list[SchemaVersion]:
        """Versions of a table after ``low`` (None: from the beginning) and up to ``high``."""
        return [
            version
            for version in self._ordered(table)
            if (low is None or version.position > low) and version.position <= high
        ]

    def first(self, table: TableId) -> SchemaVersion | None:
        """The oldest version of a table that has columns; None for one of which only a DROP is known."""
        return next((version for version in self._ordered(table) if version.columns), None)

    def newest(self, table: TableId) -> Position:
        """Where the newest version of a known table stands."""
        return max(version.position for version in self.versions[table])

    def newest_of(self, table: TableId) -> SchemaVersion | None:
        """The newest version of a table, unless it was dropped or is unknown."""
        found = self._ordered(table)[-1:]
        return found[0] if found and found[0].columns else None

    def was_read_anew(self, version: SchemaVersion) -> bool:
        """True when Debezium has it from SHOW CREATE TABLE, as a snapshot does, and not from its own reading of
        a statement. A blocking snapshot's records call themselves streamed; but its CREATE stands where a DROP does, as no statement
        of MySQL's log can.
        """
        if version.from_snapshot:
            return True
        before = [v for v in self._ordered(version.table) if v.position <= version.position]
        before = before[: before.index(version)][-1:]
        there = any(
            v.columns or v.kind == UNKNOWN or v.position == version.position for v in before
        )
        return version.kind == "CREATE" and there and not version.replaces

    def current(self) -> list[SchemaVersion]:
        """The newest version of every table that has not been dropped."""
        newest = (self._ordered(table)[-1] for table in sorted(self.versions))
        return [version for version in newest if version.kind != "DROP"]

    def _ordered(self, table: TableId) -> list[SchemaVersion]:
        return sorted(self.versions.get(table, ()), key=lambda version: version.position)


def _moment(milliseconds: int | None) -> datetime | None:
    """A time of 0 or none is not known."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=milliseconds)


def _key(names: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """The key's columns as they are spelt where they are declared: ``PRIMARY KEY (ID)`` may mean ``id``."""
    declared = {column.name.lower(): column.name for column in columns}
    return tuple(declared.get(name.lower(), name) for name in names)


def _table_id(quoted: str) -> TableId:
    """``'"shop"."orders"'`` to its two names; a quote inside a name is doubled."""
    parts: list[str] = []
    rest = quoted
    while rest:
        end = 1
        while True:
            end = rest.index('"', end)
            if rest[end + 1 : end + 2] != '"':
                break
            end += 2
        parts.append(rest[1:end].replace('""', '"'))
        rest = rest[end + 2 :]
    return TableId(parts[-2], parts[-1])


def parse_record(value: bytes) -> dict[str, Any]:
    """A schema-change record's JSON. Raises ``ValueError`` when it is not an object."""
    record = json.loads(value)
    if not isinstance(record, dict) or "source" not in record:
        raise ValueError("not a schema-change record")
    return record
