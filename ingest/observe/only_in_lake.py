"""Tables that only the lake has: the source does not capture them any more, and rows of theirs are still there. Pure.

A table that is renamed out of the patterns or excluded leaves nothing in the log by which its rows would go. So it is
found by names: what the manifest knows, beside what MySQL has and the pipeline file takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ingest.model import reasons
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.reasons import Reason
from ingest.model.topics import TableId, captured
from ingest.observe.verdict import TableResult
from ingest.schema.catalog import Catalog
from ingest.schema.ddl_policy import Barrier, Rules


@dataclass(frozen=True)
class OnlyInLake:
    """One table. ``rows``: those that count. ``keeps``: the setting of the pipeline file by which they stay; empty where
    none does, and then they are a difference, which the remedy ends.
    """

    name: str
    rows: int
    reason: str
    remedy: str = ""
    keeps: str = ""

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)

    @property
    def result(self) -> TableResult:
        """For the audit's verdict."""
        return TableResult(
            self.name,
            source_rows=0,
            lake_rows=self.rows,
            differences=0 if self.keeps else self.rows,
            kept=self.rows if self.keeps else 0,
            keeps=self.keeps,
            note=f"only in the lake: {self.reason}",
            remedy=self.remedy,
        )


def not_captured(
    known: Iterable[str], patterns: Sequence[str], there: Collection[TableId]
) -> dict[str, Reason]:
    """Of the tables that the manifest knows those that the source does not capture, each with why. ``there``: the tables
    that MySQL has.
    """
    names = {TableId.parse(name): name for name in known}
    taken, has = set(captured(names, patterns)), set(there)
    return {
        name: reasons.NO_SUCH_TABLE if table in taken else reasons.NOT_TAKEN
        for table, name in sorted(names.items())
        if table not in taken or table not in has
    }


def judged(
    name: str, why: Reason, rows: int, state: TableState, rules: Rules, *, outlives: bool
) -> OnlyInLake | None:
    """What it means that a table is not captured; None where it has no row that counts. ``why``: as :func:`not_captured`
    says. ``outlives``: by its target rows stay that the source no longer has.
    """
    if not rows:
        return None
    kept_by = {"`append_only`": outlives, "`drop_table: ignore`": "drop_table" in rules.ignores}
    keeps = next((setting for setting, holds in kept_by.items() if holds), "")
    if keeps:
        said = f"{why.says}; {reasons.KEPT.of(setting=keeps)}"
        return OnlyInLake(name, rows, said, keeps=keeps)
    if state.paused and why is reasons.NO_SUCH_TABLE:
        said = reasons.HELD_BEFORE.of(statement=repr(state.paused_by[:60]))
        return OnlyInLake(name, rows, said, f"let it pass with `approved: {state.paused}`")
    return OnlyInLake(name, rows, why.says, why.remedy)


def not_applied(
    catalog: Catalog,
    followed: Catalog,
    states: Mapping[str, TableState],
    barriers: Mapping[TableId, Barrier],
) -> dict[str, str]:
    """Tables with a DDL that the lake is to follow and has not applied yet, each with the newest such statement.
    ``catalog``: all that the connector has told; ``followed``, ``barriers``: what policies leave of it
    (``ddl_policy.governed``).
    """
    found = {}
    for name, state in states.items():
        table = TableId.parse(name)
        if not catalog.versions.get(table):
            continue
        before: Position | None = barriers[table].position if table in barriers else None
        upto = followed.pending(table, state.position, catalog.newest(table), before)
        if upto is not None:
            version = followed.at(table, upto)
            found[name] = (version.ddl if version else "") or "a statement"
    return found
