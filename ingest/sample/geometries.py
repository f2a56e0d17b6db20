"""Geometries as MySQL stores them: an SRID, then well-known binary. Pure."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

_POINT, _LINE, _POLYGON, _POINTS, _LINES, _POLYGONS, _COLLECTION = range(1, 8)
_NAMES = {
    "POINT": _POINT,
    "LINESTRING": _LINE,
    "POLYGON": _POLYGON,
    "MULTIPOINT": _POINTS,
    "MULTILINESTRING": _LINES,
    "MULTIPOLYGON": _POLYGONS,
    "GEOMETRYCOLLECTION": _COLLECTION,
}
_SRIDS = (0, 4326, 3857)

_Ring = Sequence[tuple[float, float]]


def drawn_geometry(rng: random.Random, name: str) -> tuple[int, bytes]:
    """An SRID, and a geometry of this MySQL type; of any for GEOMETRY."""
    code = _NAMES[rng.choice(list(_NAMES)) if name == "GEOMETRY" else name]
    srid = rng.choice(_SRIDS)
    return srid, _drawn(rng, code)


def _drawn(rng: random.Random, code: int) -> bytes:
    at = rng.choice((0.0, 1.0, -0.5, 0.1, 45.25, 5e-324))
    ring = [(at, at), (at + 4, at), (at + 4, at + 4), (at, at)]
    parts = {
        _POINT: lambda: struct.pack("<dd", at, rng.choice((at, -2.0, 20.125))),
        _LINE: lambda: _ring(ring[:3]),
        _POLYGON: lambda: struct.pack("<I", 1) + _ring(ring),
        _POINTS: lambda: _several(rng, _POINT),
        _LINES: lambda: _several(rng, _LINE),
        _POLYGONS: lambda: struct.pack("<I", 1) + _drawn(rng, _POLYGON),
        _COLLECTION: lambda: (
            struct.pack("<I", 2) + _drawn(rng, _POINT) + _drawn(rng, rng.choice((_LINE, _POLYGON)))
        ),
    }
    return struct.pack("<BI", 1, code) + parts[code]()


def _ring(points: _Ring) -> bytes:
    return struct.pack("<I", len(points)) + b"".join(struct.pack("<dd", *one) for one in points)


def _several(rng: random.Random, code: int) -> bytes:
    count = rng.randint(1, 3)
    return struct.pack("<I", count) + b"".join(_drawn(rng, code) for _ in range(count))
