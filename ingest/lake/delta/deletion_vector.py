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

from pyroaring import BitMap

Descriptor = Mapping[str, Any]
"""``storageType``, ``pathOrInlineDv``, ``sizeInBytes``, ``cardinality``; others of Delta's say more."""

FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"

_MAGIC = 1681511377
"""Of a `RoaringBitmapArray` in the portable format."""

_HEAD = struct.Struct("<iq")  # the magic number, how many bitmaps follow
_KEY = struct.Struct("<i")  # before each: the upper 32 bits of its row numbers
_OF_UUID = 20  # digits, the last ones of a path
_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = str.maketrans(_PYTHON, _Z85), str.maketrans(_Z85, _PYTHON)
"""The digits of Python's base 85 (RFC 1924), and of the protocol's (ZeroMQ RFC 32)."""


class UnreadableError(Exception):
    """A deletion vector that we did not write: it lies in a separate file (ours stand in the log), or in another format."""


def inline(rows: Iterable[int]) -> dict[str, Any]:
    """The descriptor of these row numbers, each below 2^32."""
    held = BitMap(rows)
    raw = _HEAD.pack(_MAGIC, 1) + _KEY.pack(0) + held.serialize()
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
    magic, count = _HEAD.unpack_from(raw)
    start = _HEAD.size
    if magic != _MAGIC or count > 1 or (count and _KEY.unpack_from(raw, start) != (0,)):
        raise UnreadableError("of another format")
    return BitMap.deserialize(raw[start + _KEY.size :]) if count else BitMap()


def _encoded(raw: bytes) -> str:
    padded = raw + bytes(-len(raw) % 4)
    return base64.b85encode(padded).decode().translate(_TO_Z85)


def _decoded(text: str) -> bytes:
    return base64.b85decode(text.translate(_FROM_Z85))
