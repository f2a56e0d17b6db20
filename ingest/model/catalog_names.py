"""What tables are called in a catalogue, which knows letters, digits and `_` alone and no difference of case. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from ingest.model.topics import TableId

_FITS = re.compile(r"[A-Za-z0-9_]+")


class CatalogName(NamedTuple):
    """Of a table, as a catalogue has it."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def catalog_names(
    tables: Iterable[TableId], database: str
) -> tuple[dict[TableId, CatalogName], dict[TableId, str]]:
    """Those that can have one, and of the others why not. ``database``: a pattern with `{database}` in it. Two that would be called the same have none."""
    named, unfit = dict[TableId, CatalogName](), dict[TableId, str]()
    for table in sorted(tables):
        if not (_FITS.fullmatch(table.database) and _FITS.fullmatch(table.name)):
            unfit[table] = "a catalogue has letters of English, digits and `_` alone in a name"
            continue
        name = database.replace("{database}", table.database)
        named[table] = CatalogName(name.lower(), table.name.lower())
    owners = dict[CatalogName, list[TableId]]()
    for table, found in named.items():
        owners.setdefault(found, []).append(table)
    for found, several in owners.items():
        for table in several if len(several) > 1 else ():
            others = ", ".join(str(one) for one in several if one != table)
            unfit[table] = (
                f"{others} would be called {found}, too, and a catalogue does not tell A from a"
            )
            del named[table]
    return named, unfit


class CatalogEntry(NamedTuple):
    """Of a table, as the catalogue has it, or is to. ``provider``: of its format; ``id``: Delta's own of the table, by which a lake that has
    moved is told from another of the same name.
    """

    location: str
    provider: str
    id: str


Act = Literal["create", "move", "identify", "nothing", "refuse"]


def act(held: CatalogEntry | None, wanted: CatalogEntry) -> Act:
    """What makes the entry say where the table is, and which. One of somebody else's is never changed."""
    if held is None:
        return "create"
    if held.provider != wanted.provider:
        return "refuse"
    if held.location.rstrip("/") == wanted.location.rstrip("/"):
        # A table that was made anew at its place; without an id it was somebody else who said where it is.
        anew = held.id and wanted.id and held.id != wanted.id
        return "identify" if anew else "nothing"
    return "move" if held.id and held.id == wanted.id else "refuse"
