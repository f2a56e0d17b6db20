"""At which table a connector's task has failed, where it is one table's change that it fails at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pymysql.cursors import Cursor

from ingest.config.pipeline_file import Pipeline
from ingest.model.topics import TableId, captured
from ingest.source import mysql

_ROW = re.compile(r"Error processing row in (.+?), internal schema size")
_TOO_LARGE = re.compile(r"The message is (\d+) bytes when serialized which is larger than (\d+)")
_EVENTS = 10_000
"""Events of MySQL's log that are looked through from where the connector goes on: more than it reads ahead."""
_SMALLER = 8
"""A row's event may be so many times smaller than its record: text in JSON, with what it escapes."""


def whose(pipeline: Pipeline, trace: str, offset: Mapping[str, Any] | None) -> TableId | None:
    """None where no table is to be blamed, or nobody knows which. ``offset``: where the connector goes on.

    Raises :class:`IngestError` while MySQL is away.
    """
    row, large = _ROW.search(trace), _TOO_LARGE.search(trace)
    if not (row or large):
        return None
    with mysql.connected(pipeline.source) as cursor:
        there = captured(mysql.base_tables(cursor), pipeline.source.tables)
        if row:
            return only(table for table in there if table.name == row[1])
        assert large
        at = offset or {}
        if "file" not in at:
            return None
        held = rows_of_at_least(cursor, str(at["file"]), int(at["pos"]), int(large[1]) // _SMALLER)
        return only(table for table in there if table in held)


def only(tables: Iterable[TableId]) -> TableId | None:
    """The one of them, where there is no other."""
    found = list(tables)
    return found[0] if len(found) == 1 else None


def rows_of_at_least(cursor: Cursor, file: str, pos: int, size: int) -> set[TableId]:
    """Tables with an event of rows of so many bytes, from a place in MySQL's log on."""
    cursor.execute(f"SHOW BINLOG EVENTS IN %s FROM {pos} LIMIT {_EVENTS}", (file,))
    found, table = set[TableId](), None
    for _, begin, kind, _, end, info in cursor.fetchall():
        if kind == "Table_map":
            named = re.fullmatch(r"table_id: \d+ \((.+?)\.(.+)\)", str(info))
            table = TableId(*named.groups()) if named else None
        elif str(kind).endswith(("_rows", "_rows_v1")) and table and int(end) - int(begin) >= size:
            found.add(table)
    return found
