"""A batch's tables applied side by side, and what becomes of one that cannot be: it stands still, and the others go on.

A failure may be the table's own (a value, a statement, a file that is gone, a feature) or everybody's (the lease, a disk, a
server, Spark). Only the latter ends the batch for all. An error of ours says which it is. Of any other the looks may deceive, so
its part is tried once more before the table stands still until the next run. Where it is the only one that failed and others of
the same batch did not, and the run goes on, these do not wait for that: it stands still at once, and is tried once more a minute
later. Else the run's query ends, and the batch is finished anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field, replace

from ingest.batch.step_cutter import Cut
from ingest.batch.table_applier import Applier, Work
from ingest.lake.delta.delta_log import TornCommitError
from ingest.lake.files.lease import LeaseLostError
from ingest.model import reasons
from ingest.model.errors import IngestError, of_table
from ingest.model.failpoints import reached
from ingest.model.manifest import Entry, TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.steps import Applied

TRIES = 2
"""Times that a table's part of a batch has to fail before it stands still for good: one failure may have been chance."""
AGAIN_AFTER = 60.0
"""Seconds until a table is tried again that stands still by one failure. For that the query begins anew, which the others notice
for some seconds."""


@dataclass
class Failures:
    """Of one run, over all of its queries. ``is_everybodys``: whether a failure concerns more than the table at which it came;
    ``goes_on``: whether there will be batches to come, so that a table may be tried again by one of them.
    """

    is_everybodys: Callable[[BaseException], bool] = lambda _: False
    goes_on: bool = False
    clock: Callable[[], float] = time.monotonic
    _tries: Counter[TableId] = field(default_factory=Counter)
    _again_at: float | None = None

    @property
    def tables(self) -> frozenset[str]:
        """Those that have failed, and that this run does not try again."""
        return frozenset(str(table) for table, tries in self._tries.items() if tries >= TRIES)

    def its_own(
        self, found: Mapping[TableId, BaseException], others: bool, applied: Collection[TableId]
    ) -> bool:
        """Whether each of these tables stands still from now on, by a failure of its own. ``others``: some table is left that
        can go on; ``applied``: tables whose part of the same batch did not fail.
        """
        for table, failure in found.items():
            self._tries[table] += TRIES if _is_certain(failure) else 1
        if not others or any(map(self.is_everybodys, found.values())):
            return False
        if self.tables.issuperset(map(str, found)):
            return True
        alone = self.goes_on and len(found) == 1 and bool(applied)
        if alone:
            self._again_at = self.clock() + AGAIN_AFTER
        return alone

    def is_its_own(self, table: TableId, failure: BaseException) -> bool:
        """Of what is done for one table alone: whether it stands still by this failure. One that may be everybody's is taken for that once."""
        self._tries[table] += 1
        return not self.is_everybodys(failure) or self._tries[table] >= TRIES

    def first(self, found: Iterable[BaseException]) -> BaseException:
        """Of several, the one that says best what is wrong: everybody's, else one that may have been chance. A table's own must not hide either, as
        it ends a run that these would not.
        """
        return min(found, key=lambda one: (not self.is_everybodys(one), _is_certain(one)))

    def forget(self, applied: Iterable[TableId]) -> None:
        """What failed at these was chance."""
        for table in applied:
            self._tries.pop(table, None)

    def try_again(self) -> bool:
        """Whether it is time to try tables again; once."""
        due = self._again_at is not None and self.clock() >= self._again_at
        self._again_at = None if due else self._again_at
        return due


def _is_certain(failure: BaseException) -> bool:
    return isinstance(failure, IngestError) and not failure.may_pass


@dataclass(frozen=True)
class Outcome:
    """What a batch has done to its tables. ``stopped``: those that stand still from now on, as they are."""

    applied: list[Applied]
    stopped: Mapping[TableId, TableState]


@dataclass
class SideBySide:
    """Of one job. ``pool``: threads, each with a Spark session of its own; ``aside``: tables that a start cannot go on with
    (``start.unfit_tables``), each with why: the next row of the manifest says so.
    """

    pool: Executor
    applier: Applier
    failures: Failures
    say: Callable[[str], None]
    aside: Mapping[TableId, str] = field(default_factory=dict)

    def set_aside(self, tables: Mapping[str, str]) -> None:
        """These, and no others."""
        self.aside = {TableId.parse(name): why for name, why in tables.items()}

    def standing(self, newest: Entry | None) -> frozenset[TableId]:
        """Tables of which nothing is applied: they stand still, or a snapshot of theirs is not whole."""
        states = newest.tables if newest else {}
        noted = (
            TableId.parse(name) for name, state in states.items() if state.stopped or state.hidden
        )
        return frozenset((*noted, *self.aside))

    def but_standing(
        self, ddl: Mapping[str, Position], newest: Entry | None
    ) -> dict[str, Position]:
        """DDLs without changes, by their table's name: those of tables that go on."""
        stay = set(map(str, self.standing(newest)))
        return {name: at for name, at in ddl.items() if name not in stay}

    def refuse_alone(self, cut: Cut, newest: Entry | None) -> None:
        """Raises why no part of a batch can be cut where there is no other table that could go on: before anything is committed of it."""
        if not cut.tables and not self._others(cut.failed, newest):
            cut.whole()

    def _others(self, failed: Collection[TableId], newest: Entry | None) -> bool:
        return any(TableId.parse(name) not in failed for name in (newest.tables if newest else {}))

    def apply(self, cut: Cut, work: Work, newest: Entry | None) -> Outcome:
        """Raises the first failure, but for tables that have failed by themselves before."""
        keyed = {one.facts.table: all(step.key for step in one.steps) for one in cut.tables}
        futures = {
            one.facts.table: self.pool.submit(self.applier.apply, one, work) for one in cut.tables
        }
        wait(futures.values())  # all of them: a replay must not meet a thread of its own past
        failed: dict[TableId, BaseException] = {**cut.failed}
        failed |= {table: failure for table, one in futures.items() if (failure := one.exception())}
        for table, failure in failed.items():
            of_table(failure, str(table))
        states = newest.tables if newest else {}
        applied = futures.keys() - failed.keys()
        self.failures.forget(applied)
        others = bool(applied) or self._others(failed, newest)
        if failed and not self.failures.its_own(failed, others, applied):
            raise self.failures.first(failed.values())
        stopped = {
            table: replace(states[str(table)], changes=0, stopped=why, hidden=None)
            for table, why in self.aside.items()
            if str(table) in states
        }
        stopped |= {
            table: self._stop(table, failure, states.get(str(table)), keyed=keyed.get(table, False))
            for table, failure in failed.items()
        }
        reached("tables_committed", work.batch_id)
        done = [one.result() for table, one in futures.items() if table not in failed]
        return Outcome(done, stopped)

    def _stop(
        self, table: TableId, failure: BaseException, state: TableState | None, *, keyed: bool
    ) -> TableState:
        """Back to what is published, so that nothing is applied twice when it goes on. A table with a key needs that less,
        as each of its rows says how new it is; one without, which cannot be brought back, ends the batch for all.
        """
        why = reasons.STOPPED.of(words=in_words(failure, self.applier.pipeline.path(table)))
        state = state or TableState(self.applier.pipeline.path(table), 0)
        try:
            state = replace(state, version=self.applier.bring_back(table, state.version))
        except LeaseLostError:
            raise  # what was committed to it is a successor's by now
        except Exception:  # noqa: BLE001  whatever it is, it came after the failure that counts
            if not keyed:
                raise failure from None
        self.say(f"{table} stands still, the others go on: {why}")
        return replace(state, changes=0, stopped=why, hidden=None)


def in_words(failure: BaseException, path: str) -> str:
    """What has failed, and what helps where that is known. ``path``: the table's."""
    if isinstance(failure, TornCommitError):
        helps = (
            f"move {path} away; the next run fills a new one from Kafka, or takes the table again"
        )
        return f"{' '.join(str(failure).split())[:300]}. What helps: {helps}"
    if isinstance(failure, IngestError):
        return f"{failure.what.rstrip('.')}. What helps: {failure.remedy}"[:900].rstrip(".")
    return " ".join(f"{type(failure).__name__}: {failure}".split())[:300].rstrip(".")
