"""Values for tables that are read by filters, one list a MySQL type, in the order in which its column in the lake sorts.

As texts: a number plain, bytes in hexadecimal, ``true`` and ``false``, times as ``2024-02-29 01:02:03.000004``.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from ingest.sample.values import drawn, values

KINDS = {
    "TINYINT": "byte",
    "TINYINT UNSIGNED": "short",
    "SMALLINT": "short",
    "SMALLINT UNSIGNED": "integer",
    "MEDIUMINT": "integer",
    "INT": "integer",
    "INT UNSIGNED": "long",
    "BIGINT": "long",
    "BIGINT UNSIGNED": "decimal(20,0)",
    "DECIMAL(10,2)": "decimal(10,2)",
    "DECIMAL(18,2)": "decimal(18,2)",
    "DECIMAL(38,10)": "decimal(38,10)",
    "DECIMAL(38,30)": "decimal(38,30)",
    "DECIMAL(30,30)": "decimal(30,30)",
    "DECIMAL(65,30)": "string",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BIT(1)": "boolean",
    "BIT(64)": "binary",
    "VARCHAR(500)": "string",
    "VARBINARY(50)": "binary",
    "DATE": "date",
    "DATETIME": "timestamp_ntz",
    "DATETIME(6)": "timestamp_ntz",
    "TIMESTAMP(6)": "timestamp",
    "TIME(6)": "string",
    "YEAR": "integer",
    "ENUM('','a','Z','é')": "string",
    "SET('a','b,','Z')": "string",
    "JSON": "string",
}
"""MySQL's type to the lake's."""


def hostile(mysql: str, chance: random.Random, count: int) -> list[str]:
    """So many different values at most, boundaries and poison first."""
    found = list(dict.fromkeys(_text(one.lake) for one in values(mysql)))
    chance.shuffle(found)
    found = found[:count]
    for _ in range(count):
        if len(found) < count and (one := _text(drawn(chance, mysql).lake)) not in found:
            found.append(one)
    return sorted(found, key=lambda one: order(KINDS[mysql], one))


def order(kind: str, text: str) -> Any:
    """What a value of this type of Delta's is ordered by."""
    if kind == "string":
        return text.encode()
    if kind == "binary":
        return bytes.fromhex(text)
    if kind in {"float", "double"}:
        return float(text)
    if kind == "boolean":
        return text == "true"
    if kind in {"date", "timestamp", "timestamp_ntz"}:
        return text  # of one length
    return Decimal(text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        at = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return at.isoformat(" ", "microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if isinstance(value, str) else repr(value)
