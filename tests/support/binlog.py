"""MySQL's own log in tests that have no MySQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ingest.model.position import Position
from ingest.model.position_ties import Event


class PlainLog:
    """A log in which no transaction is compressed, but for those at some places (file, byte)."""

    def __init__(self, *compressed: tuple[int, int]) -> None:
        self.compressed = set(compressed)
        self.asked: list[Position] = []

    def events(self, places: Collection[Position]) -> Mapping[Position, Event]:
        self.asked += places
        return {
            at: Event(
                "Transaction_payload" if (at.file, at.pos) in self.compressed else "Update_rows",
                1000,
            )
            for at in places
        }
