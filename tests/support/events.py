"""Debezium messages as the real connector writes them, for tests of the DataFrame steps."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def enveloped(op: str, before: Any, after: Any, source: dict[str, Any]) -> dict[str, Any]:
    """All that Debezium 3.6 writes of a change, in its order. ``source``: what of it is not the same for all."""
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
    digits of escapes in upper case (tests/integration/test_types.py holds it against the real one).
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
