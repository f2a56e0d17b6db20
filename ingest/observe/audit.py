"""`ingest audit`: is the lake equal to MySQL, and where not.

Both sides hash each row and sum the hashes per bucket of the key; only buckets that differ are
fetched row by row. MySQL is read in one consistent snapshot whose position is known; the lake must
have applied everything up to that position and nothing beyond it. When no such moment can be had,
the answer is "moving" or "behind", never "equal".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pymysql.cursors import Cursor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, TableState
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.topics import TableId, captured
from ingest.observe import fingerprint, left_tables, only_in_lake
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.verdict import (
    MOST_EXAMPLES,
    BucketSums,
    Difference,
    TableResult,
    Verdict,
    compare_rows,
    compared,
    differing_buckets,
)
from ingest.schema.mysql_types import Column, UnknownType, column_type
from ingest.source import mysql
from ingest.source.connector import Connector, delivered
from ingest.targets.target import live_rows

MOST_BUCKETS = 64
"""So many differing buckets of a table are fetched row by row, a quarter of it; then counting
stops."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class _Table:
    table: TableId
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    path: str
    version: int | None
    """Version of the lake's table that is compared; None when the lake has none."""
    live: str
    """The condition for rows of the lake's table that count."""
    outlives: bool
    """True where rows stay in the lake that the source no longer has."""
    note: str = ""
    """What a policy has to do with it."""


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
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = mysql.reached(cursor)
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if mysql.reached(cursor) != before:
                return Verdict("moving", (), reason="MySQL is being written to")
            shown = str(before.gtids) or f"file {before.file}, position {before.pos}"
            entry = self._caught_up(ledger, connector, before, deadline)
            if entry is None:
                reason = "the lake has not applied everything that MySQL has committed"
                return Verdict("behind", (), shown, reason)
            if _beyond(entry, before):
                return Verdict("moving", (), shown, "the lake is already past MySQL's snapshot")
            if hidden := [name for name, state in entry.tables.items() if state.hidden]:
                reason = f"{', '.join(sorted(hidden))}: being taken again, and as before until all its rows are there"
                return Verdict("behind", (), shown, reason)
            left = self._only_in_lake(cursor, entry)
            if waits := self._not_applied(entry, left):
                return Verdict("behind", (), shown, f"the lake has not applied {waits!r} yet")
            tables = self._tables(cursor, entry)
            results = (*self._compare(cursor, tables), *(one.result for one in left))
        verdict = compared(results, shown)
        if not verdict.equal and self._moved(before):
            # A batch that is being applied could look like a difference; look again.
            return Verdict("moving", results, shown, "MySQL was written to during the audit")
        return verdict

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
        ends = broker.end_offsets(self.pipeline, broker.data_topics(self.pipeline))
        applied = {place: end for place, (_, end) in entry.offsets.items()}
        return all(applied.get(place, 0) >= end for place, end in ends.items())

    def _moved(self, before: mysql.Reached) -> bool:
        with mysql.connected(self.pipeline.source) as cursor:
            return mysql.reached(cursor) != before

    def _tables(self, cursor: Cursor, entry: Entry) -> list[_Table]:
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
            note = _note(state, [gap for gap in entry.gaps if gap.table == str(table)])
            live = live_rows(description.target) if description else "true"
            outlives = self.pipeline.target(table, keyed=bool(names)).outlives
            found.append(_Table(table, columns, key, path, version, live, outlives, note))
        return found

    def _only_in_lake(self, cursor: Cursor, entry: Entry) -> list[OnlyInLake]:
        """Tables of the manifest that the source does not capture and that still have rows."""
        patterns, there = self.pipeline.source.tables, mysql.base_tables(cursor)
        found = []
        for name, why in only_in_lake.not_captured(entry.tables, patterns, there).items():
            state, table = entry.tables[name], TableId.parse(name)
            held = SparkTable(self.session, state.path).describe()
            if held is None:
                continue
            outlives = self.pipeline.target(table, keyed=not held.multiset).outlives
            live = live_rows(held.target)
            frame = self._lake_frame(
                _Table(table, (), (), state.path, held.version, live, outlives)
            )
            rules = self.pipeline.rules(table)
            one = only_in_lake.judged(name, why, frame.count(), state, rules, outlives=outlives)
            found += [one] if one else []
        return found

    def _not_applied(self, entry: Entry, left: list[OnlyInLake]) -> str:
        """A statement by which rows of such a table may still go, once the job applies it; empty for none."""
        names = [one.name for one in left if not one.keeps]
        if not names:
            return ""
        told = left_tables.told(self.pipeline)
        waiting = left_tables.not_applied(self.pipeline, entry.tables, told)
        return next((waiting[name] for name in names if name in waiting), "")[:60]

    def _compare(self, cursor: Cursor, tables: list[_Table]) -> Iterable[TableResult]:
        lake = self._lake_sums([table for table in tables if not _unread(table)])
        for table in tables:
            if why := _unread(table):
                rows = _count(cursor, table)
                # Not looked at is not equal, however many rows there are.
                yield TableResult(str(table.table), rows, 0, max(rows, 1), at_least=True, note=why)
                continue
            source_sums = _source_sums(cursor, table)
            yield self._result(cursor, table, source_sums, lake.get(str(table.table), {}))

    def _result(
        self, cursor: Cursor, table: _Table, source: BucketSums, lake: BucketSums
    ) -> TableResult:
        buckets = differing_buckets(source, lake)
        differences: list[Difference] = []
        kept: list[Difference] = []
        # Compared whole where rows outlive the source: wherever that was purged, buckets differ.
        most = len(buckets) if table.outlives else MOST_BUCKETS
        if buckets:
            fetched = buckets[:most]
            differences = compare_rows(
                _source_rows(cursor, table, fetched), self._lake_rows(table, fetched)
            )
        if table.outlives:
            kept = [one for one in differences if one.found == "only in the lake"]
            differences = [one for one in differences if one.found != "only in the lake"]
        return TableResult(
            name=str(table.table),
            source_rows=sum(rows for rows, _, _ in source.values()),
            lake_rows=sum(rows for rows, _, _ in lake.values()),
            differences=len(differences),
            examples=tuple(differences[:MOST_EXAMPLES]),
            at_least=len(buckets) > most,
            kept=len(kept),
            note=table.note,
        )

    def _lake_sums(self, tables: list[_Table]) -> dict[str, BucketSums]:
        """Bucket sums of all lake tables, in one Spark job."""
        parts = [self._lake_part(table) for table in tables if table.version is not None]
        if not parts:
            return {}
        found: dict[str, dict[int, tuple[int, int, int]]] = {}
        for row in reduce(DataFrame.unionAll, parts).collect():
            found.setdefault(row.name, {})[row.bucket] = (row.rows, int(row.first), int(row.second))
        return dict(found)

    def _lake_part(self, table: _Table) -> DataFrame:
        first, second = fingerprint.spark_halves(fingerprint.spark_row(table.columns))
        return (
            self._lake_frame(table)
            .select(
                fingerprint.spark_bucket(table.key).alias("bucket"),
                first.alias("first"),
                second.alias("second"),
            )
            .groupBy(F.lit(str(table.table)).alias("name"), "bucket")
            .agg(
                F.count("*").alias("rows"),
                F.sum("first").alias("first"),
                F.sum("second").alias("second"),
            )
        )

    def _lake_frame(self, table: _Table) -> DataFrame:
        """The rows that count of the table at its version; a column that the lake lacks reads as text no value has."""
        frame = (
            self.session.read.format("delta").option("versionAsOf", table.version).load(table.path)
        ).filter(table.live)
        present = set(frame.columns) - {RESERVED_COLUMN}
        for column in table.columns:
            if column.name not in present:
                missing = F.lit(None).cast(column_type(column).delta)
                frame = frame.withColumn(column.name, missing)
        return frame

    def _lake_rows(self, table: _Table, buckets: list[int]) -> list[tuple[str, str]]:
        if table.version is None:
            return []
        key = [fingerprint.spark_text(column) for column in table.key]
        digest = fingerprint.spark_digest(fingerprint.spark_row(table.columns))
        rows = (
            self._lake_frame(table)
            .filter(fingerprint.spark_bucket(table.key).isin(buckets))
            .select(F.array(*key).alias("key"), digest.alias("digest"))
            .collect()
        )
        return [(_shown_key(table.key, row.key), row.digest) for row in rows]


def _unread(table: _Table) -> str:
    """Why a table cannot be compared, as it is set aside (``set_aside``); empty where it can."""
    for column in table.columns:
        try:
            column_type(column)
        except UnknownType as unknown:
            return f"set aside: {unknown}"
    return ""


def _count(cursor: Cursor, table: _Table) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {_qualified(table.table)}")
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _note(state: TableState | None, gaps: Sequence[Gap] = ()) -> str:
    """What a policy, or a person who gave changes up, has to do with a table, or that it joined later. ``gaps``: the table's."""
    notes = [f"{one.reason}; it may differ" for one in gaps if one.is_open and one.by_hand]
    notes += [f"incomplete: {one.reason}" for one in gaps if one.is_incomplete]
    if state and state.stopped:
        notes.insert(0, f"stands still: {state.stopped}")
    elif state and state.paused:
        notes.insert(0, f"paused before {state.paused_by[:60]!r}")
    elif state and state.left_out:
        notes.insert(0, f"left out by policy: {', '.join(state.left_out)}")
    return "; ".join(notes)


def _beyond(entry: Entry, target: mysql.Reached) -> bool:
    """True when the lake holds a change that MySQL's snapshot does not.

    Debezium's snapshot rows carry the log's end itself; a streamed row event never starts there,
    since its transaction's GTID event does. So "beyond" is strict.
    """
    position = entry.position
    return position is not None and (position.file, position.pos) > (target.file, target.pos)


def _source_sums(cursor: Cursor, table: _Table) -> BucketSums:
    first, second = fingerprint.mysql_halves("r")
    cursor.execute(
        f"SELECT b, COUNT(*), SUM({first}), SUM({second}) FROM "
        f"(SELECT {fingerprint.mysql_bucket(table.key)} AS b, "
        f"{fingerprint.mysql_row(table.columns)} AS r FROM {_qualified(table.table)}) AS q "
        "GROUP BY b"
    )
    return {int(b): (int(n), int(one), int(two)) for b, n, one, two in cursor.fetchall()}


def _source_rows(cursor: Cursor, table: _Table, buckets: list[int]) -> list[tuple[str, str]]:
    key = ", ".join(fingerprint.mysql_text(column) for column in table.key)
    listed = ", ".join(str(bucket) for bucket in buckets)
    cursor.execute(
        f"SELECT {fingerprint.mysql_digest(fingerprint.mysql_row(table.columns))}, {key} "
        f"FROM {_qualified(table.table)} WHERE {fingerprint.mysql_bucket(table.key)} IN ({listed})"
    )
    return [(_shown_key(table.key, row[1:]), str(row[0])) for row in cursor.fetchall()]


def _qualified(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _shown_key(key: tuple[Column, ...], values: Iterable[Any]) -> str:
    pairs = zip(key, values, strict=True)
    return ", ".join(f"{c.name}={'NULL' if v is None else v}" for c, v in pairs)
