"""What one stage of a batch hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.batch.step_cutter import Cut
from ingest.model.manifest import TableState
from ingest.model.position_ties import Doubt
from ingest.model.topics import TableId
from ingest.schema.steps import Applied, TableFacts


@dataclass(frozen=True)
class Decided:
    """What a batch means. ``facts``: of each table that it changes; ``cut``: its part of it; ``doubts``: tables of which it is not
    certain any more what they hold.
    """

    facts: Mapping[TableId, TableFacts]
    cut: Cut
    doubts: Mapping[TableId, Doubt]


@dataclass(frozen=True)
class Done:
    """What a batch has committed. ``stopped``: tables to which their part could not be applied; ``rejects``: changes in
    quarantine.
    """

    applied: list[Applied]
    stopped: Mapping[TableId, TableState]
    rejects: int
