"""Bytes of binary columns. Pure."""

from __future__ import annotations

import random

from ingest.sample.declared import Declared

_BLOBS = (
    b"",
    b"\0",
    b"a",
    b"a\0",
    b"\0\0\0\0\0",
    b"\x0a\x0d",
    b"\xff",
    b"\xff\x00\xfe",
    b"\x80",
    b"\xc3\x28",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"'\"\\`%",
    b"null",
    b'{"after":null}',
    bytes(range(256)),
    bytes(range(255)),
    b"\0" * 300,
)


def some_blobs(size: int) -> list[bytes]:
    """Those that a column of this many bytes holds."""
    return [one for one in _BLOBS if len(one) <= size]


def drawn_blob(rng: random.Random, size: int) -> bytes:
    """Any bytes, some alike but for the last ones."""
    found = rng.choice((b"", b"\0" * 32, b"a" * 32)) + rng.randbytes(rng.randint(0, 40))
    return found[:size]


def blob_size(of: Declared) -> int | None:
    """Bytes that a binary type holds, or as many as are worth drawing; None for what is no binary type."""
    if of.name in ("BINARY", "VARBINARY"):
        return of.length or 1
    if of.charset == "binary":
        return of.length or 255
    return {"TINYBLOB": 255, "BLOB": 4096, "MEDIUMBLOB": 4096, "LONGBLOB": 4096}.get(of.name)
