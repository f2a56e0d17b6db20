"""How Debezium's JSON writes bytes and geometries. Pure."""

from __future__ import annotations

import base64
import struct
from typing import Any


def base64_text(raw: bytes) -> str:
    """Of a binary column."""
    return base64.b64encode(raw).decode()


def geometry_json(srid: int, wkb: bytes, kind: str) -> dict[str, Any]:
    """Of a geometry in a column of this type. An SRID of 0 is none; a POINT comes with its numbers, too."""
    written = {"wkb": base64_text(wkb), "srid": srid or None}
    if kind != "POINT":
        return written
    x, y = struct.unpack("<dd", wkb[5:21])
    return {"x": x, "y": y, **written}
