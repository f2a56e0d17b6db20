"""Certificates and keys as files of PEM hold them, between whatever else stands there. Pure."""

from __future__ import annotations

import re

_CERTIFICATE, _KEY = (
    re.compile(rf"-----BEGIN {kind}-----.*?-----END {kind}-----", re.DOTALL)
    for kind in ("CERTIFICATE", "(?:[A-Z]+ )?PRIVATE KEY")
)


def certificates(text: str) -> str:
    """All of them; empty where there is none."""
    return _joined(_CERTIFICATE, text)


def private_keys(text: str) -> str:
    """The same of keys."""
    return _joined(_KEY, text)


def _joined(kind: re.Pattern[str], text: str) -> str:
    return "".join(f"{block}\n" for block in kind.findall(text))
