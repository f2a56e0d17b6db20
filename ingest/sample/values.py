"""Hostile values for every MySQL type: what real data holds sooner or later; drawn from a seed. Pure.

``values`` gives all boundaries and poison of a type, ``drawn`` one of them or one near them. Each value comes as an SQL
literal (for a session in strict mode, in utf8mb4 and UTC), as what Debezium's JSON carries of it, and as what the
lake must hold: exactly that. What docs/types.md names as not exact is apart, in ``inexact``, with what it becomes.

A type is named as a CREATE TABLE declares it: ``VARCHAR(40) CHARACTER SET latin1``, ``DECIMAL(65,30) UNSIGNED``,
``ENUM('a','x,y')``. With NOT NULL, values are left out that only a column with NULLs brings exactly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from ingest.sample import moments, numbers, texts
from ingest.sample.blobs import blob_size, drawn_blob, some_blobs
from ingest.sample.declared import Declared, declared
from ingest.sample.documents import DOCUMENTS, Document, drawn_document
from ingest.sample.geometries import drawn_geometry
from ingest.sample.json_forms import base64_text, geometry_json
from ingest.sample.labels import drawn_labels, every_label, labels_with_a_character_lost
from ingest.schema import snapshot_select
from ingest.schema.mysql_types import GEOMETRIES

QUARANTINE = "quarantine"
"""The row is set aside, with a reason."""


@dataclass(frozen=True, eq=False)
class Value:
    """One value. Two are equal when the lake holds the same of them, to the last bit.

    ``json``: what the stream carries; ``snapshot_json``: what a snapshot does. ``lake``: what a reader must find,
    in Python's types (a TIMESTAMP with its zone, a geometry as its SRID and well-known binary).
    """

    sql: str
    json: Any
    lake: Any
    snapshot_json: Any

    @cached_property
    def exact(self) -> Any:
        """See :func:`exact`."""
        return exact(self.lake)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.exact == other.exact

    def __hash__(self) -> int:
        return hash(self.exact)

    def __lt__(self, other: Value) -> bool:
        return repr(self.exact) < repr(other.exact)

    def __repr__(self) -> str:
        return repr(self.lake)


@dataclass(frozen=True)
class Inexact:
    """A value that docs/types.md names as not exact.

    ``snapshot``, ``stream``: what a reader finds that came this way, as :func:`exact` has it, or
    :data:`QUARANTINE`. ``named``: the ways of which the audit names the row.
    """

    sql: str
    snapshot: Any
    stream: Any
    named: tuple[str, ...] = ()


def exact(value: Any) -> Any:
    """A value as something that is equal only to itself: -0.0 is not 0.0, a Decimal has its digits. Dates and
    times are days and microseconds since 1970, since Python has none before the year 1.
    """
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return moments.micros_of(value)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(value, dict):
        return tuple((name, exact(one)) for name, one in sorted(value.items()))
    return value


NULL = Value("NULL", None, None, None)


def null(kind: str) -> Value:
    """NULL in a column of this type."""
    return NO_LABEL if declared(kind).marked else NULL


NO_LABEL = Value("NULL", None, None, snapshot_select.NULL)
"""NULL in a column whose labels a snapshot marks."""


def values(kind: str) -> Sequence[Value]:
    """All boundaries and poison of a type, in the same order each time, without NULL."""
    return _values(declared(kind))


def drawn(rng: random.Random, kind: str) -> Value:
    """One value of a type: half of the time a boundary or poison, else one that is made up. Never NULL."""
    of = declared(kind)
    every = _values(of)
    if rng.random() < 0.5:
        return rng.choice(every)
    return _drawn(rng, of) or rng.choice(every)


def literal(rng: random.Random, kind: str) -> str:
    """An SQL literal of a value of this type."""
    return drawn(rng, kind).sql


def long_text(rng: random.Random, size: int = 1 << 20) -> Value:
    """A text of at least ``size`` bytes."""
    text, sql = texts.long_text(rng, size)
    return _same(sql, text)


def inexact(kind: str) -> Sequence[Inexact]:
    """Values that docs/types.md names, and what becomes of each; in a session with an empty ``sql_mode``."""
    of = declared(kind)
    if of.name == "FLOAT" and of.scale is None and (of.length or 0) <= numbers.SINGLE_BITS:
        return [Inexact(*one, named=("snapshot",)) for one in numbers.beyond_six_digits(exact)]
    if of.name == "YEAR":
        return [Inexact("0", 2000, 0, ("snapshot",))]
    if of.name == "JSON":
        return [Inexact(*one, named=("stream",)) for one in _OTHER_DOCUMENTS]
    if of.not_null and of.name in ("DATE", "DATETIME"):
        doubtful = ("'0000-00-00'", "'1970-01-01'")
        return [Inexact(sql, QUARANTINE, QUARANTINE, ("snapshot", "stream")) for sql in doubtful]
    if of.name == "DATE":
        return [*_ZERO_DATES, Inexact("'0000-05-01'", -719_407, None, ("stream",))]
    if of.name == "DATETIME":
        gap = [datetime(1582, 10, day, 12) for day in (10, 20)]  # noqa: DTZ001  a wall clock
        first, then = map(exact, gap)
        year_one = exact(datetime(1, 5, 1))  # noqa: DTZ001  a wall clock
        return [
            *_ZERO_DATES,
            Inexact("'0000-05-01'", year_one, None, ("snapshot", "stream")),
            Inexact("'1582-10-10 12:00:00'", then, first, ("snapshot",)),
        ]
    if of.name in ("ENUM", "SET"):
        return [Inexact(*one, named=("stream",)) for one in labels_with_a_character_lost(of)]
    if of.ordered:
        return _MARKS
    return [_ZERO_DATES[0]] if of.name == "TIMESTAMP" else []


_MARKS = [
    Inexact(texts.quoted("\ufeffa"), "a", "a", ("snapshot", "stream")),
    Inexact(texts.quoted("\ufffea"), "\u6100", "\u6100", ("snapshot", "stream")),
]
"""Of utf16 and ucs2: what Java takes for the order of its bytes."""

_ZERO_DATES = (Inexact("'0000-00-00'", None, None), Inexact("'2024-05-00'", None, None))
_OTHER_DOCUMENTS = (
    ("'[10000000.0, 1e15]'", "[10000000.0, 1e15]", "[10000000, 1000000000000000]"),
    (
        "JSON_ARRAY(CAST('2024-02-29 01:02:03.5' AS DATETIME(6)))",
        '["2024-02-29 01:02:03.500000"]',
        '["2024-02-29 01:02:03.5"]',
    ),
    (
        "JSON_ARRAY(CAST('-25:00:00.5' AS TIME(6)))",
        '["-25:00:00.500000"]',
        '["26:0-1:0-1.00000-5"]',
    ),
)


# --- each type ------------------------------------------------------------------------------------


def _same(sql: str, value: Any) -> Value:
    """One that JSON and the lake have alike."""
    return Value(sql, value, value, value)


@lru_cache(maxsize=1024)
def _values(of: Declared) -> tuple[Value, ...]:
    if of.name in ("ENUM", "SET"):
        return tuple(Value(*one) for one in every_label(of))
    if of.name == "JSON":
        return tuple(map(_document, DOCUMENTS))
    if of.name in GEOMETRIES:
        rng = random.Random(1)
        return tuple(dict.fromkeys(_geometry(rng, of.name) for _ in range(12)))
    if (size := blob_size(of)) is not None:
        return tuple(dict.fromkeys(_blob(one, of) for one in some_blobs(size)))
    if (longest := _longest_text(of)) is not None:
        every = [_text(one, of) for one in texts.TEXTS if len(one) <= longest]
        return tuple(one for one in every if one)
    if of.name in ("DATE", "DATETIME", "TIMESTAMP", "TIME"):
        return tuple(dict.fromkeys(_moments(of)))
    return tuple(dict.fromkeys(Value(*one) for one in numbers.boundaries(of)))


def _drawn(rng: random.Random, of: Declared) -> Value | None:
    if of.name in ("ENUM", "SET"):
        return Value(*drawn_labels(rng, of))
    if of.name == "JSON":
        return _document(drawn_document(rng))
    if of.name in GEOMETRIES:
        return _geometry(rng, of.name)
    if (size := blob_size(of)) is not None:
        return _blob(drawn_blob(rng, size), of)
    if (longest := _longest_text(of)) is not None:
        return _text(texts.drawn_text(rng, longest), of)
    if of.name in ("DATE", "DATETIME", "TIMESTAMP"):
        instant = of.name == "TIMESTAMP"
        moment = moments.drawn_moment(rng, of.length or 0, instant=instant)
        return _day(moment.date(), of) if of.name == "DATE" else _moment(moment, of)
    if of.name == "TIME":
        micros = rng.randint(-moments.LONGEST, moments.LONGEST)
        return _time(moments.cut(micros, of.length or 0), of)
    return Value(*numbers.drawn(rng, of))


_TEXT_SIZES = {"TINYTEXT": 60, "TEXT": 16_000, "MEDIUMTEXT": 16_000, "LONGTEXT": 16_000}


def _longest_text(of: Declared) -> int | None:
    """In code points; None for what is no text."""
    return of.length or 1 if of.name in ("CHAR", "VARCHAR") else _TEXT_SIZES.get(of.name)


def _text(text: str, of: Declared) -> Value | None:
    """None for what the character set has no place for."""
    if not of.holds(text):
        return None
    kept = text.rstrip(" ") if of.name == "CHAR" else text
    return Value(texts.quoted(text), kept, kept, kept)


def _document(one: Document) -> Value:
    return Value(texts.quoted(one.given), one.streamed, one.printed, one.printed)


def _geometry(rng: random.Random, name: str) -> Value:
    srid, wkb = drawn_geometry(rng, name)
    raw = srid.to_bytes(4, "little") + wkb
    json = geometry_json(srid, wkb, name)
    return Value(f"0x{raw.hex()}", json, {"srid": srid, "wkb": wkb}, json)


def _blob(raw: bytes, of: Declared) -> Value:
    kept = raw.ljust(of.length or 1, b"\0") if of.name == "BINARY" else raw
    json = base64_text(kept)
    return Value(f"x'{raw.hex()}'", json, kept, json)


def _moments(of: Declared) -> list[Value]:
    digits = of.length or 0
    if of.name == "DATE":
        days = [_day(day, of) for day in moments.DATES]
        return [one for one in days if one]
    if of.name == "TIME":
        return [_time(moments.cut(micros, digits), of) for micros in moments.TIMES]
    every = []
    for moment in moments.MOMENTS:
        shown = moment.replace(microsecond=moments.cut(moment.microsecond, digits))
        if of.name == "DATETIME" or moments.fits_timestamp(shown):
            every.append(_moment(shown, of))
    return [one for one in every if one]


def _day(day: date, of: Declared) -> Value | None:
    """None for one that a NOT NULL column makes doubtful."""
    number = exact(day)
    return None if of.not_null and number == 0 else Value(f"'{day}'", number, day, number)


def _moment(moment: datetime, of: Declared) -> Value | None:
    """None for one that a NOT NULL column makes doubtful."""
    text = moment.isoformat(" ", "microseconds")[: 20 + of.length if of.length else 19]
    if of.name == "TIMESTAMP":
        instant = moments.instant(moment)
        shown = text.replace(" ", "T")
        short = shown.rstrip("0").rstrip(".") if of.length else shown
        return Value(f"'{text}'", f"{shown}Z", instant, f"{short}Z")
    micros = moments.micros_of(moment)
    return None if of.not_null and micros == 0 else Value(f"'{text}'", micros, moment, micros)


def _time(micros: int, of: Declared) -> Value:
    text = moments.time_text(micros, of.length or 0)
    return Value(f"'{text}'", micros, text, micros)
