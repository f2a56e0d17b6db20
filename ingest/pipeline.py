"""The spine: what happens to one micro-batch, in order.

``Batches.apply`` is the function that Spark calls. Read it first, then ``_work``; every line of it
is a stage that has a module of its own name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession

from ingest import collected, manifest, pending, policy, snapshots, states
from ingest.apply import Applier, Work, further_numbers
from ingest.awaited import Awaited
from ingest.batch_report import BatchReport
from ingest.commit import Committer, Identity
from ingest.config import Pipeline
from ingest.epochs import Epoch
from ingest.facts import regression
from ingest.failpoints import reached
from ingest.held_back import HeldBack
from ingest.maintenance import Maintenance
from ingest.manifest import Entry, Kind
from ingest.names import app_id
from ingest.ports import Log, Ranges, Schemas
from ingest.position import Position
from ingest.publishing import Publisher
from ingest.reading import Reader, Reading, special
from ingest.resync import Request, Requests
from ingest.snapshots import Cleanup
from ingest.stages import Stopwatch
from ingest.start_facts import Note
from ingest.steps import Applied
from ingest.table_batch import TableBatch
from ingest.topics import TableId


class StaleCheckpointError(Exception):
    """Spark's ranges do not continue the manifest's: the start must be decided again."""


class Batches:
    """Applies micro-batches of one pipeline, under one checkpoint id."""

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        *,
        log: Log,
        schemas: Schemas,
        committer: Committer,
        newest: Entry | None,
        report: Callable[[BatchReport], None],
        requests: Requests,
        epochs: Sequence[Epoch] = (),
    ) -> None:
        self.pipeline = pipeline
        self.newest = newest
        self.checkpoint_id = newest.checkpoint_id if newest else ""
        self.state_size = (0, 0)
        """Rows and bytes of Spark's state store, as its newest progress says."""
        self._session = session
        self._log = log
        self._report = report
        self._schemas = schemas
        self._committer = committer
        self._requests = requests
        self._awaited = Awaited(lambda table: log.ends([pipeline.topic(table)]))
        # Kept for the whole run: each thread keeps its own Spark session.
        self._pool = ThreadPoolExecutor(pipeline.spark.parallel_tables)
        # Of the run's session, not of a batch's: Spark hands each batch a session object of its
        # own, and sessions cloned from it would pile up batch by batch.
        self._applier = Applier(pipeline, session, committer)
        self._held = HeldBack(session, pipeline.lake.path, committer)
        self._reader = Reader(pipeline, log, self._pool, epochs)
        self._published = Publisher(session, pipeline.lake.path, committer)
        self._maintenance = Maintenance(
            pipeline.lake.path, pipeline.lake.history_hours, pipeline.lake.history_versions
        )

    def apply(self, batch: DataFrame, spark_batch: int) -> None:
        """One micro-batch of Spark's.

        Spark has written the batch's ranges before it calls, and writes its commit after we return;
        until then a crash brings the same ranges again. They are ours to number: the batch is the
        one after the manifest's newest. Ranges that the manifest covers were published, and only
        Spark's own commit of them was lost.
        """
        ranges, late = self._log.taken(spark_batch)
        if manifest.covers(self.newest, ranges):
            self._keep_state(batch)
            self._log.publish({place: end for place, (_, end) in ranges.items()})
            return
        if not manifest.continues(self.newest, ranges):
            raise StaleCheckpointError
        taken = self._drained(ranges)
        if late or taken != ranges:
            # Late: all of it was late to Spark, which dropped it before calling us.
            self._keep_state(batch)
            batch = self._log.read(taken)
        self._work(batch, Note(self._next, self.checkpoint_id, taken), late=late)

    def _keep_state(self, batch: DataFrame) -> None:
        """Let a batch that is not used pass through Spark's state store all the same.

        Spark fails a query whose state was not committed for a batch
        (STATE_STORE_COMMIT_VALIDATION_FAILED), and it commits while the batch is computed.
        """
        if self.pipeline.dedup.keeps_state:
            batch.write.format("noop").mode("overwrite").save()

    def _drained(self, ranges: Ranges) -> Ranges:
        """The same ranges, the old partitions' taken to their end where a topic has a new one.

        A key may have moved there. Whatever of it stands in its old partition was written before
        anything in the new one, so a batch that holds all of the old partitions' records holds the
        key's changes together, and their positions order them. The checkpoint is then behind the
        manifest, which the next batch notices and mends.
        """
        grown = manifest.grown(self.newest, ranges)
        return manifest.drained(ranges, grown, self._log.ends(sorted(grown))) if grown else ranges

    def finish(self, note: Note) -> None:
        """A batch that was torn: some tables hold their part, the manifest has no row.

        Under its own identity and with its very ranges, so that what is there is skipped and what
        is missing is added, also in a table without a key.
        """
        if note.cleanup:
            name, below = note.cleanup
            self._clean_up(Cleanup(TableId.parse(name), below), note)
        elif note.replay:
            self._replay(note)
            if self._next == note.batch_id:  # all but its row of the manifest was there
                self._publish(self._without_changes("replay"))
        else:
            self._work(self._log.read(note.ranges), note)

    def replay(self) -> int:
        """Take in what waits in quarantine and can be applied by now; returns in how many batches."""
        before = self._next
        if self.newest is not None:
            self._replay(Note(before, self.checkpoint_id, replay=True))
        return self._next - before

    def _replay(self, note: Note) -> None:
        waiting = self._held.records(note.batch_id)
        if waiting is not None:
            self._schemas.read_to_end()
            records, tables = waiting
            self._work(records, note, tables)

    def rewind(self, entry: Entry) -> None:
        """Publish where topics go on from now, without any change."""
        self._publish(entry.without_changes("rewind", self._next, self._committer.term))

    def _without_changes(self, kind: Kind) -> Entry:
        assert self.newest is not None
        return self.newest.without_changes(kind, self._next, self._committer.term)

    def clean_up(self, streaming: Position | None) -> None:
        """Remove what a completed snapshot did not contain, as soon as all of it is applied.

        ``streaming``: the newest position that the connector is known to have streamed. A snapshot
        below it is complete in Kafka; where its topic ends then, its rows end. Once that much is
        applied, rows older than the snapshot did not occur in it.
        """
        newest = self.newest
        if newest is None:
            return
        known = [streaming, *(mark.position for mark in newest.high_water.values())]
        streamed = max((position for position in known if position), default=None)
        if streamed is not None:
            self._apply_ddl(streamed)
        for cleanup in snapshots.awaited(self._schemas.catalog, newest.tables):
            if snapshots.is_complete(cleanup, streamed) and self._is_applied(cleanup):
                self._settle(cleanup)
        for request in self._requests.look():
            if self._complete(request):
                self.replay()  # what waited for the table is void by now, or free to go on

    def _apply_ddl(self, streamed: Position) -> None:
        """DDLs that no change of their table has followed yet, once all before them is applied."""
        assert self.newest is not None
        self._schemas.read_to_end()
        tables = self.newest.tables
        catalog, barriers = policy.governed(self._schemas.catalog, tables, self.pipeline.rules)
        policy.refuse(barriers)
        waiting = pending.pending(catalog, tables, streamed, barriers)
        ready = {
            str(table): upto
            for table, upto in waiting.items()
            if self._is_applied(Cleanup(table, upto))
        }
        if ready:
            note = Note(self._next, self.checkpoint_id, ddl=ready)
            self._work(self._log.read({}), note)

    def _complete(self, request: Request) -> bool:
        """A table that was taken again: done once its snapshot is whole and applied."""
        assert self.newest is not None
        table = TableId.parse(request.table)
        state = self.newest.tables.get(request.table)
        if not self._requests.is_complete(request):
            done = False
        elif state is None:  # the source's table is empty, and so is ours
            done = True
        else:
            # Without a first row nothing was read: the source's table is empty, and older rows go.
            begins, asked = state.reread, request.below
            if request.kind == "BLOCKING" and not self._requests.was_empty(request):
                # Its rows' own position; older ones went when they came. A gap behind it stays open.
                begins = asked = state.floor or request.below
            cleanup = Cleanup(table, begins or request.below)
            done = self._is_applied(Cleanup(table, request.below)) and self._is_applied(cleanup)
            if done:
                self._settle(cleanup, asked)
        if done:
            self._requests.done(request)
            # A DDL that came after the request may have opened another gap.
            self._requests.ask(sorted({gap.table for gap in self.newest.gaps if gap.is_open}))
        return done

    def _is_applied(self, cleanup: Cleanup) -> bool:
        assert self.newest is not None
        return self._awaited.is_applied(cleanup, self.newest)

    def _settle(self, cleanup: Cleanup, asked: Position | None = None) -> None:
        place = (str(cleanup.table), cleanup.below)
        self._clean_up(cleanup, Note(self._next, self.checkpoint_id, cleanup=place), asked)

    def ensure_tables(self) -> None:
        """Create the lake's tables for source tables that have a key but no row yet."""
        self._schemas.read_to_end()
        self._applier.create_missing(self._schemas.catalog)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def _next(self) -> int:
        return (self.newest.batch_id if self.newest else 0) + 1

    def _work(
        self, batch: DataFrame, note: Note, waiting: Sequence[TableId] = (), *, late: bool = False
    ) -> None:
        """Decode, order, quarantine, apply, manifest, offsets.

        The order is the only correct one. Everything before the manifest is idempotent under (batch number,
        step): quarantine and each table skip what they hold. The manifest publishes the batch; a crash
        before it leaves tables ahead of it, which the next start finishes. Offsets may lag, never lead.
        """
        watch, started_at, previous = Stopwatch(), datetime.now(timezone.utc), self.newest
        reached("batch_started", note.batch_id)
        self._schemas.read_to_end()
        states_before, rules = previous.tables if previous else {}, self.pipeline.rules
        seen = self._schemas.catalog, self._schemas.offset
        catalog, note = policy.in_force(note, *seen, states_before, rules)
        work = Work(note.batch_id, note.checkpoint_id, note.as_json())
        watch.done("schemas")
        touched = list(manifest.filled(note.ranges))
        identity = self._identity("quarantine", work.checkpoint_id, work.batch_id, work.note)
        left = self._left(note, {topic for topic, _ in touched}, late=late)
        try:
            read = self._reader.read(batch, note, catalog, previous, waiting, watch, left)
            counts = read.counts
            facts = {**pending.without_changes(note.ddl, catalog, states_before), **read.facts}
            facts = policy.ruled(facts, rules)
            if counts.regressed:
                raise regression(counts.regressed, previous)
            tables = self._applier.prepare(read.fresh, read.rows, facts, catalog, previous)
            reached("changes_prepared", note.batch_id)
            watch.done("plan")
            rejects, settled = 0, None
            if read.changes is not None:
                if not note.replay:
                    rejects = self._quarantine(read, tables, identity)
                elif (settled := self._held.retry(read.changes, tables, note.batch_id)) is None:
                    return
                watch.done("type")
            reached("quarantine_committed", note.batch_id)
            applied = [
                one.read_by_spark(read.left.get(self.pipeline.topic(one.table)))
                for one in self._apply_tables(tables, work)
            ]
            watch.done("apply")
            if settled is not None:
                self._held.settle(settled, identity)
            names = states.unnamed(previous, touched)
            entry = replace(
                states.entry(
                    previous,
                    note,
                    facts,
                    applied,
                    touched,
                    catalog=catalog,
                    topic_ids=self._log.topic_ids(names) if names else {},
                    topic=self.pipeline.topic,
                    waiting=counts.waiting,
                ),
                batch_id=note.batch_id + further_numbers(tables),
                term=self._committer.term,
                rejects=rejects,
                resent=counts.passed_over,
                late=counts.changes if late else 0,
                kind="replay" if note.replay else "batch",
                state_rows=self.state_size[0],
                state_bytes=self.state_size[1],
                started_at=started_at,
                seconds=watch.seconds,
                stages=watch.stages,
            )
            self._publish(entry)
        finally:
            for table in self._applier.prepared:
                table.release()
            self._held.release()
            self._reader.release()
        reached("manifest_committed", note.batch_id)
        self._follow_up(entry, applied)

    def _left(self, note: Note, topics: set[str], *, late: bool) -> dict[str, str]:
        """Topics that Spark has to read, which has all the rules, each with why."""
        why = special(note, late=late, keeps_state=self.pipeline.dedup.keeps_state)
        if not self._applier.collects:
            why = ""
        elif why is None:
            topics, why = topics & self._held.topics(note.batch_id), "a key waits in quarantine"
        return dict.fromkeys(topics, why)

    def _quarantine(self, read: Reading, tables: list[TableBatch], identity: Identity) -> int:
        """Set aside what cannot be applied; returns how many changes."""
        assert read.changes is not None
        assert read.fresh is not None
        others = [table for table in tables if table.facts.table not in read.rows]
        collect = self._applier.collects
        bad = collected.look(read.fresh, others, self._pool, collect=collect)
        return self._held.take(read.changes, others, bad, identity)

    def _follow_up(self, entry: Entry, applied: Sequence[Applied]) -> None:
        """What a crash may leave undone: the next start asks for the tables of all open gaps, and offsets
        may lag.
        """
        self._requests.ask(sorted(str(one.table) for one in applied if one.unknown))
        self._log.publish(entry.ends)
        reached("offsets_committed", entry.batch_id)
        self._report(BatchReport(entry, self._maintenance.done()))
        self._maintenance.between_batches([*self._applier.opened, *self._published.opened])

    def barred(self) -> frozenset[str]:
        """Tables that a policy holds before a DDL, by what the lake has applied."""
        self._schemas.read_to_end()
        tables = self.newest.tables if self.newest else {}
        _, barriers = policy.governed(self._schemas.catalog, tables, self.pipeline.rules)
        return frozenset(map(str, barriers))

    def _apply_tables(self, tables: list[TableBatch], work: Work) -> list[Applied]:
        """Tables side by side, each in its own thread and session; the first failure counts."""
        futures = [self._pool.submit(self._applier.apply, table, work) for table in tables]
        wait(futures)  # all of them: a replay must not meet a thread of its own past
        applied = [future.result() for future in futures]
        reached("tables_committed", work.batch_id)
        return applied

    def _clean_up(self, cleanup: Cleanup, note: Note, asked: Position | None = None) -> None:
        newest = self.newest
        assert newest is not None
        started = time.monotonic()
        entry = self._without_changes("cleanup")
        name = str(cleanup.table)
        work = Work(note.batch_id, note.checkpoint_id, note.as_json())
        applied = self._applier.clean_up(cleanup, work)
        settled = snapshots.settled(entry.tables[name], cleanup)
        after = replace(settled, version=applied.version)
        gaps = snapshots.closed(newest.gaps, cleanup, max(cleanup.below, asked or cleanup.below))
        tables = {**entry.tables, name: after}
        seconds = time.monotonic() - started
        self._publish(replace(entry, tables=tables, gaps=gaps, seconds=seconds))
        self._awaited.forget(cleanup)

    def _publish(self, entry: Entry) -> None:
        self._published.add(entry, self._identity("manifest", entry.checkpoint_id, entry.batch_id))
        self.newest = entry

    def _identity(self, target: str, checkpoint: str, batch_id: int, note: str = "") -> Identity:
        app = app_id(self.pipeline.name, checkpoint, "_ingest", target)
        return Identity(app, batch_id, 0, note)
