"""Values for tables that are read by filters, one list a MySQL type, in the order in which its column in the lake sorts.

As texts: a number plain, bytes in hexadecimal, ``true`` and ``false``, times as ``2024-02-29 01:02:03.000004``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

TOP = "\U0010ffff"
_ROOMY = Context(prec=100)

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
    "JSON": "string",
}
"""MySQL's type to the lake's."""

_WHOLE = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "TINYINT UNSIGNED": (0, 2**8 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "SMALLINT UNSIGNED": (0, 2**16 - 1),
    "MEDIUMINT": (-(2**23), 2**23 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "INT UNSIGNED": (0, 2**32 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "BIGINT UNSIGNED": (0, 2**64 - 1),
    "YEAR": (1901, 2155),
}
_TEXTS = [
    "", " ", "a", "A", "é", "e\u0301", "NULL", "a\u2028b", "a\u2029", "a\u0085", "a\nb", "a\r\nb", "a\x00b", "\x00",
    "'", '"', "\\", "\\u0041", '{"a": 1}', "吉野家", "𠮷野家", "𩸽", "😀", "\U0003ffff", TOP, "\ud7ff", "\ue000", "\uffff", "\U00010000",
    "x" * 32, "x" * 32 + "a", "x" * 32 + "b", "x" * 32 + TOP, "x" * 31 + TOP, "x" * 31 + TOP + TOP, "x" * 33, "x" * 400,
    "y" * 30 + TOP * 3 + "z", "z" * 40 + TOP, "\ue000" * 40, "\uffff" * 40, "\ud7ff" * 40, "\U0001f600" * 40, "é" * 32 + "z", TOP * 32, TOP * 33,
    TOP * 32 + "a", TOP * 40, "~" * 32 + "\x7f", "~" * 32 + "\x80", "\x7f" * 33,
]  # fmt: skip
_DAYS = ["0001-01-01", "0099-12-31", "1582-10-04", "1582-10-15", "1899-12-31", "1969-12-31", "1970-01-01", "2000-02-29", "2038-01-19", "9999-12-31"]  # fmt: skip
_CLOCKS = ["00:00:00.000000", "00:00:00.000001", "23:59:59.999999", "23:59:59.999000", "12:34:56.123456", "12:34:56.123999", "12:34:56.123000"]  # fmt: skip
_FLOATS = [
    "0.0",
    "-0.0",
    "0.1",
    "-0.1",
    "1.5",
    "16777216.0",
    "16777217.0",
    "-16777216.0",
    "9007199254740993.0",
]
_DOUBLES = ["5e-324", "-5e-324", "1e-300", "1.7976931348623157e+308", "-1.7976931348623157e+308", "1e+23", "0.30000000000000004"]  # fmt: skip
_TIMES = ["-838:59:59.000000", "838:59:59.000000", "00:00:00.000000", "-00:00:00.000001", "23:59:59.999999", "100:00:00.000001"]  # fmt: skip


def hostile(mysql: str, chance: random.Random, count: int) -> list[str]:
    """So many different values at most, boundaries and poison first."""
    fixed, more = _of(mysql)
    found = list(dict.fromkeys(fixed))
    chance.shuffle(found)
    found = found[:count]
    for _ in range(count):
        if len(found) >= count or more is None:
            break
        one = more(chance)
        if one not in found:
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


def _of(mysql: str) -> tuple[list[str], Callable[[random.Random], str] | None]:
    if mysql in _WHOLE:
        return _whole(*_WHOLE[mysql])
    if mysql.startswith("DECIMAL("):
        digits, scale = map(int, mysql[8:-1].split(","))
        return _decimals(digits, scale)
    if mysql == "FLOAT":
        return [*_FLOATS[:-1], "3.4028234663852886e+38", "1.401298464324817e-45"], _single
    if mysql == "DOUBLE":
        return [*_FLOATS, *_DOUBLES], lambda c: repr(
            c.uniform(-1, 1) * 10.0 ** c.randint(-300, 300)
        )
    if mysql == "BIT(1)":
        return ["true", "false"], None
    if mysql == "BIT(64)":
        return ["00" * 8, "ff" * 8, "00" * 7 + "01", "80" + "00" * 7], lambda c: c.randbytes(
            8
        ).hex()
    if mysql == "VARBINARY(50)":
        return ["", "00", "0000", "ff" * 40, "ff" * 33, "0a0d", "c328"], lambda c: c.randbytes(
            c.randint(0, 50)
        ).hex()
    if mysql == "DATE":
        return _DAYS, lambda c: (date(1, 1, 1) + timedelta(c.randint(0, 3_652_058))).isoformat()
    if mysql.startswith(("DATETIME", "TIMESTAMP")):
        return _moments(mysql)
    if mysql == "TIME(6)":
        return _TIMES, None
    if mysql.startswith("ENUM"):
        return ["", "a", "Z", "é"], None
    if mysql == "JSON":
        return ["null", "{}", "[]", '"a"', '{"a": [1, 2.5]}', '"' + "x" * 40 + '"', '"𠮷"', "-0.5", "18446744073709551615"], None  # fmt: skip
    return _TEXTS, _text


def _whole(low: int, high: int) -> tuple[list[str], Callable[[random.Random], str]]:
    edges = [low, low + 1, -1, 0, 1, high - 1, high, 2**53, 2**53 + 1, 2**53 + 2, 2**63, 2**63 + 1]
    return [str(one) for one in edges if low <= one <= high], lambda c: str(c.randint(low, high))


def _decimals(digits: int, scale: int) -> tuple[list[str], Callable[[random.Random], str]]:
    most = 10**digits - 1

    def text(units: int) -> str:
        return f"{Decimal(units).scaleb(-scale, context=_ROOMY):f}"

    edges = [
        0,
        1,
        -1,
        7,
        most,
        most - 1,
        -most,
        1 - most,
        10**scale,
        2**53 + 1,
        -(2**63) - 1,
        most // 3,
    ]
    found = [text(one) for one in edges if abs(one) <= most]
    return found, lambda c: text(c.randint(-most, most))


def _moments(mysql: str) -> tuple[list[str], Callable[[random.Random], str]]:
    low, high = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - a wall clock
    if mysql.startswith("TIMESTAMP"):
        low, high = datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7, 999999)  # noqa: DTZ001 - as text
    whole = not mysql.endswith("(6)")

    def text(at: datetime) -> str:
        return (at.replace(microsecond=0) if whole else at).isoformat(" ", "microseconds")

    found = [datetime.fromisoformat(f"{day} {clock}") for day in _DAYS for clock in _CLOCKS]
    found = [low, high, *(one for one in found if low <= one <= high)]

    def drawn(chance: random.Random) -> str:
        return text(low + (high - low) * chance.random())

    return [text(one) for one in found], drawn


def _single(chance: random.Random) -> str:
    import struct

    (value,) = struct.unpack(
        "<f", struct.pack("<f", chance.uniform(-1, 1) * 10.0 ** chance.randint(-37, 37))
    )
    return repr(value)


def _text(chance: random.Random) -> str:
    parts = [one for one in _TEXTS if one]
    return ("".join(chance.choice(parts) for _ in range(chance.randint(1, 4))))[
        : chance.choice([3, 31, 32, 33, 34, 200])
    ]
