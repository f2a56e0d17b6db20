"""Deletion vectors as they stand in a table's log: which rows of a file are gone, though the file still has them.

A bitmap of row numbers in a file, written into the commit itself ("inline", Delta's protocol: *Deletion Vector
Descriptor Schema* and *Deletion Vector Format*), so that no file comes with it that could be lost or left over. Pure.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pyroaring import BitMap, BitMap64

Descriptor = Mapping[str, Any]
"""``storageType``, ``pathOrInlineDv``, ``sizeInBytes``, ``cardinality``; others of Delta's say more."""

FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"

_MAGIC = struct.pack("<i", 1681511377)
"""Before a `RoaringBitmapArray` in the portable format, which is the library's bitmap of 64-bit numbers."""

_LIMIT = 2**32
"""Of the row numbers that are read here."""

_OF_UUID = 20  # digits, the last ones of a path
_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = str.maketrans(_PYTHON, _Z85), str.maketrans(_Z85, _PYTHON)
"""The digits of Python's base 85 (RFC 1924), and of the protocol's (ZeroMQ RFC 32)."""


class UnreadableError(Exception):
    """A deletion vector that we did not write: it lies in a separate file (ours stand in the log), or in another format."""


def inline(rows: Iterable[int]) -> dict[str, Any]:
    """The descriptor of these row numbers, each below 2^32."""
    held = BitMap64(rows)
    raw = _MAGIC + held.serialize()
    return {
        "storageType": "i",
        "pathOrInlineDv": _encoded(raw),
        "sizeInBytes": len(raw),
        "cardinality": len(held),
    }


def file_of(descriptor: Descriptor | None) -> str | None:
    """The file below its table that holds it; None for none, and for one that lies in the log."""
    if descriptor is None or descriptor["storageType"] != "u":
        return None
    text = descriptor["pathOrInlineDv"]
    folder, name = text[:-_OF_UUID], uuid.UUID(bytes=_decoded(text[-_OF_UUID:]))
    return f"{folder}/deletion_vector_{name}.bin".removeprefix("/")


def rows(descriptor: Descriptor | None) -> BitMap:
    """The row numbers; none without a descriptor. Raises :class:`UnreadableError`."""
    if descriptor is None:
        return BitMap()
    if descriptor["storageType"] != "i":
        raise UnreadableError("in a file of its own")
    raw = _decoded(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]]
    if not raw.startswith(_MAGIC):
        raise UnreadableError("of another format")
    held = BitMap64.deserialize(raw[len(_MAGIC) :])
    if held and held.max() >= _LIMIT:
        raise UnreadableError("of another format")
    return BitMap(held)


def _encoded(raw: bytes) -> str:
    padded = raw + bytes(-len(raw) % 4)
    return base64.b85encode(padded).decode().translate(_TO_Z85)


def _decoded(text: str) -> bytes:
    return base64.b85decode(text.translate(_FROM_Z85))
