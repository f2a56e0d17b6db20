"""Columns of a table that delta-rs reaches: changed by a commit of its metadata alone, and the values of rows that were there.

What ``schema_commit`` does in Spark, where planning the first such commit of a session takes seconds, and an UPDATE one more. Only
what needs no feature but that of local times (``is_plain``): nothing renamed, dropped or widened, but in a table without a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from ingest.arrow.carried_rows import carried
from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_rs_table import COMPRESSION, NO_HOOKS, DeltaRsTable, typed, write_new
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.schema_commit import changed_schema
from ingest.lake.delta.table_features import LOCAL_TIMES, with_feature
from ingest.model.names import RESERVED_COLUMN, needs_mapping, quoted_for_delta_rs
from ingest.model.position import Position
from ingest.schema.carried import Carry, by
from ingest.schema.evolution import Field, InPlace, Rewrite

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


def is_plain(table: DeltaRsTable, change: InPlace | Rewrite) -> bool:
    """Whether :func:`change` makes it, of the table as of the last look. One without files can get any columns."""
    adds_alone = isinstance(change, InPlace) and not (change.mapped or change.widened)
    if _is_mapped(table) or (table.state.files and not adds_alone):
        return False
    new = [one for one in change.columns if one.origin is None or not table.state.files]
    return not any(needs_mapping(column.name) for column in new)


def change(table: DeltaRsTable, columns: Sequence[Field]) -> None:
    """See ``schema_commit.commit``; under the identity that stands. Raises :class:`ForeignCommitError`."""
    was = table.state
    now = _with_columns(was, columns, anew=not was.files)
    schema = {"schemaString": now.metadata["schemaString"]}
    said = {"columns": schema["schemaString"]}
    protocol = None if now.protocol is was.protocol else now.protocol
    table.describe(schema, "CHANGE COLUMNS", said, protocol, marked=True)


def write_anew(table: DeltaRsTable, plan: InPlace) -> None:
    """The same by a commit of all rows, each value carried over the DDL, so that no feature is needed. Under the identity that stands. Raises
    as ``DeltaRsTable.append`` does.
    """
    was = table.state
    now = _with_columns(was, plan.columns, anew=True)
    asked = [] if now.protocol is was.protocol else [{"protocol": now.protocol}]
    with table.scratch(was.files.values()) as old, table.scratch((), now) as new:
        types = pa.schema(new.table.schema().to_arrow())
        rows = QueryBuilder().register("rows", old.table).execute("SELECT * FROM rows")
        batches = _carried(rows, by(plan), types)
        write_new(new, pa.RecordBatchReader.from_batches(types, batches))
        at = delta_log.now_ms()
        info, added = new.done(at)
        gone = [one.removed(at) for one in was.files.values()]
        table.commit(new, info, [*asked, {"metaData": now.metadata}, *gone, *added], rows=0)


def _with_columns(state: TableState, columns: Sequence[Field], *, anew: bool) -> TableState:
    """The table with these columns. ``anew``: of no row that stays was any of them another one."""
    fields = [replace(one, origin=None) for one in columns] if anew else columns
    schema = changed_schema(json.loads(state.metadata["schemaString"]), fields)
    local_times = any(one.delta == "timestamp_ntz" for one in columns)
    return replace(
        state,
        metadata={**state.metadata, "schemaString": json.dumps(schema)},
        protocol=with_feature(state.protocol, LOCAL_TIMES) if local_times else state.protocol,
    )


def _carried(rows: Iterable[Any], carry: Carry, types: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        held = pa.Table.from_batches([pa.record_batch(batch)])
        yield from typed(carried(held, carry), types).to_batches()


def fills(table: DeltaRsTable, values: Mapping[str, tuple[str, str]]) -> bool:
    """Whether :func:`fill` can, and should, of the table as of the last look. ``values``: as there."""
    files = table.state.files.values()
    known = all(delta.startswith(_FILLABLE) for delta, _ in values.values())
    marked = any("deletionVector" in one.add for one in files)
    size, _ = table.size()
    return known and size <= MAX_FILLED and not marked and not _is_mapped(table)


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
