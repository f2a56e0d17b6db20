"""Where changes were read, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_WORDS = {
    "driver": "in the driver",
    "tasks": "in Spark's tasks",
    "columns": "by Spark's columns",
}
"""By ``Entry.lanes``."""


def in_words(lanes: Mapping[str, int]) -> str:
    """``1,024 in the driver, 30,000 in Spark's tasks``; empty where nothing is known."""
    return ", ".join(f"{lanes[one]:,} {words}" for one, words in _WORDS.items() if lanes.get(one))
