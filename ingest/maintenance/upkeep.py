"""What was done for a table between two batches. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Upkeep:
    """``path``: of the table; ``what``: files sorted or put together, old versions removed, old rows of the manifest or a change log removed, or
    none of these, as it failed.

    ``detail``: for a person; where it failed it holds the failure's own words. ``files``: how many were written anew or
    removed; ``rows``: in them, where that is known.
    """

    path: str
    what: Literal["ordered", "vacuumed", "forgotten", "failed"]
    detail: str
    rows: int = 0
    files: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"
