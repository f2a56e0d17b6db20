"""Deletion vectors by the protocol's text (Deletion Vector Format) and the Roaring bitmaps' own: no library decodes them here."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC, _WITH_RUNS, _PLAIN, _NO_OFFSETS_BELOW = 1681511377, 12347, 12346, 4


def rows_of(descriptor: dict[str, Any] | None, table: Path) -> set[int]:
    """Row numbers that are deleted. Raises ``ValueError`` for what is no vector."""
    if not descriptor:
        return set()
    text, size = descriptor["pathOrInlineDv"], descriptor["sizeInBytes"]
    if descriptor["storageType"] == "i":
        raw = z85(text)[:size]
    else:
        name = uuid.UUID(bytes=z85(text[-20:]))
        file = table / text[:-20] / f"deletion_vector_{name}.bin"
        start = descriptor.get("offset") or 1
        held = file.read_bytes()
        (stored,) = struct.unpack_from(">i", held, start)
        if stored != size:
            raise ValueError(f"{stored} bytes, not {size}")
        raw = held[start + 4 : start + 4 + size]
    magic, count = struct.unpack_from("<iq", raw)
    if magic != _MAGIC:
        raise ValueError("no vector")
    found, at = set[int](), 12
    for _ in range(count):
        (upper,) = struct.unpack_from("<I", raw, at)
        low, at = _bitmap(raw, at + 4)
        found |= {upper << 32 | one for one in low}
    return found


def z85(text: str) -> bytes:
    """ZeroMQ's base 85: five digits to four bytes."""
    found = bytearray()
    for at in range(0, len(text), 5):
        number = 0
        for digit in text[at : at + 5]:
            number = number * 85 + _DIGITS.index(digit)
        found += number.to_bytes(4, "big")
    return bytes(found)


def _bitmap(raw: bytes, at: int) -> tuple[list[int], int]:
    (cookie,) = struct.unpack_from("<I", raw, at)
    if cookie & 0xFFFF == _WITH_RUNS:
        count, at = (cookie >> 16) + 1, at + 4
        runs = raw[at : at + (count + 7) // 8]
        at += len(runs)
    elif cookie == _PLAIN:
        (count,) = struct.unpack_from("<I", raw, at + 4)
        runs, at = b"", at + 8
    else:
        raise ValueError("no Roaring bitmap")
    heads = [struct.unpack_from("<HH", raw, at + 4 * one) for one in range(count)]
    at += 4 * count
    if not runs or count >= _NO_OFFSETS_BELOW:
        at += 4 * count  # where each container is, which follow one another
    found = list[int]()
    for number, (key, less_one) in enumerate(heads):
        is_run = bool(runs and runs[number // 8] >> number % 8 & 1)
        low, at = _container(raw, at, less_one + 1, is_run=is_run)
        found += [key << 16 | one for one in low]
    return found, at


def _container(raw: bytes, at: int, size: int, *, is_run: bool) -> tuple[list[int], int]:
    if is_run:
        (count,) = struct.unpack_from("<H", raw, at)
        pairs = [struct.unpack_from("<HH", raw, at + 2 + 4 * one) for one in range(count)]
        return [
            one for start, more in pairs for one in range(start, start + more + 1)
        ], at + 2 + 4 * count
    if size <= 4096:
        return list(struct.unpack_from(f"<{size}H", raw, at)), at + 2 * size
    return list(_bits(raw[at : at + 8192])), at + 8192


def _bits(raw: bytes) -> Iterator[int]:
    return (at * 8 + bit for at, byte in enumerate(raw) for bit in range(8) if byte >> bit & 1)
