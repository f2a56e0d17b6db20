"""Lengths of time as a pipeline file writes them: `10 minutes`. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def _parts(value: str) -> tuple[int, str]:
    found = re.fullmatch(r"\s*(\d+)\s+(second|minute|hour|day)s?\s*", value)
    if not found:
        raise ValueError("expected a number and a unit, such as `10 minutes` or `1 hour`")
    return int(found[1]), found[2]


def seconds(value: str) -> int:
    """How long it is. Raises ``ValueError`` for another text."""
    number, unit = _parts(value)
    return number * _SECONDS[unit]


def _or_nothing(value: str) -> str:
    number, unit = _parts(value)
    return f"{number} {unit}s"


def _some(value: str) -> str:
    if not seconds(value):
        raise ValueError("expected a number and a unit, such as `10 minutes` or `1 hour`")
    return _or_nothing(value)


Duration = Annotated[str, AfterValidator(_some)]
"""Longer than nothing, as Spark has it: `10 minutes`."""

DurationOrNone = Annotated[str, AfterValidator(_or_nothing)]
"""The same; `0 seconds`, too."""
