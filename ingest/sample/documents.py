"""JSON documents: as SQL has them, as MySQL prints them, and as the stream brings them. Pure."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ingest.sample.texts import TEXTS

_DOUBLES = {
    "2.5": 2.5,
    "0.1": 0.1,
    "-1.5": -1.5,
    "0.000561": 0.000561,
    "12345678.9": 12345678.9,
    "1.5e-20": 1.5e-20,
    "-0.0": -0.0,
}
"""As MySQL prints each of them."""

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Between these Java writes a double without an exponent, and the stream brings that text."""

_WHOLE = (0, 1, -1, 2**31, 2**53 - 1, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 2**64 - 1)
_NAMES = ("", "a", "b", "ab", "é", "🎁", "after", "op", 'c":null', "\u2028", "\0", "a.b", "$")
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
_SHORT_ESCAPES["\t"] = "\\t"


@dataclass(frozen=True)
class Document:
    """``given``: the text that SQL is given. ``printed``: MySQL's own. ``streamed``: what the binlog's bytes become."""

    given: str
    printed: str
    streamed: str


def of(value: Any, given: str | None = None) -> Document:
    """A document of Python's values. ``given``: what to write instead, which means the same."""
    printed, streamed = _text(value, streamed=False), _text(value, streamed=True)
    return Document(printed if given is None else given, printed, streamed)


def drawn_document(rng: random.Random) -> Document:
    """One of these, or one that is made up."""
    return rng.choice(DOCUMENTS) if rng.random() < 0.5 else of(_drawn(rng, 3))


def _drawn(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(7 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice(_WHOLE)
    if kind == 2:
        return rng.choice(list(_DOUBLES.values()))
    if kind in (3, 4):
        return rng.choice(TEXTS)
    if kind == 5:
        return [_drawn(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    names = rng.sample(_NAMES, rng.randint(0, 4))
    return {name: _drawn(rng, depth - 1) for name in names}


def _text(value: Any, *, streamed: bool) -> str:
    comma, colon = (",", ":") if streamed else (", ", ": ")
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        pairs = (
            f"{_string(n, streamed=streamed)}{colon}{_text(value[n], streamed=streamed)}"
            for n in names
        )
        return "{" + comma.join(pairs) + "}"
    if isinstance(value, list):
        return "[" + comma.join(_text(one, streamed=streamed) for one in value) + "]"
    if isinstance(value, str):
        return _string(value, streamed=streamed)
    if isinstance(value, float):
        return _double(value, streamed=streamed)
    return json.dumps(value)


def _double(value: float, *, streamed: bool) -> str:
    if streamed and value and not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return f"{Decimal(value):f}"  # to the last binary digit
    return next(text for text, one in _DOUBLES.items() if repr(one) == repr(value))


def _string(text: str, *, streamed: bool) -> str:
    digits = "X" if streamed else "x"
    shown = (
        _SHORT_ESCAPES.get(one) or (f"\\u{ord(one):04{digits}}" if one < " " else one)
        for one in text
    )
    return f'"{"".join(shown)}"'


DOCUMENTS: tuple[Document, ...] = (
    of({}),
    of([]),
    of(None),
    of(True),
    of("null"),
    of(""),
    of({"b": [1, 2.5, 'x,y: "z\\'], "a": {}, "": None}),
    of({"a": 2}, '{"a": 1, "a": 2}'),
    of({"b": 1, "aa": 2, "é": 3, "": 4, "A": 5, "B": 6}),
    of("é🎁\u2028", '"\\u00e9\\ud83c\\udf81\\u2028"'),
    of({'"c":null': {"after": None, "op": "d"}}),
    of([[[[[[[[[[{}]]]]]]]]]]),
    of(list(_WHOLE)),
    of(list(_DOUBLES.values())),
    of("\x00\x01\x1f\x7f\b\f\n\r\t/\\"),
    *(of([text]) for text in TEXTS if len(text) < 4),
)
