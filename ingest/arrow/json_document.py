"""JSON documents in MySQL's own text, one by one in Python: what ``mysql_json`` says in Spark's columns.

The two are held equal by a law (tests/spark/arrow/test_in_driver.py). Pure.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

_SPACE = "[ \t\n\x0b\f\r]*"
_STRING = r'"(?:[^"\\]|\\.)*"'
_SEPARATOR = re.compile(f"({_STRING})|([,:]){_SPACE}", re.DOTALL)
_TOKEN = re.compile(f"({_STRING})|(-?[0-9][0-9.eE+-]*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:(u00[01][0-9A-F])|.)", re.DOTALL)
"""Of a control character: the stream writes its digits in upper case, MySQL in lower case."""
_LONG = re.compile("[0-9.]{17}")
_WRITTEN_OUT = re.compile(r"-?(?:[0-9]{16,}|[0-9]+\.[0-9]+)")
_SMALLEST = 1e-300
"""Far below, a double has so few digits that Java and Python do not agree on the shortest."""


def text(raw: str) -> str:
    """A document as MySQL prints it. Raises ``ValueError`` for what is no JSON, or too small a number."""
    json.loads(raw)
    if "\\u" in raw:
        raw = _ESCAPE.sub(lambda found: found[0].lower() if found[1] else found[0], raw)
    if _LONG.search(raw):
        raw = _TOKEN.sub(lambda found: found[1] or _number(found[2]), raw)
    return _SEPARATOR.sub(lambda found: found[1] or f"{found[2]} ", raw)


def _number(token: str) -> str:
    """A DOUBLE that is written out to its last binary digit becomes the shortest text that means it; the
    argument stands in ``mysql_json``.
    """
    if not _WRITTEN_OUT.fullmatch(token):
        return token
    digits = re.sub("[-.]", "", token)
    fraction = len(token.partition(".")[2])
    if fraction == 0:
        limit = f"0{2**63}" if token.startswith("-") else str(2**64 - 1)
        beyond = len(digits) > 20 or (len(digits) == 20 and digits > limit)
        return _shortest(token) if beyond else token
    long = len(digits.lstrip("0")) > 15
    return _shortest(token) if long and (fraction > 30 or _is_expansion(token, digits)) else token


def _is_expansion(token: str, digits: str) -> bool:
    """True when a text with a fraction is a double written out in full."""
    _, exact, exponent = Decimal(float(token)).as_tuple()
    assert isinstance(exponent, int)
    tail = "".join(map(str, exact[-18:])).zfill(18)
    return -exponent == len(token.partition(".")[2]) and tail == digits[-18:].zfill(18)


def _shortest(token: str) -> str:
    """MySQL's text of the double."""
    number = float(token)
    size = abs(number)
    if size < _SMALLEST:
        raise ValueError(f"{token[:40]} is too small a number")
    if 1e-3 <= size < 1e7:
        return repr(number)
    sign = "-" if number < 0 else ""
    _, digits, power = Decimal(repr(size)).normalize().as_tuple()
    assert isinstance(power, int)
    whole, rest = str(digits[0]), "".join(map(str, digits[1:]))
    exponent = power + len(rest)
    if -16 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{whole}{rest}"
    if 0 < exponent < len(rest) and exponent < 16:
        return f"{sign}{whole}{rest[:exponent]}.{rest[exponent:]}"
    return f"{sign}{whole}{'.' if rest else ''}{rest}e{exponent}"
