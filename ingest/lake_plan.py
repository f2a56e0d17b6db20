"""What pending DDLs and a changed pipeline file will do to the lake, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ingest import evolve
from ingest.catalog import Catalog, SchemaVersion
from ingest.manifest import TableState
from ingest.mysql_types import UnknownType, column_type
from ingest.topics import TableId

Cost = Literal["nothing", "metadata", "rewrite", "resync", "rows go", "refused"]
"""``metadata``: a commit without data. ``rewrite``: every file of the table is written anew. ``resync``:
the table is read again from MySQL besides."""


@dataclass(frozen=True)
class HeldTable:
    """A table as the lake holds it now: columns (name to Delta type, ours left out), and its size."""

    columns: Mapping[str, str]
    multiset: bool
    rows: int
    bytes: int


@dataclass(frozen=True)
class Effect:
    """One statement, or one setting, and what it will do. ``bytes``: written because of it."""

    table: str
    cause: str
    costs: tuple[Cost, ...]
    sentence: str
    bytes: int = 0

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


def effects(
    catalog: Catalog, states: Mapping[str, TableState], held: Mapping[str, HeldTable]
) -> list[Effect]:
    """Every DDL that the connector has delivered and the lake has not applied, in order, each upon what
    the ones before it will have made of the table.
    """
    found: list[Effect] = []
    for table in sorted(catalog.versions):
        state, lake = states.get(str(table)), held.get(str(table))
        versions = catalog.between(table, None, max(v.position for v in catalog.versions[table]))
        if lake is None:
            found += _made(versions)
            continue
        done = state.position if state and state.position else versions[0].position
        before = [v for v in versions if v.position <= done and v.columns]
        later = [v for v in versions if v.position > done and not v.from_snapshot]
        found += _changed(before[-1] if before else None, later, lake)
    return found


def _made(versions: Sequence[SchemaVersion]) -> list[Effect]:
    newest = versions[-1]
    if not newest.columns:
        return []
    sentence = f"made with {len(newest.columns)} columns"
    if newest.moved_from:
        why = f"{sentence}, and read from MySQL: its rows came by another name"
        return [Effect(str(newest.table), newest.ddl, ("metadata", "resync"), why)]
    return [Effect(str(newest.table), newest.ddl, ("metadata",), sentence)]


def _changed(
    previous: SchemaVersion | None, later: Sequence[SchemaVersion], lake: HeldTable
) -> list[Effect]:
    found = []
    columns, multiset = lake.columns, lake.multiset
    for version in later:
        name = str(version.table)
        if not version.columns:
            found.append(Effect(name, version.ddl, ("rows go",), "its rows go, the table stays"))
            previous = None
            continue
        if version.moved_from:
            why = f"read from MySQL: its rows came from {version.moved_from}"
            found.append(Effect(name, version.ddl, ("resync",), why))
        elif previous is not None:
            found.append(_effect(version, previous, evolve.Held(columns, multiset), lake))
        try:
            columns = {column.name: column_type(column).delta for column in version.columns}
        except UnknownType:
            break
        multiset, previous = not version.key, version
    return found


def _effect(
    version: SchemaVersion, previous: SchemaVersion, held: evolve.Held, lake: HeldTable
) -> Effect:
    name = str(version.table)
    try:
        plan = evolve.plan(held, version, previous.columns, keyed=bool(version.key))
    except UnknownType as unknown:
        return Effect(name, version.ddl, ("refused",), str(unknown))
    costs: list[Cost] = []
    written = 0
    if isinstance(plan, evolve.Rewrite):
        costs.append("rewrite")
        written = lake.bytes
        sentence = f"{lake.rows:,} rows are written anew; earlier versions stay readable"
    elif isinstance(plan, evolve.AddColumns):
        costs.append("metadata")
        added = ", ".join(repr(column.name) for column in plan.columns)
        sentence = f"adds {added}"
        if plan.defaults:
            costs.append("rewrite")
            written = lake.bytes
            sentence += f" and fills {lake.rows:,} rows with their default"
    else:
        costs.append("nothing" if version.key == previous.key else "metadata")
        sentence = "no change of the lake" if costs == ["nothing"] else "another key"
    if plan.unknown:
        costs.append("resync")
        sentence += f"; read again from MySQL, since only it knows {' and '.join(plan.unknown)}"
    return Effect(name, version.ddl, tuple(costs), sentence, written)


def of_patterns(
    captured: Sequence[TableId], known: Sequence[TableId], held: Sequence[str]
) -> list[Effect]:
    """What changed patterns do. ``captured``: tables that the file takes now; ``known``: those that the
    connector has told of; ``held``: those in the lake.
    """
    found = [
        Effect(
            str(table),
            "source.tables",
            ("metadata",),
            "streamed from now on; `ingest resync` reads the rows it has already",
        )
        for table in captured
        if known and table not in known
    ]
    taken = {str(table) for table in captured}
    found += [
        Effect(name, "source.tables", ("nothing",), "no longer taken: stays as it is")
        for name in held
        if name not in taken
    ]
    return found
