"""Debezium messages as rows of the Kafka stream, for tests of the DataFrame steps."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from ingest.testing.debezium import compact, enveloped

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def message(
    op: str,
    pos: int,
    *,
    before: dict | None = None,
    after: dict | None = None,
    key: dict | None = None,
    row: int = 0,
    offset: int = 0,
    table: str = "t",
    snapshot: str | None = None,
    file: str = "binlog.000001",
    gtid: str | None = None,
) -> tuple[Any, ...]:
    source = {
        "table": table,
        "file": file,
        "pos": pos,
        "row": row,
        "snapshot": snapshot,
        "gtid": gtid,
    }
    value = enveloped(op, before, after, source)
    raw_key = None if key is None else bytearray(json.dumps(key).encode())
    return (
        "p.d." + table,
        0,
        offset,
        NOW,
        raw_key,
        bytearray(compact(value)),
        "run",
    )


def raw(value: bytes | None, offset: int = 0) -> tuple[Any, ...]:
    return ("p.d.t", 0, offset, NOW, None, None if value is None else bytearray(value), "run")
