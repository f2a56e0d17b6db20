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

from ingest.batch.apply import Applier, Work, further_numbers
from ingest.batch.awaited import Awaited
from ingest.batch.batch_report import BatchReport
from ingest.batch.reader import Reader, Reading
from ingest.batch.retaking import Retaking
from ingest.batch.stages import Stopwatch
from ingest.changes import restarted_snapshots
from ingest.changes.batch_facts import regression
from ingest.changes.restarted_snapshots import Cleanup
from ingest.changes.table_batch import TableBatch
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Binlog, Log, Schemas
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.engines import collected
from ingest.lake.manifest import next_entry
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.lake.quarantine.held_back import HeldBack
from ingest.maintenance.schedule import Maintenance
from ingest.model import manifest
from ingest.model.epochs import Epoch
from ingest.model.errors import of_table
from ingest.model.failpoints import reached
from ingest.model.manifest import Entry, Gap, Kind
from ingest.model.names import app_id
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl_policy, pending_ddl
from ingest.schema.catalog import Catalog
from ingest.schema.set_aside import Admission, Spans
from ingest.schema.steps import Applied
from ingest.source.definition_check import SecondLook
from ingest.source.resync import Request, Requests


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
        binlog: Binlog,
        epochs: Sequence[Epoch] = (),
        second_look: SecondLook | None = None,
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
        self._again = Retaking(pipeline, requests, binlog)
        self._admission = Admission(pipeline.lake.profile)
        self._second_look = second_look
        self._awaited = Awaited(lambda table: log.ends([pipeline.topic(table)]))
        # Kept for the whole run: each thread keeps its own Spark session.
        self._pool = ThreadPoolExecutor(pipeline.spark.parallel_tables)
        # Of the run's session, not of a batch's: clones of those would pile up, batch by batch.
        self._applier = Applier(pipeline, session, committer)
        self._held = HeldBack(session, pipeline.lake.path, committer)
        self._reader = Reader(
            pipeline, log, self._pool, epochs, self._held, collects=self._applier.collects
        )
        self._published = Publisher(session, pipeline.lake.path, committer)
        self._maintenance = Maintenance(
            pipeline.lake.path, pipeline.lake.history_hours, pipeline.lake.history_versions
        )

    def apply(self, batch: DataFrame, spark_batch: int) -> None:
        """One micro-batch of Spark's.

        Spark has written the batch's ranges before it calls, and writes its commit after we return;
        until then a crash brings the same ranges again. They are ours to number: the batch is the one
        after the manifest's newest. Of ranges that the manifest covers only Spark's own commit was lost.
        """
        ranges, late = self._log.taken(spark_batch)
        if manifest.covers(self.newest, ranges):
            self._keep_state(batch)
            self._log.publish({place: end for place, (_, end) in ranges.items()})
            return
        if not manifest.continues(self.newest, ranges):
            raise StaleCheckpointError
        taken = manifest.with_drained(self.newest, ranges, self._log.ends)
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

    def finish(self, note: Note) -> None:
        """A batch that was torn: some tables hold their part, the manifest has no row.

        Under its own identity and with its very ranges, so that what is there is skipped and what
        is missing is added, also in a table without a key.
        """
        if note.cleanup:
            name, below = note.cleanup
            self._clean_up(Cleanup(TableId.parse(name), below), note=note)
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
        if (waiting := self._held.records(note.batch_id)) is not None:
            self._work(waiting[0], note, waiting[1])

    def rewind(self, entry: Entry) -> None:
        """Publish where topics go on from now, without any change."""
        self._publish(entry.without_changes("rewind", self._next, self._committer.term))

    def _without_changes(self, kind: Kind) -> Entry:
        assert self.newest is not None
        return self.newest.without_changes(kind, self._next, self._committer.term)

    def clean_up(self, streaming: Position | None) -> None:
        """Remove what a completed snapshot did not contain, as soon as all of it is applied.

        ``streaming``: the newest position that the connector is known to have streamed. A snapshot
        below it is complete in Kafka; once all of it is applied, rows older than it did not occur in it.
        """
        if self._second_look and streaming:
            self._schemas.read_to_end()
            self._second_look.look(self._schemas.catalog, streaming, self._requests)
        if (newest := self.newest) is None:
            return
        known = [streaming, *(mark.position for mark in newest.high_water.values())]
        streamed = max((position for position in known if position), default=None)
        if streamed is not None:
            self._apply_ddl(streamed)
        catalog, _ = self._admission.of(self._schemas.catalog)
        for cleanup in restarted_snapshots.awaited(catalog, newest.tables):
            if restarted_snapshots.is_complete(cleanup, streamed) and self._is_applied(cleanup):
                self._clean_up(cleanup)
        for request in self._requests.look():
            if self._complete(request):
                self.replay()  # what waited for the table is void by now, or free to go on

    def _apply_ddl(self, streamed: Position) -> None:
        """DDLs that no change of their table has followed yet, once all before them is applied."""
        assert self.newest is not None
        catalog, barriers = self._governed()
        ddl_policy.refuse(barriers)
        waiting = pending_ddl.pending(catalog, self.newest.tables, streamed, barriers)
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
        state = self.newest.tables.get(request.table)
        whole = self._again.whole(request, state)
        if whole is None:
            return False
        cleanup, asked = whole
        if not (
            self._is_applied(replace(cleanup, below=request.below)) and self._is_applied(cleanup)
        ):
            return False
        if state is None:
            self._close(cleanup)
        else:
            self._clean_up(cleanup, asked)
        self._requests.done(request)
        # A DDL that came after the request may have opened another gap.
        self.ask_again(self.newest.gaps)
        return True

    def _is_applied(self, cleanup: Cleanup) -> bool:
        assert self.newest is not None
        return self._awaited.is_applied(cleanup, self.newest)

    def _close(self, cleanup: Cleanup) -> None:
        """The gaps of a table of which there is no row, here or at the source."""
        entry = self._without_changes("cleanup")
        gaps = restarted_snapshots.closed(entry.gaps, cleanup, cleanup.below)
        if gaps != entry.gaps:
            self._publish(replace(entry, gaps=gaps))

    def ensure_tables(self) -> None:
        """Create the lake's tables for source tables that have a key but no row yet."""
        self._applier.create_missing(self._readable[0])

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def _readable(self) -> tuple[Catalog, Spans]:
        self._schemas.read_to_end()
        return self._admission.of(self._schemas.catalog)

    def ask_again(self, gaps: Sequence[Gap]) -> None:
        """For the tables of open gaps."""
        self._again.ask(gaps, self._readable[1])

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
        catalog, aside = self._admission.of(self._schemas.catalog, note.schema_offset)
        catalog, note = ddl_policy.in_force(
            note, catalog, self._schemas.offset, states_before, rules
        )
        work = Work(note.batch_id, note.checkpoint_id, note.as_json())
        watch.done("schemas")
        touched = list(manifest.filled(note.ranges))
        identity = self._identity("quarantine", work.checkpoint_id, work.batch_id, work.note)
        try:
            read = self._reader.read(
                batch, note, catalog, aside, previous, waiting, watch, late=late
            )
            counts = read.counts
            facts = {**pending_ddl.without_changes(note.ddl, catalog, states_before), **read.facts}
            facts = ddl_policy.ruled(facts, rules)
            if counts.regressed:
                raise regression(counts.regressed, previous)
            doubts = self._again.doubts(read, aside, previous)
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
            names = next_entry.unnamed(previous, touched)
            entry = replace(
                next_entry.entry(
                    previous,
                    note,
                    facts,
                    applied,
                    touched,
                    catalog=catalog,
                    topic_ids=self._log.topic_ids(names) if names else {},
                    topic=self.pipeline.topic,
                    waiting=counts.waiting,
                    doubts=doubts,
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
        self._follow_up(entry, aside)

    def _quarantine(self, read: Reading, tables: list[TableBatch], identity: Identity) -> int:
        """Set aside what cannot be applied; returns how many changes."""
        assert read.changes is not None
        assert read.fresh is not None
        others = [table for table in tables if table.facts.table not in read.rows]
        collect = self._applier.collects
        bad = collected.look(read.fresh, others, self._pool, collect=collect)
        return self._held.take(read.changes, others, bad, identity)

    def _follow_up(self, entry: Entry, aside: Spans) -> None:
        """What a crash may leave undone: the next start asks for the tables of all open gaps, and offsets
        may lag.
        """
        self._again.say(entry, aside)
        self._again.ask(entry.gaps, aside)
        self._log.publish(entry.ends)
        reached("offsets_committed", entry.batch_id)
        self._report(BatchReport(entry, self._maintenance.done()))
        self._maintenance.between_batches([*self._applier.opened, *self._published.opened])

    def barred(self) -> frozenset[str]:
        """Tables that a policy holds before a DDL, by what the lake has applied."""
        _, barriers = self._governed()
        return frozenset(map(str, barriers))

    def _governed(self) -> tuple[Catalog, dict[TableId, ddl_policy.Barrier]]:
        tables = self.newest.tables if self.newest else {}
        return ddl_policy.governed(self._readable[0], tables, self.pipeline.rules)

    def _apply_tables(self, tables: list[TableBatch], work: Work) -> list[Applied]:
        """Tables side by side, each in its own thread and session; the first failure counts."""
        futures = [self._pool.submit(self._applier.apply, table, work) for table in tables]
        wait(futures)  # all of them: a replay must not meet a thread of its own past
        for table, future in zip(tables, futures, strict=True):
            if failure := future.exception():
                of_table(failure, str(table.facts.table))
                raise failure
        reached("tables_committed", work.batch_id)
        return [future.result() for future in futures]

    def _clean_up(
        self, cleanup: Cleanup, asked: Position | None = None, note: Note | None = None
    ) -> None:
        newest, name = self.newest, str(cleanup.table)
        assert newest is not None
        note = note or Note(self._next, self.checkpoint_id, cleanup=(name, cleanup.below))
        started = time.monotonic()
        entry = self._without_changes("cleanup")
        work = Work(note.batch_id, note.checkpoint_id, note.as_json())
        applied = self._applier.clean_up(cleanup, work)
        settled = restarted_snapshots.settled(entry.tables[name], cleanup)
        after = replace(settled, version=applied.version)
        gaps = restarted_snapshots.closed(
            newest.gaps, cleanup, max(cleanup.below, asked or cleanup.below)
        )
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
