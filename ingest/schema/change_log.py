"""The change log of a table: its columns, which only ever grow, and what stands in it beside row changes. Pure.

A mirror is rewritten, so no stream can read on from it. Its change log is only appended to: each change once, with the row before and
after it. Readers stream from it, and must never have to start over, so its schema changes in one way alone: ``before`` and ``after``
get a nullable field more. A column that is renamed, or gets another type, becomes a new field; the old one stays, NULL from there on.
Neither column mapping nor type widening is ever needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from ingest.model.position import SQL_TYPE, Position
from ingest.model.topics import TableId
from ingest.schema import ddl
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.delta_types import fields_json, struct_json, type_json
from ingest.schema.mysql_types import column_type
from ingest.schema.steps import Step, TableFacts

Operation = Literal[
    "insert", "update", "delete", "read", "truncate", "schema", "void", "restart", "begin"
]
"""What a row of a change log is.

``insert``, ``update``, ``delete``: a change of one row. ``read``: a row that a snapshot found.
``truncate``: all rows before this position are gone: TRUNCATE, or DROP TABLE. ``schema``: a DDL, in ``statement``.
``void``: rows before this position are gone, since a snapshot did not find them.
``restart``: of a table without a key: rows up to this position are gone, as a snapshot brings them once more, behind this row.
``begin``: from here on the log has every change; of what came before, some may be missing.
"""

OPERATIONS: Mapping[str, Operation] = {"c": "insert", "u": "update", "d": "delete", "r": "read"}
"""Debezium's letter of a row's change to the log's word."""

COMMON = (
    f"operation string, position {SQL_TYPE}, committed_at timestamp, batch_id bigint, transaction string, "
    "origin string, schema_version string, statement string"
)
"""The columns that every change log has, before ``before`` and ``after``.

``position``: where the change stands in MySQL's log: the order of changes, and their identity. ``committed_at``: when MySQL committed
it; NULL of what MySQL has not committed (``void``, ``restart``, ``begin``). ``batch_id``: of the manifest. ``transaction``: its GTID. ``origin``: ``stream``, ``snapshot`` (the
table's first), or ``resync`` (read once more later). ``schema_version``: the position of the table's definition that was in force.
"""

IMAGES = ("before", "after")
"""Structs of the table's columns: NULL where there is no such image."""

STATISTICS = {"delta.dataSkippingNumIndexedCols": "8"}
"""Files are passed over by operation, position, time and batch; the images, however wide, cost a log nothing."""

LOG_PROPERTY = "ingest.change_log"
"""Of a change log: the source's table."""

COLUMNS_PROPERTY = "ingest.change_log.columns"
"""Of a change log: today's columns, each with its field, as JSON."""

BEGINS_PROPERTY = "ingest.change_log.begins"
"""Of a change log of which old days were removed: the first ``batch`` that it has whole, and the ``day`` (UTC) of which all changes stay, as JSON."""

_COLUMN, _FOLLOWS, _SINCE = "ingest.column", "ingest.follows", "ingest.since"


@dataclass(frozen=True)
class LogField:
    """A field of the images. ``column``: of the source, in definitions from ``since`` on; ``delta``: its type, as JSON has it; ``follows``:
    the field that held its values before it was renamed or got another type; empty for none.
    """

    name: str
    column: str
    delta: Any
    since: Position
    follows: str = ""

    def as_json(self) -> dict[str, Any]:
        """As Delta's log has it."""
        said = {_COLUMN: self.column, _SINCE: str(self.since)}
        said |= {_FOLLOWS: self.follows} if self.follows else {}
        return {"name": self.name, "type": self.delta, "nullable": True, "metadata": said}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> LogField:
        """The inverse."""
        more = said["metadata"]
        since = Position.parse(more[_SINCE])
        return cls(said["name"], more[_COLUMN], said["type"], since, more.get(_FOLLOWS, ""))

    def holds(self, column: str, delta: Any) -> bool:
        """Whether it is of a column of this name and type. Letters' case alone tells no names apart, to MySQL and to Spark."""
        return self.column.lower() == column.lower() and self.delta == delta


@dataclass(frozen=True)
class LogColumns:
    """The images of a change log. ``fields``: all that there ever were, in order; ``today``: the table's columns as they are called
    now, each with its field; ``at``: by which definition.
    """

    fields: tuple[LogField, ...] = ()
    today: Mapping[str, str] = field(default_factory=dict)
    at: Position | None = None

    @classmethod
    def of(cls, schema: str, properties: Mapping[str, str]) -> LogColumns:
        """From a table's ``schemaString`` and properties."""
        images = {one["name"]: one["type"] for one in json.loads(schema)["fields"]}
        held = tuple(map(LogField.from_json, images[IMAGES[1]]["fields"]))
        said = json.loads(properties[COLUMNS_PROPERTY])
        return cls(held, said["columns"], Position.parse(said["at"]))

    @property
    def schema(self) -> dict[str, Any]:
        """Of the whole log, as Delta's log has it."""
        image = {"type": "struct", "fields": [one.as_json() for one in self.fields]}
        common = fields_json(COMMON)
        both = struct_json([(name, image) for name in IMAGES])
        return {**common, "fields": [*common["fields"], *both["fields"]]}

    @property
    def properties(self) -> dict[str, str]:
        """What the table itself says of them."""
        return {COLUMNS_PROPERTY: json.dumps({"at": str(self.at), "columns": dict(self.today)})}

    @property
    def has_local_times(self) -> bool:
        """Whether the table needs Delta's feature of such."""
        return any(one.delta == "timestamp_ntz" for one in self.fields)

    def with_version(self, version: SchemaVersion) -> LogColumns:
        """The same, with a field for each column of a schema version. A newer one than those before says what columns are called
        today. Twice is as good as once.
        """
        is_old = self.at is not None and version.position < self.at
        said = ddl.column_changes(version.ddl) if version.kind == "ALTER" else ddl.ColumnChanges()
        fields, today = list(self.fields), dict[str, str]()
        for column in version.followed:
            kind = type_json(column_type(column).delta)
            known = _field(self.fields, column.name, kind, version.position)
            before = self.today.get(said.origin(column.name, [*self.today]) or "", "")
            goes_on = known is not None and (
                is_old or known.since == version.position or known.name == before
            )
            if known is None or not goes_on:
                # One that was dropped and comes anew is another column, though it is called the same.
                follows = "" if is_old else before
                name = _free_name(fields, column.name)
                known = LogField(name, column.name, kind, version.position, follows)
                fields.append(known)
            today[column.name] = known.name
        if is_old:
            return replace(self, fields=tuple(fields))
        return LogColumns(tuple(fields), today, version.position)

    def of_version(self, version: SchemaVersion) -> dict[str, str]:
        """Each column of a schema version, with its field. ``KeyError`` for one that was not taken in (:meth:`with_version`)."""
        found = {}
        for column in version.followed:
            kind = type_json(column_type(column).delta)
            held = _field(self.fields, column.name, kind, version.position)
            if held is None:
                raise KeyError(column.name)
            found[column.name] = held.name
        return found


def _field(fields: Sequence[LogField], column: str, kind: Any, at: Position) -> LogField | None:
    """The newest field of a column that a definition at a position may mean; one of a later definition where there is none."""
    alike = [one for one in fields if one.holds(column, kind)]
    by_then = [one for one in alike if one.since <= at]
    return by_then[-1] if by_then else alike[0] if alike else None


def _free_name(fields: Sequence[LogField], column: str) -> str:
    """A name for a column's new field: its own, where that is free and Delta holds it without column mapping."""
    plain = re.sub(r"[ ,;{}()\n\t=]", lambda found: f"%{ord(found[0]):02X}", column)
    taken = {one.name.lower() for one in fields}
    number, name = 1, plain
    while name.lower() in taken:
        number += 1
        name = f"{plain}__{number}"
    return name


@dataclass(frozen=True)
class Control:
    """A row of a change log that is no change of a row."""

    operation: Operation
    position: Position
    statement: str = ""
    version: Position | None = None
    committed_at: datetime | None = field(default=None, compare=False)
    """Of a TRUNCATE or DDL."""


def controls(
    facts: TableFacts, steps: Sequence[Step], catalog: Catalog, applied: Position | None
) -> list[Control]:
    """Those of a table in one batch, in order. ``steps``: all of them, also such as leave nothing (``steps.steps``); ``applied``: the
    table's newest position of before; None for a table that is new, of which older definitions say nothing.
    """
    since = applied if applied is not None else facts.low
    known = {one.position: one.committed_at for one in catalog.versions.get(facts.table, ())}
    known |= facts.truncated_at
    # Changes that come late from another partition are cut at what was told before, too.
    wipes = {step.wipe for step in steps if step.wipe}
    wiped = {*facts.truncates, *(at for at in wipes if applied is None or at > applied)}
    found = {Control("truncate", at, committed_at=known.get(at)) for at in wiped}
    found |= {Control("restart", step.reset) for step in steps if step.reset}
    for version in catalog.between(facts.table, since, facts.high):
        if version.ddl and not catalog.was_read_anew(version):
            at = version.position
            columns = at if version.columns else None
            found.add(Control("schema", at, version.ddl, columns, version.committed_at))
    return sorted(found, key=lambda one: (one.position, one.operation))


def versions(
    table: TableId, steps: Sequence[Step], catalog: Catalog, high: Position
) -> list[SchemaVersion]:
    """Definitions of which the log has to hold the columns, oldest first: those of the steps, and all between."""
    first = steps[0].version
    later = [v for v in catalog.between(table, first.position, high) if v.columns]
    return [first, *later]


def of_snapshot(first: Position | None) -> dict[str, int]:
    """What all rows of a snapshot have in their positions, by field. ``first``: where it was taken; empty where there was none."""
    return {} if first is None else {"epoch": first.epoch, "file": first.file, "pos": first.pos}
