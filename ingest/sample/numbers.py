"""Numbers at the ends of their types, and about the places where other number types end. Pure.

Each is what ``values.Value`` is made of: SQL, JSON of the stream, the lake's value, JSON of a snapshot.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

from ingest.sample.declared import Declared
from ingest.sample.json_forms import base64_text

Parts = tuple[str, Any, Any, Any]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_NEIGHBOURS = [
    sign * 2**power + one
    for power in (0, 7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64)
    for one in (-1, 0, 1)
    for sign in (1, -1)
]
SINGLE_BITS = 24
"""Of a FLOAT(p); from 25 on it is a DOUBLE."""
_DELTA_DIGITS = 38
_DOUBLES = (
    0.0,
    -0.0,
    0.1,
    -1.5,
    1e23,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    2.225073858507201e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2.0**53 - 1,
    2.0**53,
    2.0**53 + 2,
    2.0**63,
    2.0**64,
    1e15,
    1e16,
    123456789012345680.0,
    0.30000000000000004,
    1e-5,
    9007199254740993.5,
)
_SINGLES = (0.0, -0.0, 0.1, 1.5, -0.5, 1.4e-45, 1.4e-40, 1e38, -3e38, 123456.0, 0.333333, 1e10)
_BEYOND_SIX = ("16777216", "3.4028235e38", "-1.17549435e-38", "0.33333334", "1234567")


def boundaries(of: Declared) -> Iterator[Parts]:
    """Of a number's type, BIT and YEAR."""
    if of.name == "BIT":
        size = of.length or 1
        every = {0, 1, 2, 2**size - 1, 2 ** (size - 1), 0x0102030405060708, 2**53 + 1, 0x0A0D}
        yield from (_bits(one, size) for one in sorted(every) if one < 2**size)
    elif of.name == "YEAR":
        yield from (_whole(one, of) for one in (1901, 1969, 1970, 1999, 2000, 2038, 2069, 2155))
    elif _is_double(of):
        yield from map(_double, _DOUBLES)
    elif of.name.startswith("FLOAT"):
        if of.scale is None:
            yield from map(_single, _SINGLES)
        else:
            most = 10 ** min(of.length or 1, 7) - 1
            yield from (_fixed(one, of.scale) for one in (0, 1, -1, most, -most))
    elif of.name.startswith("DECIMAL"):
        digits, scale = _digits(of)
        most = 10**digits - 1
        units = {0, 1, -1, 10**scale, 10**scale // 10, most, -most, most - 1}
        units |= {one * 10**scale for one in _NEIGHBOURS} | set(_NEIGHBOURS)
        fits = (one for one in sorted(units) if abs(one) <= most)
        yield from (_decimal(one, of) for one in fits if one >= 0 or "UNSIGNED" not in of.name)
    else:
        low, high = _range(of)
        every = {low, low + 1, high - 1, high, *_NEIGHBOURS}
        yield from (_whole(one, of) for one in sorted(every) if low <= one <= high)


def drawn(rng: random.Random, of: Declared) -> Parts:
    """One that is made up."""
    if of.name == "BIT":
        size = of.length or 1
        return _bits(rng.getrandbits(size), size)
    if of.name == "YEAR":
        return _whole(rng.randint(1901, 2155), of)
    if _is_double(of):
        number: float = struct.unpack("<d", rng.getrandbits(64).to_bytes(8, "little"))[0]
        return _double(number if abs(number) < float("inf") else rng.uniform(-1e6, 1e6))
    if of.name.startswith("FLOAT"):
        if of.scale is None:
            return _single(rng.randint(-999_999, 999_999) * 10.0 ** rng.randint(-40, 32))
        most = 10 ** min(of.length or 1, 7) - 1
        return _fixed(rng.randint(-most, most), of.scale)
    if of.name.startswith("DECIMAL"):
        most = 10 ** rng.randint(1, _digits(of)[0]) - 1
        return _decimal(rng.randint(0 if "UNSIGNED" in of.name else -most, most), of)
    low, high = _range(of)
    near = rng.choice((low, high, 0)) + rng.randint(-1000, 1000)
    return _whole(min(high, max(low, near)), of)


def beyond_six_digits(exact: Callable[[Any], Any]) -> Iterator[tuple[str, Any, Any]]:
    """FLOATs of which a snapshot brings six digits: SQL, then what comes by a snapshot and by the stream."""
    for text in _BEYOND_SIX:
        number = _as_single(float(text))
        yield text, exact(_as_single(float(f"{number:.6g}"))), exact(number)


def _is_double(of: Declared) -> bool:
    wide = of.name == "FLOAT" and of.scale is None and (of.length or 0) > SINGLE_BITS
    return of.name.startswith("DOUBLE") or wide


def _range(of: Declared) -> tuple[int, int]:
    bits = _BITS[of.name.removesuffix(" UNSIGNED")]
    return (0, 2**bits - 1) if "UNSIGNED" in of.name else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _digits(of: Declared) -> tuple[int, int]:
    return of.length or 10, of.scale or 0


def _whole(number: int, of: Declared) -> Parts:
    lake = Decimal(number) if of.name == "BIGINT UNSIGNED" else number
    return str(number), number, lake, number


def _bits(number: int, size: int) -> Parts:
    if size == 1:
        return f"b'{number}'", bool(number), bool(number), bool(number)
    width = (size + 7) // 8
    raw = number.to_bytes(width, "little")
    json = base64_text(raw)
    return f"b'{number:b}'", json, raw[::-1], json


def _double(number: float) -> Parts:
    return _approximate(number), number, number, number


def _approximate(number: float) -> str:
    """A literal with an exponent is a DOUBLE in SQL; without one, a DECIMAL, which has no zero below zero."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def _as_single(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def _single(number: float) -> Parts:
    """Of at most six digits, so that a snapshot brings it, too."""
    short = float(f"{number:.6g}")
    return _approximate(short), short, _as_single(short), short


def _fixed(units: int, scale: int) -> Parts:
    """A FLOAT that is shown with so many fraction digits."""
    number = float(Decimal(units).scaleb(-scale))
    # Debezium writes the double that the single number is.
    single = _as_single(number)
    return f"{number:.{scale}f}", single, single, single


def _decimal(units: int, of: Declared) -> Parts:
    digits, scale = _digits(of)
    with localcontext() as context:
        context.prec = 80
        number = Decimal(units).scaleb(-scale).quantize(Decimal(1).scaleb(-scale))
    text = f"{number:f}"
    return text, text, text if digits > _DELTA_DIGITS else number, text
