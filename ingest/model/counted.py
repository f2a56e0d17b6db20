"""How many there are, in words. Pure."""

from __future__ import annotations


def counted(many: int, one: str) -> str:
    """``1 change``, ``2,000 changes``. ``one``: a word whose plural has an s more."""
    return f"{many:,} {one}{'' if many == 1 else 's'}"
