"""The quarantine as the spine uses it: set aside, hold back what follows, take in again.

Everything here is repeatable under (batch number, step), also by other rules than the first time. What waits is applied by a replay
alone: where its record comes once more, as its batch was torn or its table went back, it is left out of the tables. Which changes wait
behind it is read from rows of earlier batches and of this one, so a batch that is done again holds back what it has held back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ingest.arrow.table_batch import TableBatch
from ingest.changes import dedup, quarantine_rows
from ingest.changes.envelope import PLACE
from ingest.changes.kept_frames import free, keep
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.reached_tables import ReachedTables
from ingest.model import reasons
from ingest.model.manifest import Place, TableState
from ingest.model.names import quarantine_path
from ingest.model.offset_ranges import filled
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop, Dropped
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.steps import READ_AT

OTHER_COLUMNS = "other columns"
"""Why a change cannot be replayed: its table's columns have changed since."""

_ANY = 2**62
"""Beyond every batch."""

_MANY = 10_000
"""Keys of one topic that are known one by one, to whoever reads: some hundred kilobytes."""

Of = tuple[str, TableId | None]
"""What a change is of: its topic, and the table that it names, where it can be read that far."""

_NAMED = ("database", "table")

_RECORD = ("topic", "partition", "offset", "timestamp", "key", "value", "run")


class HeldBack:
    """What waits in one lake's quarantine."""

    def __init__(self, session: SparkSession, lake: str, committer: Committer) -> None:
        self._session = session
        self._path = quarantine_path(lake)
        self._committer = committer
        self._reached = ReachedTables(lake, committer.term)
        self._keys: Mapping[str, frozenset[bytes] | None] | None = None
        """As :meth:`keys` has it; None: look."""
        self._last: Mapping[Place, int] | None = None
        """By partition, the last record that waits, of those that were set aside before this job's first batch; None: look."""
        self._cached: list[DataFrame] = []

    def _waiting(self, upto: int) -> DataFrame | None:
        """Rows that batches up to ``upto`` set aside and that still wait; None without any
        quarantine.
        """
        if not SparkTable(self._session, self._path).exists():
            return None
        held = self._session.read.format("delta").load(self._path)
        return quarantine_rows.waiting(held).filter(F.col("batch_id") <= upto)

    def _settled_by(self, batch: int) -> DataFrame | None:
        """Rows that this replay has settled; None where it has settled none."""
        table = SparkTable(self._session, self._path)
        if not table.exists():
            return None
        found = table.frame().filter(F.col("settled") == batch)
        return None if found.isEmpty() else found

    def records(
        self, batch: int, but: Collection[str] = ()
    ) -> tuple[DataFrame, list[TableId]] | None:
        """Those that the replay of this number may help, as the Kafka records they came as (``record_stream.SCHEMA``, and
        ``batch_id``, by which they were set aside), and the tables they are of; None when nothing waits. ``but``: topics whose records go on waiting.

        Of a replay that a crash has ended behind its last commit, these are what it has settled: its tables hold that, and the manifest
        is yet to say so. And no others, whatever can be read since then: nothing would settle them.
        """
        found = self._settled_by(batch)
        found = self._waiting(batch) if found is None else found
        if found is not None:
            found = found.filter(~F.col("topic").isin(*but))
        if found is None or found.isEmpty():
            return None
        hopeless = [one.says for one in reasons.QUARANTINED if not one.replays]
        found = found.filter(~F.col("reason").isin(hopeless))
        named = found.filter(F.col("table").isNotNull()).select("database", "table").distinct()
        tables = sorted(TableId(row.database, row.table) for row in named.collect())
        # A table that went back has the same records set aside once more.
        found = found.select(*_RECORD, "batch_id").dropDuplicates([*quarantine_rows.RECORD])
        return found, tables

    def _heads(self, upto: int) -> DataFrame | None:
        """Where each key's first waiting change stands; None when no key waits."""
        if self._keys == {}:
            return None
        found = self._waiting(upto)
        heads = _heads(found).filter(F.col("key").isNotNull()) if found is not None else None
        if self._keys is None:
            self._keys = {} if heads is None else _by_topic(heads)
        return heads if self._keys else None

    def keys(self, upto: int) -> Mapping[str, frozenset[bytes] | None]:
        """By topic, the keys that wait in it, set aside by batches up to ``upto``, so that later changes of them have to; None:
        more than :data:`_MANY`. As Kafka has them.
        """
        if self._keys is None:
            self._heads(upto)
        return self._keys or {}

    def read_again(self, ranges: Mapping[Place, tuple[int, int]]) -> set[str]:
        """Topics of which these ranges may hold records that wait already: the batch was torn, or a table went back. What this job sets aside
        itself lies before all that it reads later.
        """
        if self._last is None:
            self._last = self._look_for_last()
        last = self._last
        return {
            place[0] for place, (start, _) in filled(ranges).items() if last.get(place, -1) >= start
        }

    def _look_for_last(self) -> dict[Place, int]:
        found = self._whole()
        if found is None:
            return {}
        rows = found.groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect()
        return {(row.topic, row.partition): row.last for row in rows}

    def _whole(self) -> DataFrame | None:
        """Rows that wait whole: not those of which the table has applied what it could. None without any quarantine."""
        found = self._waiting(_ANY)
        return None if found is None else found.filter(F.col("reason") != reasons.ABSENT.says)

    def take(
        self,
        changes: DataFrame,
        tables: Sequence[TableBatch],
        count: int,
        identity: Identity,
        ranges: Mapping[Place, tuple[int, int]],
        applied: Callable[[Collection[Of]], Collection[Of]] = lambda _: (),
    ) -> int:
        """Set aside what cannot be read, of which there are ``count``, and what waits behind it, before
        any table is touched; returns how many changes of the batch wait. ``tables`` are left without them, and without what waits already.

        ``ranges``: the batch's. ``applied``: by what changes are of that are to be set aside now, those that are not, as their tables hold them.
        """
        waiting, again = self._heads(identity.batch), self.read_again(ranges)
        if not count and waiting is None and not again:
            return 0
        fresh = dedup.fresh(changes)
        rejects = _rejects(fresh, tables, identity.batch)
        heads = _heads(rejects) if waiting is None else _heads(rejects).union(waiting)
        behind = quarantine_rows.without(quarantine_rows.behind(_readable(fresh), heads), rejects)
        behind = self._leave_out(behind, tables)
        held = rejects.unionByName(quarantine_rows.rows(behind, identity.batch))
        mine, whole = 0, self._whole() if again else None
        if whole is not None:
            here = quarantine_rows.among(fresh, whole).select(*PLACE, "position")
            self._leave_out(here, tables)
            own = whole.filter(F.col("batch_id") == identity.batch)
            held, mine = quarantine_rows.without(held, own, quarantine_rows.RECORD), own.count()
        new = _counted(held)
        if new and (but := applied(new.keys())):
            held = held.filter(~reduce(Column.__or__, map(_is_of, but)))
            new = {of: many for of, many in new.items() if of not in but}
        if mine or new:
            self._append(changes.sparkSession, held, identity, more=bool(new))
        return int(mine + sum(new.values()))

    def _append(
        self, session: SparkSession, rows: DataFrame, first: Identity, *, more: bool
    ) -> None:
        """Under the batch's first identity. Where its commit stands already, it is read back; and ``more`` rows come under the next one that is free."""
        path, schema, identity = self._path, quarantine_rows.SCHEMA, first
        while not self._committer.append_once(session, path, schema, rows, identity) and more:
            identity = replace(identity, step=identity.step + 1)
        self._written()

    def retry(
        self, changes: DataFrame, tables: Sequence[TableBatch], batch_id: int
    ) -> DataFrame | None:
        """Of changes that waited, those that still have to wait are left out of ``tables``; returns
        the others (``quarantine_rows.RECORD``), which are to be applied or void by now; None when there is none.
        """
        fresh = dedup.fresh(changes)
        others = changes.filter(F.col("passed_over") == OTHER_COLUMNS)
        rejects = _rejects(fresh, tables, batch_id)
        heads = _heads(rejects).union(_heads(others))
        behind = self._leave_out(quarantine_rows.behind(_readable(fresh), heads), tables)
        still = reduce(DataFrame.union, [one.select(*_RECORD) for one in (rejects, others, behind)])
        record = quarantine_rows.RECORD
        settled = keep(quarantine_rows.without(changes, still, record).select(*record))
        self._cached.append(settled)
        return None if settled.isEmpty() else settled

    def leave_out(
        self, before: int, tables: Sequence[TableBatch], changes: DataFrame | None
    ) -> None:
        """Leave out of ``tables`` those of ``changes`` that earlier batches than ``before`` set aside and that still wait, or were given up."""
        if changes is not None and (held := self._set_aside(changes, before)) is not None:
            self._leave_out(held, tables)

    def newest_odd(
        self, table: TableBatch, changes: DataFrame | None, before: int
    ) -> Position | None:
        """The place of the newest change that cannot be read and was not set aside, as it could be read when it came; None without one."""
        assert changes is not None
        odd = [changes.filter(F.col("reason").isNotNull()), *table.rejects()]
        every = reduce(DataFrame.unionByName, [one.select(*PLACE, "position") for one in odd])
        if (held := self._set_aside(changes, before)) is not None:
            every = quarantine_rows.without(every, held)
        found = every.agg(F.max("position").alias("at")).collect()[0]["at"]
        return None if found is None else Position.from_mapping(found.asDict())

    def _set_aside(self, changes: DataFrame, before: int) -> DataFrame | None:
        """Places and positions of those of these changes that wait in quarantine, or were given up. By what they hold, too: a topic
        that is made again gives offsets anew. Not those of which the table has applied what it could.
        """
        table = SparkTable(self._session, self._path)
        if not table.exists():
            return None
        held = table.frame().filter(F.col("batch_id") < before)
        held = held.filter(F.coalesce("settled", F.lit(-1)) < 0)
        held = held.filter(F.col("reason") != reasons.ABSENT.says)
        return quarantine_rows.among(changes, held).select(*PLACE, "position")

    def settle(self, settled: DataFrame, identity: Identity, but: Sequence[str] = ()) -> None:
        """What :meth:`retry` found is applied now, or void; it waits no longer. ``but``: topics of which it was not applied."""
        table = SparkTable(self._session, self._path)
        match = f"q.settled IS NULL AND {quarantine_rows.same_record('q', 's')}"
        rows = settled.filter(~F.col("topic").isin(*but)).localCheckpoint()

        def mark() -> None:
            merge = table.delta().alias("q").merge(rows.alias("s"), match)
            merge.whenMatchedUpdate(set={"settled": str(identity.batch)}).execute()

        self._committer.once(table, identity, mark)
        self._written()
        self._last = None

    def drop(self, drop: Drop, identity: Identity) -> list[Dropped]:
        """Give up these changes: nothing waits for them any more, and each says in which batch that was. Returns what was
        given up under this identity, by partition, also by an attempt that a crash ended; nothing where nothing is to be.
        """
        table = SparkTable(self._session, self._path)
        if not table.exists():
            return []
        chosen, given_up = quarantine_rows.chosen(drop), F.lit(-identity.batch).cast("bigint")
        # A commit that changes nothing leaves no marker, and the number goes to the next batch. So it is not begun.
        if table.frame().filter(chosen).isEmpty() and not self._committer.holds(table, identity):
            return []
        self._committer.once(
            table, identity, lambda: table.delta().update(chosen, {"settled": given_up})
        )
        self._written()
        self._last = None
        found = (
            table.frame()
            .filter(F.col("settled") == given_up)
            .groupBy("database", "table", "topic", "partition")
            .agg(F.min("offset"), F.max("offset"), F.count("*"))
            .orderBy("topic", "partition")
            .collect()
        )
        return [
            Dropped(TableId(database, name) if name else None, *of) for database, name, *of in found
        ]

    @property
    def opened(self) -> Sequence[DeltaRsTable]:
        """Its table, where it was written to and maintenance can put it in order."""
        return self._reached.merged

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """See ``ReachedTables.left_to_spark``."""
        return self._reached.left_to_spark

    def _written(self) -> None:
        self._keys = None
        self._reached.was_written_by_spark(SparkTable(self._session, self._path))

    def release(self) -> None:
        """Free what was cached for a batch."""
        for frame in self._cached:
            free(frame)
        self._cached = []

    def _leave_out(self, found: DataFrame, tables: Sequence[TableBatch]) -> DataFrame:
        behind = keep(found)
        self._cached.append(behind)
        if not behind.isEmpty():
            for table in tables:
                table.leave_out(behind)
        return behind


def replayable(
    marked: DataFrame, catalog: Catalog, states: Mapping[str, TableState], tables: Sequence[TableId]
) -> DataFrame:
    """Marks (``passed_over``) changes that waited and are void by now, since a newer snapshot of their
    table is complete or their attempt at one was given up, and those made under other columns than the
    table has now, which cannot be replayed.
    """
    current = {version.table: version for version in catalog.current()}
    for table in tables:
        here = (F.col("database") == table.database) & (F.col("table") == table.name)
        state, version = states.get(str(table)), current.get(table)
        void, other = F.lit(False), F.lit(version is None)
        if state and state.snapshot:
            void = F.col("position") < dedup.literal(state.snapshot)
        if state and state.run:
            by = "reading" if READ_AT in state.run else "run"  # as earlier versions noted it
            other_one = F.coalesce(by, F.lit("")) != state.run
            void = void | (F.col("reading").isNotNull() & other_one)
        if version:
            other = F.col("position") < dedup.literal(version.position)
        reason = F.when(here & void, dedup.OBSOLETE).when(here & other, OTHER_COLUMNS)
        marked = marked.withColumn("passed_over", F.coalesce("passed_over", reason))
    return marked


def _rejects(fresh: DataFrame, tables: Sequence[TableBatch], batch_id: int) -> DataFrame:
    unread = quarantine_rows.rows(fresh.filter(F.col("reason").isNotNull()), batch_id)
    parts = [quarantine_rows.rows(part, batch_id) for table in tables for part in table.rejects()]
    return reduce(DataFrame.unionByName, parts, unread)


def _counted(rows: DataFrame) -> dict[Of, int]:
    found = rows.groupBy("topic", "database", "table").count().collect()
    return {
        (row.topic, TableId(row.database, row.table) if row.table else None): row["count"]
        for row in found
    }


def _is_of(of: Of) -> Column:
    topic, table = of
    named = [table.database, table.name] if table else [None, None]
    same = [F.col(one).eqNullSafe(F.lit(value)) for one, value in zip(_NAMED, named, strict=True)]
    return reduce(Column.__and__, same, F.col("topic") == topic)


def _readable(fresh: DataFrame) -> DataFrame:
    return fresh.filter(F.col("reason").isNull())


def _heads(rows: DataFrame) -> DataFrame:
    """Behind a change of another table than the topic's nothing waits: what the topic's own table has by that key is another row."""
    own = ~F.col("reason").startswith(reasons.OF_ANOTHER_TABLE.opening)
    rows = rows.filter(F.coalesce(own, F.lit(True)))
    return rows.select("topic", "partition", "offset", "key")


def _by_topic(heads: DataFrame) -> dict[str, frozenset[bytes] | None]:
    """By topic, the keys of these rows; None: more than :data:`_MANY`."""
    number = F.row_number().over(Window.partitionBy("topic").orderBy("key"))
    few = heads.select("topic", "key").distinct().withColumn("number", number)
    found: dict[str, set[bytes]] = {}
    for row in few.filter(F.col("number") <= _MANY + 1).collect():
        found.setdefault(row.topic, set()).add(bytes(row.key))
    return {topic: None if len(keys) > _MANY else frozenset(keys) for topic, keys in found.items()}
