"""By which layout each change of a table is read: that of the schema version in force at its position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.arrow.json_columns import Layout
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog, SchemaVersion


@dataclass(frozen=True)
class Layouts:
    """Of one table. ``starts``: from where on each of ``each`` is in force, in order; neighbours differ. There is at least one."""

    starts: Sequence[Position]
    each: Sequence[Layout]

    @property
    def table(self) -> TableId:
        """Whose they are."""
        return self.each[0].version.table

    def unreadable(self) -> str | None:
        """Why only Spark can read what one of them is of; None where all can be read by Arrow."""
        return next((why for one in self.each if (why := one.unreadable())), None)

    def end(self, number: int) -> Position | None:
        """Where the next one is in force; None for the last."""
        return self.starts[number + 1] if number + 1 < len(self.starts) else None


def in_force(catalog: Catalog, table: TableId, applied: Position | None) -> list[SchemaVersion]:
    """A table's versions by which changes behind ``applied`` may have to be read, in order; of those that are alike the first. Empty where only a DROP is known.
    ``applied``: where the table is, None for one that nothing is applied of.
    """
    every = [v for v in catalog.between(table, None, catalog.newest(table)) if v.columns]
    held = [v for v in every if applied is not None and v.position <= applied]
    found = held[-1:]
    for version in every[len(held) :]:
        if found and found[-1].position == version.position:
            found.pop()  # of two at one place the later holds
        if not found or not found[-1].is_like(version):
            found.append(version)
    return found


def barriers(catalog: Catalog, table: TableId, applied: Position | None) -> list[Position]:
    """Where DDLs of a table lie behind a position, those that change no layout among them."""
    found = catalog.between(table, applied, catalog.newest(table))
    return sorted({version.position for version in found})
