"""What pending DDLs and a changed pipeline file will do to the lake, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from ingest.model import reasons
from ingest.model.manifest import TableState
from ingest.model.topics import TableId
from ingest.observe.only_in_lake import OnlyInLake
from ingest.schema import evolution
from ingest.schema.catalog import UNKNOWN, Catalog, SchemaVersion
from ingest.schema.ddl_policy import Barrier, Rules
from ingest.schema.mysql_types import UnknownType
from ingest.targets import registry
from ingest.targets.target import Target, Unfit

Cost = Literal["nothing", "metadata", "rewrite", "resync", "gap", "rows go", "waits", "refused"]
"""``metadata``: a commit without data. ``rewrite``: every file of the table is written anew. ``resync``:
the table is read again from MySQL besides. ``gap``: it would be, but only a person has it taken again. ``waits``: the table
stands before it, as a policy says."""


@dataclass(frozen=True)
class HeldTable:
    """A table as the lake holds it now: columns (name to Delta type, ours left out), its size, and what
    `engine` asks of it.
    """

    columns: Mapping[str, str]
    multiset: bool
    rows: int
    bytes: int
    features: frozenset[str] = frozenset()
    reachable: bool = True
    target: Target | None = None
    """What it was last written as, as far as a table says that."""
    key: tuple[str, ...] = ()
    outlives: bool = False
    """Whether it keeps rows that the source no longer has, as the pipeline file says."""
    noted: bool = True
    """Whether it says itself what it was written as."""


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
    catalog: Catalog,
    states: Mapping[str, TableState],
    held: Mapping[str, HeldTable],
    profile: evolution.Profile = "standard",
    barriers: Mapping[TableId, Barrier] | None = None,
) -> list[Effect]:
    """Every DDL that the connector has delivered and the lake has not applied, in order, each upon what
    the ones before it will have made of the table. ``catalog`` and ``barriers`` as ``ddl_policy.governed``
    gives them.
    """
    found: list[Effect] = []
    for table in sorted(catalog.versions):
        state, lake = states.get(str(table)), held.get(str(table))
        versions = catalog.between(table, None, max(v.position for v in catalog.versions[table]))
        if lake is None:
            found += _made(versions)
            continue
        first = catalog.first(table) or versions[0]
        done = state.position if state and state.position else first.position
        before = [v for v in versions if v.position <= done and v.columns]
        later = [v for v in versions if v.position > done and not v.from_snapshot]
        barrier = (barriers or {}).get(table)
        free = [v for v in later if barrier is None or v.position < barrier.position]
        found += _changed(before[-1] if before else None, free, lake, profile)
        if barrier:
            found.append(_stopped(str(table), barrier, len(later) - len(free) - 1))
    return found


def _stopped(name: str, barrier: Barrier, more: int) -> Effect:
    behind = f", {more} more behind it" if more > 0 else ""
    passes = f"`approved: {barrier.position}` lets it pass{behind}"
    if barrier.act == "fail":
        return Effect(
            name, barrier.statement, ("refused",), f"{barrier.why} ends the run; {passes}"
        )
    why = f"{barrier.why} pauses the table, the others go on; {passes}"
    return Effect(name, barrier.statement, ("waits",), why)


def of_policies(
    states: Mapping[str, TableState],
    barriers: Mapping[TableId, Barrier],
    rules: Callable[[TableId], Rules],
) -> list[Effect]:
    """What changed policies do to tables that an earlier one has paused, or left columns out of."""
    found = []
    for name, state in states.items():
        ignored = rules(TableId.parse(name)).ignores
        if state.paused and TableId.parse(name) not in barriers:
            found.append(Effect(name, "tables", ("metadata",), "goes on with what waits in Kafka"))
        if state.left_out and "add_column" not in ignored:
            columns = ", ".join(map(repr, state.left_out))
            costs: tuple[Cost, ...] = ("metadata", "resync")
            found.append(Effect(name, "tables", costs, f"takes {columns} in, read from MySQL"))
        if state.kept and "drop_column" not in ignored:
            columns = ", ".join(map(repr, state.kept))
            found.append(Effect(name, "tables", ("metadata",), f"{columns}, kept until now, go"))
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
    previous: SchemaVersion | None,
    later: Sequence[SchemaVersion],
    lake: HeldTable,
    profile: evolution.Profile,
) -> list[Effect]:
    found = []
    columns, multiset = lake.columns, lake.multiset
    for version in later:
        name = str(version.table)
        if version.kind == UNKNOWN:
            came = (
                f"it came from {version.moved_from}" if version.moved_from else "they were not told"
            )
            why = f"read from MySQL, with its columns: {came}"
            found.append(_read(version, why, f"its columns ({came})", lake))
            previous = None
            continue
        if not version.columns:
            stays = Effect(name, version.ddl, ("nothing",), "its rows stay (`append_only`)")
            goes = Effect(name, version.ddl, ("rows go",), "its rows go, the table stays")
            found.append(stays if lake.outlives else goes)
            previous = None
            continue
        if version.moved_from:
            came = f"its rows came from {version.moved_from}"
            found.append(
                _read(version, f"read from MySQL: {came}", f"which rows are there ({came})", lake)
            )
        elif previous is not None:
            before = evolution.Held(columns, multiset)
            effect, lake = _effect(version, previous, before, lake, profile)
            found.append(effect)
        try:
            columns = evolution.held_by(version, multiset=multiset).columns
        except UnknownType:
            break
        multiset, previous = not version.key, version
    return found


def _read(version: SchemaVersion, why: str, knows: str, lake: HeldTable) -> Effect:
    """A table whose rows, or columns, no change brings. ``knows``: what only MySQL does."""
    cost: Cost = "gap" if lake.outlives else "resync"
    sentence = _left(knows) if lake.outlives else why
    return Effect(str(version.table), version.ddl, (cost,), sentence)


def _left(knows: str) -> str:
    return f"a gap says that only MySQL knows {knows}, and stays open: {reasons.BY_A_PERSON}"


def _effect(
    version: SchemaVersion,
    previous: SchemaVersion,
    held: evolution.Held,
    lake: HeldTable,
    profile: evolution.Profile,
) -> tuple[Effect, HeldTable]:
    """What a DDL will do, and the table behind it."""
    name = str(version.table)
    try:
        keyed = bool(version.key)
        outlives = lake.outlives and keyed != held.multiset
        plan = evolution.plan(
            held, version, previous.columns, keyed=keyed, profile=profile, outlives=outlives
        )
    except UnknownType as unknown:
        why = f"{unknown}; the table is set aside from there on, the others go on"
        return Effect(name, version.ddl, ("refused",), why), lake
    costs: list[Cost] = []
    written = 0
    anew = lake.reachable and evolution.is_written_anew(plan, lake.bytes, lake.features)
    if isinstance(plan, evolution.Rewrite) or (anew and lake.bytes):
        costs.append("rewrite")
        written = lake.bytes
        sentence = f"{lake.rows:,} rows are written anew; earlier versions stay readable"
        if isinstance(plan, evolution.InPlace):
            sentence = f"{_acts(plan, held)}; {sentence}"
    elif isinstance(plan, evolution.InPlace):
        costs.append("metadata")
        sentence = f"{_acts(plan, held)}; no data is written"
        if not anew:
            sentence += _needs(plan)
            lake = replace(lake, features=lake.features | evolution.needed_by(plan))
        if plan.defaults:
            costs.append("rewrite")
            written = lake.bytes
            sentence += f"; {lake.rows:,} rows get their default"
    else:
        costs.append("nothing" if version.key == previous.key else "metadata")
        sentence = "no change of the lake" if costs == ["nothing"] else "another key"
        out = version.left_out - previous.left_out
        sentence = f"leaves {', '.join(map(repr, sorted(out)))} out" if out else sentence
    if version.key != previous.key and lake.target and lake.target.dead:
        costs = [*(cost for cost in costs if cost != "nothing"), "rows go"]
        sentence += f"; {lake.target.ends}"
    if plan.unknown:
        knows = " and ".join(plan.unknown)
        costs.append("gap" if lake.outlives else "resync")
        read = f"read again from MySQL, since only it knows {knows}"
        sentence += f"; {_left(knows) if lake.outlives else read}"
    return Effect(name, version.ddl, tuple(costs), sentence, written), lake


def _acts(plan: evolution.InPlace, held: evolution.Held) -> str:
    kept = {column.origin for column in plan.columns}
    lists = {
        "adds": plan.added,
        "renames": [f"{c.origin} to {c.name}" for c in plan.columns if c.renamed],
        "widens": [c.name for c in plan.columns if c.widened],
        "drops": [name for name in held.columns if name not in kept],
    }
    return "; ".join(
        f"{act} {', '.join(map(repr, names))}" for act, names in lists.items() if names
    )


def _needs(plan: evolution.InPlace) -> str:
    needed = [["column mapping"] * plan.mapped, ["type widening"] * plan.widened]
    features = [name for names in needed for name in names]
    return f", with {' and '.join(features)} (docs/readers.md)" if features else ""


def of_targets(
    held: Mapping[str, HeldTable],
    wanted: Callable[[TableId], Target],
    unfit: Callable[[TableId], Unfit | None],
) -> list[Effect]:
    """What the pipeline file makes of tables that were written as something else, and where it asks for what a table
    cannot be.
    """
    found = []
    for name, lake in held.items():
        table = TableId.parse(name)
        if refused := unfit(table):
            why = f"{refused.why}; {refused.remedy}"
            found.append(Effect(name, "tables", ("refused",), why))
        elif lake.target and registry.note(lake.target) != registry.note(wanted(table)):
            costs: tuple[Cost, ...] = ("rows go",) if lake.target.dead else ("metadata",)
            sentence = "; ".join(filter(None, (wanted(table).begins, lake.target.ends)))
            found.append(Effect(name, "tables", costs, sentence))
    return found


def of_logs(
    states: Mapping[str, TableState],
    logs: Callable[[TableId], bool],
    path: Callable[[TableId], str],
    in_kafka: Callable[[TableId], tuple[int, int] | None] = lambda _: None,
) -> list[Effect]:
    """What the pipeline file makes of change logs: which begin, and which end. ``logs``: whether a table is to have one; ``path``: where;
    ``in_kafka``: for one that is to begin with what Kafka has, how many records that is, and how many of its topic's first ones Kafka
    has no more.
    """
    found = []
    for name, state in states.items():
        table = TableId.parse(name)
        if logs(table) and (records := in_kafka(table)) is not None:
            found.append(Effect(name, "targets", ("metadata",), _from_kafka(*records, path(table))))
        elif logs(table) and state.log is None:
            sentence = f"each change from now on goes to {path(table)}, too; `ingest resync` brings the rows that are there"
            found.append(Effect(name, "targets", ("metadata",), sentence))
        elif state.log is not None and not logs(table):
            sentence = "its change log ends and stays as it is; asked for again, it lacks what comes meanwhile, and says so"
            found.append(Effect(name, "targets", ("nothing",), sentence))
    return found


def _from_kafka(records: int, gone: int, path: str) -> str:
    """What comes into a log first, and what it lacks."""
    begins = f"up to {records:,} changes that Kafka still has go to {path}, then each from now on"
    if not gone:
        return begins
    return f"{begins}; {gone:,} of before are not in Kafka any more: `ingest resync` brings the rows that are there"


def of_patterns(captured: Sequence[TableId], known: Sequence[TableId]) -> list[Effect]:
    """What wider patterns do. ``captured``: tables that the file takes now; ``known``: those that the connector has told
    of.
    """
    return [
        Effect(
            str(table),
            "source.tables",
            ("metadata",),
            "streamed from now on; `ingest resync` reads the rows it has already",
        )
        for table in captured
        if known and table not in known
    ]


def of_unmatched(patterns: Mapping[str, str]) -> list[Effect]:
    """Settings of no table. ``patterns``: as ``Pipeline.unmatched`` has them."""
    return [Effect(one, "tables", ("nothing",), why) for one, why in patterns.items()]


def of_left(left: Iterable[OnlyInLake], pending: Collection[str]) -> list[Effect]:
    """Tables that only the lake has. ``pending``: those with a DDL that is still to be applied, which says what becomes of
    their rows.
    """
    return [
        Effect(one.name, "source.tables", ("nothing",), f"{one.rows:,} rows stay: {one.reason}")
        for one in left
        if one.name not in pending
    ]
