"""What the pipeline file says is to be done about a DDL, per table and kind of change. Pure.

``evolve``: the lake follows. ``ignore``: the lake stays as it is, where that makes no value wrong.
``pause``: the table's changes from that DDL on wait in Kafka, the other tables go on. ``fail``: the run
ends before it. A policy is about DDLs to come: what an earlier one has left out of the lake, or kept in
it, stands in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl, evolution
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.steps import TableFacts

Kind = Literal[
    "add_column",
    "drop_column",
    "rename_column",
    "change_type",
    "change_key",
    "drop_table",
    "truncate",
]
Act = Literal["evolve", "ignore", "pause", "fail"]


@dataclass(frozen=True)
class Rules:
    """Of one table. ``approved``: DDLs up to there have been looked at by a person."""

    acts: Mapping[Kind, Act] = field(default_factory=dict)
    approved: Position | None = None

    def of(self, kind: Kind, at: Position) -> Act:
        """What to do about one kind of change in the DDL at a position."""
        act = self.acts.get(kind, "evolve")
        waits = act in ("pause", "fail")
        return "evolve" if waits and self.approved and at <= self.approved else act

    @property
    def ignores(self) -> frozenset[Kind]:
        """Kinds of change that leave the lake as it is."""
        return frozenset(kind for kind, act in self.acts.items() if act == "ignore")


@dataclass(frozen=True)
class Barrier:
    """A DDL that the lake does not go beyond. ``why``: what in it, in words."""

    position: Position
    act: Act
    statement: str
    why: str


@dataclass(frozen=True)
class Change:
    """One kind of change in a DDL, and the columns it is about (old names, where there are two)."""

    kind: Kind
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(map(repr, self.columns))
        return f"{self.kind} {named}".strip()


def changes(previous: SchemaVersion, version: SchemaVersion) -> list[Change]:
    """What a DDL changes of what the lake holds: an index, a comment or a longer VARCHAR is nothing."""
    if not version.columns:
        return [Change("drop_table")]
    gone = [Change("drop_table")] if version.replaces else []
    said = ddl.column_changes(version.ddl)
    before = {column.name: column for column in previous.columns}
    origins = {column.name: said.origin(column.name, list(before)) for column in version.columns}
    old = {name: origin for name, origin in origins.items() if origin is not None}
    key = tuple(old.get(name, name) for name in version.key)
    found = {
        "add_column": [name for name, origin in origins.items() if origin is None],
        "drop_column": [name for name in before if name not in old.values()],
        "rename_column": [origin for name, origin in old.items() if origin != name],
        "change_type": [
            old[column.name]
            for column in version.columns
            if column.name in old
            and evolution.changes_values(before[old[column.name]], column, said)
        ],
    }
    kinds: tuple[Kind, ...] = ("add_column", "drop_column", "rename_column", "change_type")
    listed = [Change(kind, tuple(found[kind])) for kind in kinds if found[kind]]
    return [*gone, *listed, *([Change("change_key")] if key != previous.key else [])]


def governed(
    catalog: Catalog, states: Mapping[str, TableState], rules: Callable[[TableId], Rules]
) -> tuple[Catalog, dict[TableId, Barrier]]:
    """The catalog as the lake follows it, and where tables stop."""
    versions, barriers = dict(catalog.versions), {}
    for table in catalog.versions:
        state, of = states.get(str(table)), rules(table)
        if not of.acts and not (state and (state.left_out or state.kept)):
            continue
        everything = catalog.between(table, None, catalog.newest(table))
        versions[table], barrier = _judged(everything, state, of)
        # The lake holds nothing yet of a table without a state: there is nothing to protect.
        if barrier is not None and state is not None:
            barriers[table] = barrier
    return Catalog(versions), barriers


def _judged(
    versions: Sequence[SchemaVersion], state: TableState | None, rules: Rules
) -> tuple[list[SchemaVersion], Barrier | None]:
    """Each version with what of it the lake leaves out and keeps; ignored DROPs left out."""
    left, kept = set(state.left_out if state else ()), list(state.kept if state else ())
    done = state.position if state else None
    judged: list[SchemaVersion] = []
    barrier: Barrier | None = None
    previous: SchemaVersion | None = None
    replaced = {version.position for version in versions if version.columns}
    for version in versions:
        news = not version.from_snapshot and (done is None or version.position > done)
        # A DROP that is half of a swap is none.
        ends = not version.columns and version.position not in replaced
        if news and previous is not None and (version.columns or ends):
            acts = {}
            new = {one.name.lower() for one in version.columns}
            new -= {one.name.lower() for one in previous.columns}
            clash = bool(new & {name.lower() for name in kept})
            for change in changes(previous, version):
                act = _act(change, version, rules, clash=clash)
                acts[change.kind] = act
                if act in ("pause", "fail") and barrier is None:
                    barrier = Barrier(version.position, act, version.ddl, str(change))
                if act == "ignore":
                    if change.kind == "add_column":
                        left |= set(change.columns)
                    if change.kind == "drop_column":
                        kept += [name for name in change.columns if name not in left]
            if acts.get("drop_table") == "ignore" and not version.columns:
                continue
            renamed = ddl.column_changes(version.ddl).renamed
            now = {column.name.lower(): column.name for column in version.columns}
            left = {renamed.get(name.lower(), name.lower()) for name in left}
            left = {now[name] for name in left if name in now}
        if ends:
            left, kept = set(), []
        stays = version.unlogged in ddl.EMPTIED and "truncate" in rules.ignores
        stays |= version.unlogged == ddl.REPLACED and "drop_table" in rules.ignores
        moved = "" if stays else version.unlogged
        judged.append(replace(version, left_out=frozenset(left), kept=tuple(kept), unlogged=moved))
        previous = version if version.columns else previous
    return judged, barrier


def _act(change: Change, version: SchemaVersion, rules: Rules, *, clash: bool) -> Act:
    """``clash``: a column gets the name of one that the lake has kept."""
    act = rules.of(change.kind, version.position)
    columns = change.kind in ("add_column", "drop_column")
    # Rows without a key are told apart by all of their columns, so none can be left out.
    if columns and act == "ignore" and not version.key:
        return "pause"
    if change.kind in ("add_column", "rename_column") and act == "evolve" and clash:
        return "pause"
    return act


def ruled(
    facts: Mapping[TableId, TableFacts], rules: Callable[[TableId], Rules]
) -> dict[TableId, TableFacts]:
    """The same facts; where a policy ignores TRUNCATE, it wipes nothing."""
    return {
        table: replace(found, wiped=False) if "truncate" in rules(table).ignores else found
        for table, found in facts.items()
    }


def in_force(
    note: Note,
    catalog: Catalog,
    offset: int,
    tables: Mapping[str, TableState],
    rules: Callable[[TableId], Rules],
) -> tuple[Catalog, Note]:
    """The schemas that a batch is cut by, and its note with what that was decided from: how much of the
    schema-change topic (``offset``), and the tables that stand before a DDL. A batch that is finished
    after a crash is cut as its first attempt was. Raises :class:`IngestError` (``E-DDL-FAIL``).
    """
    if note.schema_offset:
        return governed(catalog.until(note.schema_offset), tables, rules)[0], note
    followed, barriers = governed(catalog, tables, rules)
    refuse(barriers)
    paused = {str(table): barrier.position for table, barrier in barriers.items()}
    return followed, replace(note, schema_offset=offset, paused=paused)


def refuse(barriers: Mapping[TableId, Barrier]) -> None:
    """Raises :class:`IngestError` (``E-DDL-FAIL``) when one of them is to end the run."""
    for table, barrier in barriers.items():
        if barrier.act == "fail":
            raise IngestError(
                "E-DDL-FAIL",
                f"{table}: the run stops before {barrier.statement[:200]!r} ({barrier.why}), because the pipeline "
                "file says `fail` for this kind of DDL.",
                means="The batch was not applied; everything from here on waits in Kafka.",
                remedy=f"let it pass with `approved: {barrier.position}` below `tables`, or change the "
                "table's `ddl`; `pause` lets the other tables go on.",
                exit_code=Exit.FAILED,
            )
