"""Texts that programs stumble over, and how a text is written in SQL. Pure.

Every one of them is valid in a utf8mb4 column. They are what people paste, what other programs write, and what our own
formats could take for a part of themselves.
"""

from __future__ import annotations

import random

_ENDS_A_LINE = ("\n", "\r", "\r\n", *"\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
"""What some reader or other takes for the end of a line."""

_PREFIX = "abcdefghijklmnopqrstuvwxyz012345"
"""Thirty-two code points: where statistics in a table's log are cut."""

TEXTS: tuple[str, ...] = (
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "\0",
    "a\0b",
    *(f"a{one}b" for one in _ENDS_A_LINE),
    "\u2028",
    "\x85",
    "\t\x08\x1a\x1b\x7f\x80\x9f",
    # Characters of all planes, and code points that are no character.
    "é漢🎁",
    "𠮷野家",
    "\U00010000",
    "\U00020000",
    "\U00030000",
    "\U000e0041",
    "\U000f0000",
    "\U0010ffff",
    "\ud7ff",
    "\ue000",
    "\ufeffa",
    "\ufffd",
    "\ufffe",
    "\uffff",
    "\ufdd0",
    "👩‍👩‍👧‍👦🏳️‍🌈🇦🇹",
    # Alike to the eye, or to a collation.
    "é",
    "e\u0301",
    "\u212b",
    "Å",
    "ﬁ",
    "ß",
    "ẞ",
    "İ",
    "ı",
    "a\u0316\u0301b",
    "\u200b",
    "\u202eabc",
    "ｗｉｄｅ",
    # Quotes, and what has a meaning in some language or other.
    "'",
    '"',
    "`",
    "''",
    "\\",
    "\\'",
    "\\\\",
    "\\n",
    "\\u2028",
    "\\ud83c",
    '"; DROP TABLE t; --',
    "/* # ;",
    "%",
    "%s %(a)s %%",
    "{} {0} ${a} $1 {{",
    "a,b",
    "\\,",
    "<a href='b'>&amp;</a>",
    # Of JSON, and of Debezium's envelope.
    "null",
    '"null"',
    '"c":null',
    '{"after":null}',
    '"op":"d","ts_ms":0}',
    '"source":{"pos":1}',
    ":null,",
    "{",
    "}",
    "[]",
    "true",
    "__debezium_unavailable_value",
    "_ingest",
    # Like numbers and dates.
    "0",
    "-0",
    "1e400",
    "NaN",
    "9007199254740993",
    "0000-00-00",
    # The same up to the thirty-second code point.
    _PREFIX,
    _PREFIX + "a",
    _PREFIX + "b",
    _PREFIX + "\0",
    _PREFIX + "\U0010ffff",
    _PREFIX[:-1] + "\U0010ffff",
    "𠮷" * 32 + "a",
    "𠮷" * 32 + "b",
    "\U0010ffff" * 32 + "a",
    "\U0010ffff" * 33,
    "\uffff" * 32 + "\U00010000",
    # Ends of ranges beyond it: what follows the greatest is not always one more.
    _PREFIX[:-1] + "\U0010ffff" * 2,
    _PREFIX[:-2] + "\U0010ffff" * 3 + "z",
    "\x7f" * 33,
    "~" * 32 + "\x80",
    "\ud7ff" * 40,
    "\ue000" * 40,
    "x" * 400,
)

_SHORT = tuple(text for text in TEXTS if 0 < len(text) < 8)


def drawn_text(rng: random.Random, longest: int) -> str:
    """One of them, or some of them in a row; at most ``longest`` code points."""
    text = rng.choice(TEXTS)
    if rng.random() < 0.4:
        text = "".join(rng.choices(_SHORT, k=rng.randint(1, 6)))
    elif rng.random() < 0.3:
        text += rng.choice(_SHORT)
    return text[:longest]


def long_text(rng: random.Random, size: int = 1 << 20) -> tuple[str, str]:
    """A text of at least ``size`` bytes in UTF-8, and an SQL expression that makes it: apart from the others, since
    each takes its size in every message and every file.
    """
    piece = drawn_text(rng, 40) + rng.choice(("x", "漢", "🎁", "\u2028"))
    times = size // len(piece.encode()) + 1
    return piece * times, f"REPEAT({quoted(piece)}, {times})"


_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"}
)


def quoted(text: str) -> str:
    """An SQL literal, in a session without NO_BACKSLASH_ESCAPES."""
    return f"'{text.translate(_ESCAPES)}'"
