"""Values in a file of `java.util.Properties`, which Java reads in Latin-1, with escapes and blanks of its own. Pure."""

from __future__ import annotations

import re

_ODD = re.compile(r"[^A-Za-z0-9_./:,$@-]")


def as_property(text: str) -> str:
    """As Java reads it back, whatever is in it: what any encoding has as it is, and the rest by its number."""
    return _ODD.sub(lambda found: _by_number(found.group()), text)


def _by_number(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    return "".join(f"\\u{unit}" for unit in units)
