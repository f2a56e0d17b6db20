"""A column's type as a CREATE TABLE declares it, taken apart. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ingest.schema.mysql_types import normalised

_DECLARED = re.compile(
    r"""(?isx)^\s*(?P<name>(?:(?:national|long)\s+(?:var)?char(?:acter)?\b
        |[a-z]+[a-z0-9]*(?:\s+(?:precision|varbinary)\b)?)(?:\s+varying\b)?)
    \s*(?:\((?P<inner>(?:'(?:[^'\\]|''|\\.)*'|[^)'])*)\))?(?P<rest>.*)$"""
)
_LABEL = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_CHARSET = re.compile(r"(?i)(?:character set|charset)\s+'?(\w+)")
_ATTRIBUTES = {"ascii": "latin1", "unicode": "ucs2"}
"""A character set's other name as an attribute (MySQL 8.4, "Character Set ... Supported Attributes")."""
_ATTRIBUTE = re.compile(r"(?i)\b(?:ascii|unicode)\b")
_BASIC_PLANE = ("utf8mb3", "utf8", "ucs2")
_TWO_BYTES = ("utf16", "ucs2")
_TRUTHS = ("BOOL", "BOOLEAN")
_CODECS = {
    "latin1": "cp1252",
    "ascii": "ascii",
    "gbk": "gbk",
    "gb18030": "gb18030",
    "utf16": "utf-16-be",
    "ucs2": "utf-16-be",
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
}


@dataclass(frozen=True)
class Declared:
    """``name``: in upper case, synonyms resolved, ``UNSIGNED`` last. ``length``, ``scale``: as they are written."""

    name: str
    length: int | None = None
    scale: int | None = None
    labels: tuple[str, ...] = ()
    """Of an ENUM or SET, as they are quoted."""
    charset: str = "utf8mb4"
    not_null: bool = False

    @property
    def codec(self) -> str:
        """Python's name for the character set."""
        return _CODECS[self.charset]

    @property
    def marked(self) -> bool:
        """True for labels that a snapshot marks (``snapshot_select``)."""
        return self.name in ("ENUM", "SET") and self.charset == "binary"

    @property
    def ordered(self) -> bool:
        """True where U+FEFF or U+FFFE at the beginning of a text is taken for the order of its bytes."""
        return self.charset in _TWO_BYTES

    def holds(self, text: str) -> bool:
        """True for a text that the character set has a place for, and that comes back as it is."""
        if self.ordered and text[:1] in ("\ufeff", "\ufffe"):
            return False
        if self.charset in _BASIC_PLANE and any(one > "\uffff" for one in text):
            return False
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        return True


@lru_cache(maxsize=1024)
def declared(text: str) -> Declared:
    """Raises ``ValueError`` for what is no type."""
    found = _DECLARED.match(text)
    if not found:
        raise ValueError(f"no type: {text}")
    rest = found["rest"]
    plain = re.sub(r"(?i)\s+", " ", found["name"]).upper()
    unsigned = " UNSIGNED" if re.search(r"(?i)\b(?:unsigned|zerofill)\b", rest) else ""
    name = "TINYINT" if plain in _TRUTHS else normalised(plain + unsigned)
    name = name.replace("REAL", "DOUBLE") if plain == "REAL" else name
    charset = _charset(rest)
    never = re.search(r"(?i)\b(?:not\s+null|primary\s+key)\b", rest) is not None
    national = re.match(r"(?i)n(?:char|varchar|ational)", plain)
    which = charset or ("utf8mb3" if national else "utf8mb4")
    if name in ("ENUM", "SET"):
        labels = tuple(_LABEL.findall(found["inner"] or ""))
        return Declared(name, labels=labels, charset=which, not_null=never)
    sizes = [int(size) for size in (found["inner"] or "").split(",") if size.strip()]
    length, scale = (*sizes, None, None)[:2]
    return Declared(name, length, scale, (), which, never)


def _charset(rest: str) -> str | None:
    """The character set that stands behind a type's name."""
    if named := _CHARSET.search(rest):
        return named[1].lower()
    attribute = _ATTRIBUTE.search(rest)
    return _ATTRIBUTES[attribute[0].lower()] if attribute else None
