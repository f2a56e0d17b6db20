"""`ingest audit`: is the lake equal to MySQL, and where not.

Both sides hash each row and sum the hashes per bucket of the key; only buckets that differ are
fetched row by row. MySQL is read in one consistent snapshot whose position is known; the lake must
have applied everything up to that position and nothing beyond it. When no such moment can be had,
the answer is "moving" or "behind", never "equal".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pymysql
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.epochs import newest_number
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, Place, TableState
from ingest.model.topics import TableId, captured
from ingest.observe import left_tables, only_in_lake
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.table_comparison import ComparedTable, Comparison, lake_frame
from ingest.observe.verdict import TableResult, Verdict, compared
from ingest.source import mysql
from ingest.source.connector import Connector, delivered
from ingest.source.epoch_registry import EpochRegistry
from ingest.targets.target import live_rows

Say = Callable[[str], None]


@dataclass
class Audit:
    """Compares one pipeline's tables. ``wait``: seconds to wait for the lake to catch up."""

    pipeline: Pipeline
    session: SparkSession
    say: Say
    wait: float = 30.0

    def execute(self) -> Verdict:
        """Compare at a common position, trying again while the source moves."""
        deadline = time.monotonic() + self.wait
        ledger = Ledger(self.pipeline.lake.path)
        connector = Connector(self.pipeline)
        said = ""
        while True:
            verdict = self._attempt(ledger, connector, deadline)
            if verdict.outcome in ("equal", "different") or time.monotonic() >= deadline:
                return verdict
            if verdict.reason != said:
                said = verdict.reason
                self.say(f"{said}; trying again …")
            time.sleep(0.5)

    def _attempt(self, ledger: Ledger, connector: Connector, deadline: float) -> Verdict:
        # Bucket sums of a large table are minutes in which MySQL says nothing.
        with mysql.connected(self.pipeline.source, read_timeout=None) as cursor:
            # Of the session: said of the next transaction alone, it would be gone with the SELECTs before the snapshot.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(_PATIENT)
            # Before the position: what is not there by then was dropped by a statement that the position covers; and a DDL that has come to Kafka since may be
            # one that the position does not cover.
            there, told = mysql.base_tables(cursor), self._told()
            before = mysql.reached(cursor)
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if mysql.reached(cursor) != before:
                return Verdict("moving", (), reason="MySQL is being written to")
            shown = str(before.gtids) or f"file {before.file}, position {before.pos}"
            entry = self._caught_up(ledger, connector, before, deadline)
            if entry is None:
                reason = "the lake has not applied everything that MySQL has committed"
                return Verdict("behind", (), shown, reason)
            if _beyond(entry, before, newest_number(EpochRegistry(self.pipeline).known())):
                return Verdict("moving", (), shown, "the lake is already past MySQL's snapshot")
            if hidden := _hidden(entry, self.pipeline.source.tables):
                reason = f"{', '.join(hidden)}: being taken again, and as before until all its rows are there"
                return Verdict("behind", (), shown, reason)
            left = self._only_in_lake({*there, *mysql.base_tables(cursor)}, entry)
            if waits := self._waiting(entry, {one.name for one in left if not one.keeps}):
                return Verdict("behind", (), shown, _not_applied(waits))
            try:
                results, undecided = self._results(cursor, entry, before, told)
            except pymysql.MySQLError as failure:
                if failure.args[0] not in _ANOTHER_TABLE_NOW:
                    raise
                return Verdict("moving", (), shown, _WRITTEN)
        verdict = compared((*results, *(one.result for one in left)), shown)
        differ = {one.name for one in verdict.tables if one.differences}
        if undecided and not differ:
            return Verdict("moving", verdict.tables, shown, _WRITTEN)
        waiting = self._waiting(entry, differ)
        if differ and waiting.keys() >= differ:
            return Verdict("behind", verdict.tables, shown, _not_applied(waiting))
        return verdict

    def _results(
        self, cursor: Cursor, entry: Entry, before: mysql.Reached, told: int
    ) -> tuple[list[TableResult], bool]:
        """Each table's result. One that differs, and may do so as the job has gone on meanwhile, is compared once more, as of the version that ``entry``
        has published; and whether some differ only behind that.
        """
        tables, comparison = self._tables(cursor, entry), Comparison(self.session, cursor)
        results = {one.name: one for one in comparison.results(tables)}
        differ = [one for one in tables if results[one.name].differences]
        again = list[TableResult]()
        if differ and self._moved(before):
            doubtful = self._doubtful(differ, entry, told)
            again = [*comparison.results([_published(one, entry) for one in doubtful])]
        results |= {one.name: one for one in again}
        return [*results.values()], any(not one.differences for one in again)

    def _caught_up(
        self, ledger: Ledger, connector: Connector, target: mysql.Reached, deadline: float
    ) -> Entry | None:
        """The newest batch, once it covers ``target``; None when that takes too long."""
        said = False
        while True:
            entry = ledger.last()
            if entry is not None and self._covers(entry, connector, target):
                return entry
            if time.monotonic() >= deadline:
                return None
            if not said:
                said = True
                self.say("waiting for the lake to reach MySQL's position …")
            time.sleep(0.3)

    def _covers(self, entry: Entry, connector: Connector, target: mysql.Reached) -> bool:
        if not delivered(connector.offset(), target):
            return False
        return not self._beyond_applied(entry)

    def _beyond_applied(self, entry: Entry) -> list[Place]:
        """Partitions that hold more than the batch and those before it have applied."""
        ends = broker.end_offsets(self.pipeline, broker.data_topics(self.pipeline))
        applied = {place: end for place, (_, end) in entry.offsets.items()}
        return [place for place, end in ends.items() if applied.get(place, 0) < end]

    def _moved(self, before: mysql.Reached) -> bool:
        with mysql.connected(self.pipeline.source) as cursor:
            return mysql.reached(cursor) != before

    def _tables(self, cursor: Cursor, entry: Entry) -> list[ComparedTable]:
        found = []
        for table in captured(mysql.base_tables(cursor), self.pipeline.source.tables):
            state = entry.tables.get(str(table))
            left_out = state.left_out if state else ()
            everything = mysql.columns(cursor, table)
            columns = tuple(column for column in everything if column.name not in left_out)
            path = self.pipeline.path(table)
            description = SparkTable(self.session, path).describe()
            names = mysql.primary_key(cursor, table) or (description.key if description else ())
            key = tuple(c for name in names for c in columns if c.name == name) or columns
            version = description.version if description else None
            outlives = self.pipeline.target(table, keyed=bool(names)).outlives
            gaps = [gap for gap in entry.gaps if gap.table == str(table)]
            note = _note(state, gaps, outlives=outlives)
            live = live_rows(description.target) if description else "true"
            found.append(ComparedTable(table, columns, key, path, version, live, outlives, note))
        return found

    def _only_in_lake(self, there: Collection[TableId], entry: Entry) -> list[OnlyInLake]:
        """Tables of the manifest that the source does not capture and that still have rows. ``there``: those that MySQL has."""
        patterns = self.pipeline.source.tables
        found = []
        for name, why in only_in_lake.not_captured(entry.tables, patterns, there).items():
            state, table = entry.tables[name], TableId.parse(name)
            held = SparkTable(self.session, state.path).describe()
            if held is None:
                continue
            outlives = self.pipeline.target(table, keyed=not held.multiset).outlives
            live = live_rows(held.target)
            frame = lake_frame(
                self.session,
                ComparedTable(table, (), (), state.path, held.version, live, outlives),
            )
            rules = self.pipeline.rules(table)
            one = only_in_lake.judged(name, why, frame.count(), state, rules, outlives=outlives)
            found += [one] if one else []
        return found

    def _waiting(self, entry: Entry, names: Collection[str]) -> dict[str, str]:
        """Those of these tables of which the job is still to apply a statement, with that. Of one that stands still it never does by itself."""
        states = {name: state for name, state in entry.tables.items() if not state.stopped}
        if not set(names) & set(states):
            return {}
        waiting = left_tables.not_applied(self.pipeline, states, left_tables.told(self.pipeline))
        return {name: waiting[name] for name in sorted(names) if name in waiting}

    def _told(self) -> int:
        """Where the topic ends by which DDL comes."""
        return broker.end_offsets(self.pipeline, [self.pipeline.name]).get(
            (self.pipeline.name, 0), 0
        )

    def _doubtful(
        self, differ: Sequence[ComparedTable], entry: Entry, told: int
    ) -> list[ComparedTable]:
        """Of tables that differ those that may do so as the job has gone on behind ``entry``: something of theirs has come to Kafka
        since, or a DDL. ``told``: as :meth:`_told` said before.
        """
        if self._told() > told:
            return list(differ)
        waiting = {topic for topic, _ in self._beyond_applied(entry)}
        return [one for one in differ if self.pipeline.topic(one.table) in waiting]


_PATIENT = "SET SESSION max_execution_time = 0, wait_timeout = 28800, net_write_timeout = 3600"
"""What a server says for all sessions would end an audit in its middle: a SELECT takes minutes, and so does Spark between two of them. MySQL's own
defaults, but for the last (60 s).
"""

_ANOTHER_TABLE_NOW = (1412, 1146)
"""A DDL has come behind the snapshot, which cannot read the table any more."""

_WRITTEN = "MySQL was written to during the audit"


def _not_applied(waiting: Mapping[str, str]) -> str:
    return f"the lake has not applied {next(iter(waiting.values()))[:60]!r} yet"


def _hidden(entry: Entry, patterns: Sequence[str]) -> list[str]:
    """Of the tables that are taken. One that is excluded may be so for good, and what it holds is only the lake's."""
    found = [TableId.parse(name) for name, state in entry.tables.items() if state.hidden]
    return sorted(map(str, captured(found, patterns)))


def _published(table: ComparedTable, entry: Entry) -> ComparedTable:
    """At the version that the batch has named by which the lake has caught up, and nothing behind it."""
    state = entry.tables.get(table.name)
    return replace(table, version=state.version if state else None)


def _note(state: TableState | None, gaps: Sequence[Gap] = (), *, outlives: bool = False) -> str:
    """What a policy, or a person who gave changes up, has to do with a table, that it joined later, or what it lacks until a person
    has it taken again (``outlives``). ``gaps``: the table's.
    """
    left = [one for one in gaps if one.is_open and not one.is_incomplete]
    notes = [f"{one.reason}; it may differ" for one in left if one.by_hand or outlives]
    notes += [f"incomplete: {one.reason}" for one in gaps if one.is_incomplete]
    if state and state.stopped:
        notes.insert(0, f"stands still: {state.stopped}")
    elif state and state.paused:
        notes.insert(0, f"paused before {state.paused_by[:60]!r}")
    elif state and state.left_out:
        notes.insert(0, f"left out by policy: {', '.join(state.left_out)}")
    return "; ".join(notes)


def _beyond(entry: Entry, target: mysql.Reached, epoch: int) -> bool:
    """True when the lake holds a change that MySQL's snapshot does not. ``epoch``: of the log that is written now.

    Debezium's snapshot rows carry the log's end itself; a streamed row event never starts there,
    since its transaction's GTID event does. So "beyond" is strict. A place in an earlier log says nothing of this one's.
    """
    position = entry.position
    if position is None or position.epoch < epoch:
        return False
    return (position.file, position.pos) > (target.file, target.pos)
