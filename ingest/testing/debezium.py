"""Records as Debezium 3.6 writes them to Kafka, in the settings of ``connect/mysql-connector.yaml``. Pure.

``tests/integration/test_types.py`` and ``tests/spark/arrow/test_in_driver.py`` hold the text against the real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.sample.declared import declared

Operation = Literal["c", "u", "d", "t", "r"]
"""Insert, update, delete, truncate, and a row that a snapshot read."""


@dataclass(frozen=True)
class Record:
    """A record of Kafka: of the schema-change topic, which is named like the pipeline, or of a table's topic.

    ``run`` names the connector run that wrote it. Records of a topic and partition are in order; their offsets are
    given where they are replayed.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    run: str = "run"


NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""When changes are committed of which nothing else is said."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def change_record(
    topic: str,
    op: Operation,
    at: Position,
    *,
    table: TableId | None = None,
    key: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    gtid: str | None = None,
    partition: int = 0,
    run: str = "run",
    committed_at: datetime = NEW_YEAR,
) -> Record:
    """One change of one row. ``topic``: ``pipeline.database.table``. ``table``: whose, where the topic does not say it: Kafka's names hold
    fewer letters than MySQL's. ``key``, ``before``, ``after``: column name to
    the value as Debezium's JSON has it. ``committed_at``: with its zone. A change of a key is two records at one place: a delete and an insert.
    """
    if table is None:
        _, database, name = topic.split(".", 2)
        table = TableId(database, name)
    read, us = op == "r", (committed_at - _EPOCH) // timedelta(microseconds=1)
    source = {
        "ts_ms": us // 1_000,
        "ts_us": us,
        "ts_ns": us * 1_000,
        "db": table.database,
        "table": table.name,
        "file": binlog_file(at),
        "pos": at.pos,
        "row": at.row,
        "snapshot": "true" if read else None,
        "gtid": gtid,
        "thread": None if read else 7,
    }
    value = compact(enveloped(op, before, after, source))
    return Record(topic, value, None if key is None else compact(key), partition, run)


def schema_record(
    table: TableId,
    at: Position,
    columns: Sequence[Mapping[str, Any]],
    key: Sequence[str],
    *,
    ddl: str = "CREATE TABLE …",
    kind: Literal["CREATE", "ALTER"] = "CREATE",
    snapshot: bool = True,
    committed_at: datetime = NEW_YEAR,
) -> dict[str, Any]:
    """What the schema-change topic says of a table from a place in the log on, as JSON. ``columns``: all of them, as
    :func:`described` has them. ``snapshot``: it is said by a snapshot that is taken there, not by a DDL. ``committed_at``: with its zone.
    """
    body = {"columns": list(columns), "primaryKeyColumnNames": list(key)}
    named = f'"{table.database}"."{table.name}"'
    return {
        "source": {
            "file": binlog_file(at),
            "pos": at.pos,
            "row": at.row,
            "snapshot": "true" if snapshot else "false",
            "ts_ms": (committed_at - _EPOCH) // timedelta(milliseconds=1),
        },
        "databaseName": table.database,
        "ddl": ddl,
        "tableChanges": [{"type": kind, "id": named, "table": body}],
    }


def described(name: str, kind: str) -> dict[str, Any]:
    """A column as the schema-change topic has it. ``kind``: as a CREATE TABLE declares it: ``DECIMAL(10,2) NOT NULL``.
    Raises ``ValueError`` for what is no type.
    """
    of = declared(kind)
    return {
        "name": name,
        "typeName": of.name,
        "length": of.length,
        "scale": of.scale,
        "optional": not of.not_null,
        "enumValues": list(of.labels),
        "charsetName": "binary" if of.marked else None,
    }


def binlog_file(at: Position) -> str:
    """The file of MySQL's log that a position is in."""
    return f"binlog.{at.file:06d}"


def enveloped(op: str, before: Any, after: Any, source: dict[str, Any]) -> dict[str, Any]:
    """All that Debezium writes of a change, in its order. ``source``: what of it is not the same for all."""
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "3.6.1.Final",
            "connector": "mysql",
            "name": "p",
            "ts_ms": 1_767_225_600_000,
            "snapshot": None,
            "db": "d",
            "sequence": None,
            "ts_us": 1_767_225_600_000_000,
            "ts_ns": 1_767_225_600_000_000_000,
            "table": None,
            "server_id": 1,
            "gtid": None,
            "file": None,
            "pos": None,
            "row": 0,
            "thread": 7,
            "query": None,
            **source,
        },
        "transaction": None,
        "op": op,
        "ts_ms": 1_767_225_600_080,
        "ts_us": 1_767_225_600_080_000,
        "ts_ns": 1_767_225_600_080_000_000,
    }


def compact(value: Any) -> bytes:
    """JSON as Connect's converter writes it: characters beyond the basic plane as two escapes, others as they are,
    digits of escapes in upper case.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if "\\u00" in text:
        text = _ESCAPE.sub(lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], text)
    return (text if text.isascii() else _BEYOND.sub(_surrogates, text)).encode()


_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(found: re.Match[str]) -> str:
    raw = found[0].encode("utf-16-be").hex().upper()
    return f"\\u{raw[:4]}\\u{raw[4:]}"
