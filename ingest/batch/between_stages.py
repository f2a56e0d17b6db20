"""What one stage of a batch hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.arrow.table_batch import TableBatch
from ingest.model.manifest import TableState
from ingest.model.position_ties import Doubt
from ingest.model.topics import TableId
from ingest.schema.steps import Applied, TableFacts


@dataclass(frozen=True)
class Decided:
    """What a batch means. ``facts``, ``tables``: of each table that it changes; ``doubts``: tables of which it is not
    certain any more what they hold.
    """

    facts: Mapping[TableId, TableFacts]
    tables: list[TableBatch]
    doubts: Mapping[TableId, Doubt]


@dataclass(frozen=True)
class Done:
    """What a batch has committed. ``stopped``: tables to which their part could not be applied; ``rejects``: changes in
    quarantine.
    """

    applied: list[Applied]
    stopped: Mapping[TableId, TableState]
    rejects: int
