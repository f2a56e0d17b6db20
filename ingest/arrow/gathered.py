"""What was read of a batch, piece by piece, put together."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa

from ingest.arrow import change_facts
from ingest.arrow.layouts import Layouts
from ingest.arrow.pieces import Before, Odd, Piece, Read
from ingest.arrow.source_rows import SourceRows
from ingest.model.manifest import Place
from ingest.model.topics import TableId
from ingest.schema.steps import TableFacts


@dataclass
class Gathered:
    """The pieces of a batch, as they come. ``others``: topics that are Spark's, each with why; what was read of them
    is forgotten. ``odd``: of partitions the first record that is.
    """

    befores: Mapping[str, Before]
    others: dict[str, str]
    odd: dict[Place, Odd] = field(default_factory=dict)
    bytes: int = 0
    """Of rows that were read."""
    _pieces: dict[Place, list[Piece]] = field(default_factory=dict)
    _newest: dict[Place, dict[str, Any] | None] = field(default_factory=dict)
    """Where each partition's streamed changes were by then: a ``high_water``."""

    def add(self, place: Place, found: Read) -> None:
        """What was read of the records that follow the last ones of this partition."""
        if self.is_over(place):
            return
        newest = self._newest.get(place)
        for piece in found.pieces:
            if not change_facts.follows(newest, piece.facts):
                self.odd[place] = Odd(found.pieces[0].start, "sent again")
                return
            newest = piece.facts["high_water"] or newest
        self._newest[place] = newest
        if found.pieces:
            self._pieces.setdefault(place, []).extend(found.pieces)
        self.bytes += sum(piece.rows.nbytes for piece in found.pieces)
        if found.odd is not None:
            self.odd[place] = found.odd

    def is_over(self, place: Place) -> bool:
        """Whether nothing more of a partition is wanted."""
        return place in self.odd or place[0] in self.others

    def facts(self) -> dict[TableId, TableFacts]:
        """Of tables that are not left to Spark."""
        rows = [
            reduce(change_facts.joined, [piece.facts for piece in pieces])
            for place, pieces in sorted(self._pieces.items())
            if place[0] not in self.others
        ]
        return TableFacts.combine(rows)

    def rows(self, pool: Executor) -> dict[TableId, SourceRows]:
        """Their rows, in the order of each partition, joined side by side; all pieces are let go of."""
        tables: dict[TableId, tuple[Layouts, list[Piece]]] = {}
        for place in sorted(self._pieces):
            pieces = self._pieces.pop(place)
            if place[0] not in self.others:
                layouts = self.befores[place[0]].layouts
                tables.setdefault(layouts.table, (layouts, []))[1].extend(pieces)
        return dict(zip(tables, pool.map(_joined, tables.values()), strict=True))


def _joined(of_table: tuple[Layouts, list[Piece]]) -> SourceRows:
    """All pieces of a table, which are let go of."""
    layouts, pieces = of_table
    by_layout: dict[int, list[pa.Table]] = {}
    for piece in pieces:
        by_layout.setdefault(piece.layout, []).append(piece.rows)
    pieces.clear()
    found = []
    for number in sorted(by_layout):
        whole = pa.concat_tables(by_layout.pop(number)).combine_chunks()
        found.append((layouts.each[number].version, whole))
    return SourceRows(tuple(found))
