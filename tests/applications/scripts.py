"""Cuts a script for the mysql client into statements, as that client does."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<comment>(?:--(?=[\s]|$)|\#)[^\n]*|/\*(?![!+]).*?\*/)
      | (?P<kept>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|/\*[!+].*?\*/)
      | (?P<delimiter>(?mi:^[ \t]*DELIMITER[ \t]+)(?P<new>\S+)[^\n]*)
    """,
    re.DOTALL | re.VERBOSE,
)


def statements(script: str) -> Iterator[str]:
    """Each statement without its delimiter; comments are left out, those that MySQL executes are kept."""
    delimiter, at, text = ";", 0, ""
    while at < len(script):
        found = _TOKEN.match(script, at)
        if found and found["delimiter"] and not text.strip():
            delimiter = found["new"]
        elif found and found["comment"] is not None:
            text += " "
        elif found and found["kept"] is not None:
            text += found["kept"]
        elif script.startswith(delimiter, at):
            if text.strip():
                yield text.strip()
            text, at = "", at + len(delimiter)
            continue
        else:
            text, at = text + script[at], at + 1
            continue
        at = found.end() if found else at
    if text.strip():
        yield text.strip()
