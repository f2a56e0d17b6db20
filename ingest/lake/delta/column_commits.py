"""Columns of a table that delta-rs reaches: changed by a commit of its metadata alone, and the values of rows that were there.

What ``schema_commit`` does in Spark, where planning the first such commit of a session takes seconds, and an UPDATE one more. Only
what needs no feature that the table does not have (``is_plain``): nothing renamed, dropped or widened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_rs_table import COMPRESSION, NO_HOOKS, DeltaRsTable
from ingest.lake.delta.schema_commit import changed_schema
from ingest.model.names import RESERVED_COLUMN, needs_mapping, quoted_for_delta_rs
from ingest.model.position import Position
from ingest.schema.evolution import Field, InPlace

MAX_FILLED = 256 * 2**20
"""Bytes of a table's files that delta-rs writes anew for a default. A larger one is Spark's, which has more than the driver's memory."""

_FILLABLE = ("tinyint", "smallint", "int", "bigint", "string", "decimal", "double", "float")
"""How types begin of which DataFusion's CAST makes the same of a default's text as Spark's does (``evolution.default_of``)."""


def add(table: DeltaRsTable, fields: Sequence[Mapping[str, Any]]) -> None:
    """Have the table have these fields (Delta's JSON); no commit where it has them. What existing rows hold there is NULL. The commit
    carries no identity: it may be followed by one that does. Raises :class:`ForeignCommitError`.
    """
    table.version()
    schema = json.loads(table.state.metadata["schemaString"])
    there = {field["name"] for field in schema["fields"]}
    new = [field for field in fields if field["name"] not in there]
    if new:
        wider = {**schema, "fields": [*schema["fields"], *new]}
        said = {"columns": json.dumps([{"column": field} for field in new])}
        table.describe({"schemaString": json.dumps(wider)}, "ADD COLUMNS", said)


def is_plain(table: DeltaRsTable, change: InPlace) -> bool:
    """Whether :func:`change` makes it, of the table as of the last look."""
    features = table.state.features
    if change.mapped or change.widened or _is_mapped(table):
        return False
    added = [column for column in change.columns if column.origin is None]
    local_times = any(column.delta == "timestamp_ntz" for column in added)
    if local_times and "timestampNtz" not in features:
        return False
    return not any(needs_mapping(column.name) for column in added)


def change(table: DeltaRsTable, columns: Sequence[Field]) -> None:
    """See ``schema_commit.commit``; under the identity that stands. Raises :class:`ForeignCommitError`."""
    held = json.loads(table.state.metadata["schemaString"])
    schema = json.dumps(changed_schema(held, columns))
    table.describe({"schemaString": schema}, "CHANGE COLUMNS", {"columns": schema}, marked=True)


def fills(table: DeltaRsTable, values: Mapping[str, tuple[str, str]]) -> bool:
    """Whether :func:`fill` can, and should, of the table as of the last look. ``values``: as there."""
    files = table.state.files.values()
    known = all(delta.startswith(_FILLABLE) for delta, _ in values.values())
    marked = any("deletionVector" in one.add for one in files)
    small = sum(int(one.add["size"]) for one in files) <= MAX_FILLED
    return known and small and not marked and not _is_mapped(table)


def fill(table: DeltaRsTable, values: Mapping[str, tuple[str, str]], at: Position) -> None:
    """Rows of before a position get these values: a column's name to its Delta type and the text that is cast to it. No commit where
    there is no such row. Raises as ``DeltaRsTable.append`` does.
    """
    said = {
        quoted_for_delta_rs(name): f"CAST('{text.replace(chr(39), chr(39) * 2)}' AS {delta})"
        for name, (delta, text) in values.items()
    }
    with table.scratch(table.state.files.values()) as work:
        work.table.update(
            predicate=_before(at),
            updates=said,
            writer_properties=COMPRESSION,
            post_commithook_properties=NO_HOOKS,
        )
        info, actions = work.done(delta_log.now_ms())
        if actions:
            table.commit(work, info, actions, rows=0)


def _is_mapped(table: DeltaRsTable) -> bool:
    """Names in its files may be others than its columns'."""
    return table.state.configuration.get("delta.columnMapping.mode", "none") != "none"


def _before(at: Position) -> str:
    """As DataFusion reads it, which compares no structs."""
    condition = "false"
    for name, number in reversed(at.as_dict().items()):
        field = f"{RESERVED_COLUMN}['position']['{name}']"
        condition = f"({field} < {number} OR ({field} = {number} AND {condition}))"
    return condition
