"""A batch's tables applied side by side, and what becomes of one that cannot be: it stands still, and the others go on.

A failure may be the table's own (a value, a statement, a file that is gone, a feature) or everybody's (the lease, a disk, a
server, Spark). Only the latter ends the batch for all. An error of ours says which it is. Of any other the looks may deceive, so
it ends the run's query once, too, and is tried again; only then the table stands still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field, replace

from ingest.batch.parts import within
from ingest.batch.record_reader import ReadRequest
from ingest.batch.table_applier import Applier, Work
from ingest.changes.table_batch import TableBatch
from ingest.kafka.ports import Log
from ingest.model import reasons
from ingest.model.errors import IngestError, of_table
from ingest.model.failpoints import reached
from ingest.model.manifest import Entry, TableState
from ingest.model.topics import TableId
from ingest.schema.steps import Applied

TRIES = 2
"""Times that a table's part of a batch has to fail before it stands still: one failure may have been chance."""


@dataclass
class Failures:
    """Of one run, over all of its queries. ``is_everybodys``: whether a failure concerns more than the table at which it came."""

    is_everybodys: Callable[[BaseException], bool] = lambda _: False
    _tries: Counter[TableId] = field(default_factory=Counter)

    @property
    def tables(self) -> frozenset[str]:
        """Those that have failed."""
        return frozenset(map(str, self._tries))

    def its_own(self, found: Mapping[TableId, BaseException], others: bool) -> bool:
        """Whether each of these tables has failed often enough, by itself. ``others``: some table is left that can go on."""
        self._tries.update(list(found))
        return (
            others
            and not any(map(self.is_everybodys, found.values()))
            and all(
                isinstance(failure, IngestError) or self._tries[table] >= TRIES
                for table, failure in found.items()
            )
        )


@dataclass(frozen=True)
class Outcome:
    """What a batch has done to its tables. ``stopped``: those that stand still from now on, as they are."""

    applied: list[Applied]
    stopped: Mapping[TableId, TableState]


@dataclass(frozen=True)
class SideBySide:
    """Of one job. ``pool``: threads, each with a Spark session of its own."""

    pool: Executor
    applier: Applier
    failures: Failures
    say: Callable[[str], None]

    def apply(self, tables: Sequence[TableBatch], work: Work, newest: Entry | None) -> Outcome:
        """Raises the first failure, but for tables that have failed by themselves before."""
        futures = {
            table.facts.table: self.pool.submit(self.applier.apply, table, work) for table in tables
        }
        wait(futures.values())  # all of them: a replay must not meet a thread of its own past
        failed = {table: failure for table, one in futures.items() if (failure := one.exception())}
        for table, failure in failed.items():
            of_table(failure, str(table))
        states = newest.tables if newest else {}
        others = any(name for name in states if TableId.parse(name) not in failed)
        if failed and not self.failures.its_own(failed, others or len(failed) < len(futures)):
            raise next(iter(failed.values()))
        stopped = {
            table: self._stop(batch, failure, states.get(str(table)))
            for batch in tables
            if (failure := failed.get(table := batch.facts.table)) is not None
        }
        reached("tables_committed", work.batch_id)
        done = [one.result() for table, one in futures.items() if table not in failed]
        return Outcome(done, stopped)

    def _stop(
        self, batch: TableBatch, failure: BaseException, state: TableState | None
    ) -> TableState:
        """Back to what is published, so that nothing is applied twice when it goes on. A table with a key needs that less,
        as each of its rows says how new it is; one without, which cannot be brought back, ends the batch for all.
        """
        table = batch.facts.table
        words = (
            failure.what
            if isinstance(failure, IngestError)
            else f"{type(failure).__name__}: {failure}"
        )
        why = reasons.STOPPED.of(words=" ".join(words.split())[:300].rstrip("."))
        state = state or TableState(self.applier.pipeline.path(table), 0)
        try:
            state = replace(state, version=self.applier.bring_back(table, state.version))
        except Exception:  # noqa: BLE001  whatever it is, it came after the failure that counts
            if not all(one.key for one in batch.steps):
                raise failure from None
        self.say(f"{table} stands still, the others go on: {why}")
        return replace(state, changes=0, stopped=why, hidden=None)


def standing(newest: Entry | None) -> frozenset[TableId]:
    """Tables of which nothing is applied, as the manifest says: they stand still, or a snapshot of theirs is not whole."""
    states = newest.tables if newest else {}
    return frozenset(
        TableId.parse(name) for name, state in states.items() if state.stopped or state.hidden
    )


def without(request: ReadRequest, topics: Collection[str], log: Log, *, state: bool) -> ReadRequest:
    """The same but for these topics, whose records stay where they are. ``state``: Spark has left out what came again, so that
    the log is not asked.
    """
    if not request.topics & set(topics):
        return request
    records = request.records
    found = request.of(dict.fromkeys(request.topics - set(topics), ""), log)
    return replace(found, records=within(records, found.note.ranges)) if state else found
