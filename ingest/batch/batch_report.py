"""What is said of a batch when it is published. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.maintenance.upkeep import Upkeep
from ingest.model.manifest import Entry


@dataclass(frozen=True)
class BatchReport:
    """What a batch did. ``upkeep``: what was done for tables since the batch before."""

    entry: Entry
    upkeep: tuple[Upkeep, ...] = ()
