"""DDLs that no change of their table has followed yet. Pure.

A DDL takes effect in the lake with the next change of its table. Where none comes, it takes effect
once everything before it is applied, which is certain when the connector has streamed beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.ddl_policy import Barrier
from ingest.schema.steps import TableFacts


def pending(
    catalog: Catalog,
    states: Mapping[str, TableState],
    streamed: Position,
    barriers: Mapping[TableId, Barrier],
) -> dict[TableId, Position]:
    """Tables whose newest DDL up to ``streamed``, and before a barrier, is not applied, and where it
    stands.
    """
    found = {}
    for table in sorted(catalog.versions):
        state = states.get(str(table))
        upto = catalog.pending(
            table, state.position if state else None, streamed, _at(barriers, table)
        )
        if upto is None:
            continue
        first = catalog.first(table)
        # A CREATE alone is not pending, nor a DROP … IF EXISTS before it: the table is made when it is first
        # looked for.
        if state is not None or (first and (first.moved_from or upto > first.position)):
            found[table] = upto
    return found


def is_of_a_snapshot(catalog: Catalog, table: TableId, upto: Position) -> bool:
    """True for a table without a key whose definition was read anew there, with its rows, by a snapshot."""
    version = catalog.at(table, upto)
    return version is not None and not version.key and catalog.was_read_anew(version)


def _at(barriers: Mapping[TableId, Barrier], table: TableId) -> Position | None:
    return barriers[table].position if table in barriers else None


def without_changes(
    ddl: Mapping[str, Position], catalog: Catalog, states: Mapping[str, TableState]
) -> dict[TableId, TableFacts]:
    """The facts of a batch in which these tables have DDLs and no change."""
    found = {}
    for name, upto in ddl.items():
        table, state = TableId.parse(name), states.get(name)
        first = catalog.first(table)
        low = state.position if state and state.position else first.position if first else upto
        found[table] = TableFacts.nothing(table, low, upto)
    return found
