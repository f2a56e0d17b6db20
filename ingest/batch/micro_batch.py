"""The main path: what happens to one micro-batch, in order.

Spark calls ``Batches.apply``. Read it first, then ``_work``: read, decide, apply, publish. Each stage has a module of
its own; what takes effect between batches is in ``settling``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from ingest.batch import dropping, hidden_snapshots, parts
from ingest.batch.batch_report import BatchReport
from ingest.batch.batch_size import Pace
from ingest.batch.between_batches import BetweenBatches
from ingest.batch.between_stages import Decided, Done
from ingest.batch.doubtful_tables import Retaking
from ingest.batch.log_filling import LogFilling
from ingest.batch.outliving import outlives
from ingest.batch.parts import Part, Parts, Records
from ingest.batch.readers import Reader
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest, SparkRecords
from ingest.batch.setting_aside import SettingAside
from ingest.batch.settling import Settling
from ingest.batch.side_by_side import Failures, SideBySide
from ingest.batch.stage_times import Stopwatch
from ingest.batch.step_cutter import StepCutter
from ingest.batch.table_applier import Applier, Work, further_numbers
from ingest.batch.table_definitions import Definitions, InForce
from ingest.batch.topic_end import Awaited
from ingest.changes.batch_facts import regression
from ingest.changes.restarted_snapshots import Cleanup
from ingest.config.pipeline_file import Pipeline
from ingest.flows.unread import first_unread
from ingest.kafka.ports import Binlog, Log, Schemas
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.manifest import next_entry
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.lake.quarantine.held_back import HeldBack
from ingest.maintenance.schedule import Maintenance
from ingest.model import offset_ranges
from ingest.model.epochs import Epoch
from ingest.model.failpoints import reached
from ingest.model.manifest import Entry, Kind
from ingest.model.names import INTERNAL_FOLDER, Role, app_id
from ingest.model.position import Position
from ingest.model.quarantine_drop import Drop
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.observe.published import Published
from ingest.schema import ddl_policy, pending_ddl
from ingest.schema.set_aside import Spans
from ingest.source.definition_check import SecondLook
from ingest.source.later_tables import LaterTables
from ingest.source.resync import Requests


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
        later: LaterTables | None = None,
        failures: Failures | None = None,
        pace: Pace | None = None,
        published: Callable[[Published], None] = lambda _: None,
    ) -> None:
        self.pipeline = pipeline
        self.newest = newest
        self.checkpoint_id = newest.checkpoint_id if newest else ""
        self.state_size = (0, 0)
        """Rows and bytes of Spark's state store, as its newest progress says."""
        self._log = log
        self._report = report
        self._tell = published
        self._committer = committer
        self.definitions = Definitions(pipeline, schemas)
        # Kept for the whole run: each thread keeps its own Spark session.
        self._pool = ThreadPoolExecutor(pipeline.spark.parallel_tables)
        # Of the run's session, not of a batch's: clones of those would pile up, batch by batch.
        self._applier = Applier(pipeline, session, committer)
        self._again = Retaking(pipeline, requests, binlog, partial(outlives, session, pipeline))
        self.tables = SideBySide(self._pool, self._applier, failures or Failures(), requests.say)
        self._cutter = StepCutter(pipeline, session, log.topic_ids)
        self._held = HeldBack(session, pipeline.lake.path, committer)
        self._aside = SettingAside(self._held, self._applier, self.tables, self._pool)
        collects = self._applier.collects
        job = ReaderJob(session, pipeline, log, self._pool, epochs, self._held, collects)
        self._reader = Reader(job)
        self._parts = Parts(pipeline, log, pace or Pace())
        self._published = Publisher(session, pipeline.lake.path, committer)
        unread = partial(first_unread, pipeline)
        maintenance = Maintenance.of(pipeline, committer, session, unread=unread)
        self.upkeep = BetweenBatches(maintenance, (self._applier, self._published, self._held))
        awaited = Awaited(lambda table: log.ends([pipeline.topic(table)]))
        mine = (self, self._applier, self.definitions, awaited, requests, self._again)
        self._settling = Settling(*mine, second_look, later)
        has = (self._reader, self._cutter, self._held, self._applier, epochs)
        self.filling = LogFilling(self, log, *has)

    def apply(
        self, batch: DataFrame, spark_batch: int, between_parts: Callable[[], None] = lambda: None
    ) -> None:
        """One micro-batch of Spark's, in as many parts as it takes (``parts``).

        Spark has written the batch's ranges before it calls, and writes its commit after we return;
        until then a crash brings the same ranges again. They are ours to number: a part is the batch
        after the manifest's newest. Of ranges that the manifest covers only Spark's own commit was lost.
        """
        ranges, late = self._log.taken(spark_batch)
        state = self.pipeline.dedup.keeps_state
        records = Records(self._log, batch, ranges, state=state, late=late)
        try:
            begun = self._next
            while part := self._parts.next(self.newest, ranges, exact=state):
                if self._next > begun:
                    between_parts()
                number = parts.number(self.newest, spark_batch, self.checkpoint_id)
                note = replace(self.note(), ranges=part.ranges, spark=(spark_batch, number))
                self._work(records.of(part), note, late=late, part=part)
            if self._next == begun:  # only Spark's own commit was lost
                done = self.newest.ends if self.newest else {}  # which may be beyond Spark's range
                self._log.publish(
                    {place: done.get(place, end) for place, (_, end) in ranges.items()}
                )
        finally:
            records.release()

    def _work(
        self,
        records: SparkRecords,
        note: Note,
        waiting: Sequence[TableId] = (),
        *,
        late: bool = False,
        part: Part = parts.ALL,
        due: Callable[[Reading], bool] = lambda _: True,
    ) -> None:
        """Read, decide, apply, publish. ``waiting``: tables whose changes come out of quarantine; ``late``: as
        ``ReadRequest`` has it; ``part``: how much of it has to be; ``due``: whether what was read is to be applied at all.

        The order is the only correct one. All that is committed before the manifest is idempotent under (batch
        number, step): the quarantine and each table skip what they hold. The manifest publishes the batch. A crash
        before it leaves tables ahead of the manifest, which the next start finishes (:meth:`finish`). A crash after it
        leaves Kafka's committed offsets behind, and tables not yet asked for again: both are made good by the next
        batch or start. Offsets may lag, never lead.
        """
        watch, started_at = Stopwatch(), datetime.now(timezone.utc)
        reached("batch_started", note.batch_id)
        seen = self.definitions.in_force(note, self.newest)
        watch.done("schemas")
        try:
            request = ReadRequest(
                *(seen.note, seen.catalog, seen.aside, records, self.newest, waiting),
                *(late, part.most, part.expected),
            )
            request = request.of(request.topics - self._standing(note.shows))
            read = self._reader.read(request, watch)
            seen = seen.up_to(read.cut)
            decided = self._decide(seen, read)
            if not due(read):
                return
            reached("changes_prepared", note.batch_id)
            watch.done("plan")
            done = self._commit(seen, read, decided, watch)
            if done is None:
                return
            entry = replace(
                self._entry(seen, read, decided, done, late=late),
                started_at=started_at,
                seconds=watch.seconds,
                stages=watch.stages,
            )
            self.publish(entry, read.readers)
        finally:
            self._cutter.release()
            self._held.release()
            self._reader.release()
        reached("manifest_committed", note.batch_id)
        self._parts.took(entry, request.note.up_to(read.cut).ranges, read.size)
        del read, decided, done  # no rows are held while tables are put in order
        self._parts.give_back()
        self._follow_up(entry, seen.aside)

    def _decide(self, seen: InForce, read: Reading) -> Decided:
        """What the changes mean for each table. Raises where the log has gone backwards."""
        states = self.newest.tables if self.newest else {}
        fit = self.tables.but_standing(seen.note.ddl, self.newest)
        without = pending_ddl.without_changes(fit, seen.catalog, states)
        found = hidden_snapshots.counting(read.facts, seen.note)
        facts = ddl_policy.ruled({**without, **found}, self.pipeline.rules)
        if read.counts.regressed:
            raise regression(read.counts.regressed, self.newest)
        doubts = self._again.doubts(read, seen, self.newest)
        return Decided(facts, self._cutter.prepare(read, facts, seen, self.newest), doubts)

    def _commit(
        self, seen: InForce, read: Reading, decided: Decided, watch: Stopwatch
    ) -> Done | None:
        """The quarantine's part, then each table's; None where nothing that waits can be applied yet."""
        note = seen.note
        identity = self._identity(
            Role.QUARANTINE, note.checkpoint_id, note.batch_id, note.as_json()
        )
        cut, rejects, settled = decided.cut, 0, None
        self.tables.refuse_alone(cut, self.newest)
        if read.changes is not None:
            if not note.replay:
                cut, rejects = self._aside.take(read, cut, seen, self.newest, identity)
            else:
                settled = self._held.retry(read.changes, cut.tables, note.batch_id)
                if settled is None:
                    return None
            watch.done("type")
        reached("quarantine_committed", note.batch_id)
        topic = self.pipeline.topic
        done = self.tables.apply(cut, Work.of(note), self.newest)
        watch.done("apply")
        if settled is not None:
            self._held.settle(settled, identity, [topic(table) for table in done.stopped])
        applied = [one.read_by_spark(read.left.get(topic(one.table))) for one in done.applied]
        return Done(applied, done.stopped, rejects)

    def _entry(
        self, seen: InForce, read: Reading, decided: Decided, done: Done, *, late: bool
    ) -> Entry:
        """The manifest's row of a batch, but for what its time was spent on."""
        note, counts = seen.note, read.counts
        touched = list(offset_ranges.filled(note.ranges))
        names = next_entry.unnamed(self.newest, touched)
        made = next_entry.entry(
            self.newest,
            note,
            decided.facts,
            done.applied,
            touched,
            catalog=seen.catalog,
            topic_ids=self._log.topic_ids(names) if names else {},
            topic=self.pipeline.topic,
            waiting=counts.waiting,
            doubts=decided.doubts,
            stopped=done.stopped,
            hidden=read.hidden,
        )
        return replace(
            self._again.told_once(made),
            batch_id=note.batch_id + further_numbers(decided.cut.tables),
            term=self._committer.term,
            rejects=done.rejects,
            resent=counts.passed_over,
            remembered=counts.remembered,
            lanes=read.lanes,
            late=counts.changes if late else 0,
            kind="replay" if note.replay else "batch",
            state_rows=self.state_size[0],
            state_bytes=self.state_size[1],
        )

    def _follow_up(self, entry: Entry, aside: Spans) -> None:
        """What a crash may leave undone: the next start asks for the tables of all open gaps; offsets may lag."""
        self._again.say(entry, aside)
        self._again.ask(entry, aside)
        self._log.publish(entry.ends)
        reached("offsets_committed", entry.batch_id)
        self._report(BatchReport(entry, self.upkeep.maintenance.done()))
        self.upkeep.one()

    def finish(self, note: Note) -> None:
        """A batch by its note alone. One that was torn, too: some tables hold their part, the manifest has no row.

        Under its own identity and with its very ranges: what is there is skipped, what is missing added, also without a key.
        """
        if note.cleanup:
            name, below = note.cleanup
            self._settling.clean_up(Cleanup(TableId.parse(name), below), note=note)
        elif note.drop:
            self._drop(note, note.drop)
        elif note.fill:
            self.filling.finish(note)
        elif note.replay:
            self._replay(note)
            if self._next == note.batch_id:  # what it took can be read no more, or it took nothing
                self.publish(self.without_changes("replay"))
        else:
            self._work(SparkRecords(self._log.read), note)

    def replay(self) -> int:
        """Take in what waits in quarantine and can be applied by now; returns in how many batches."""
        before = self._next
        if self.newest is not None:
            self._replay(replace(self.note(), replay=True))
        return self._next - before

    def _replay(self, note: Note) -> None:
        waiting = self._held.records(note.batch_id, self._standing())
        if waiting is not None:
            self._work(SparkRecords(lambda _: waiting[0]), note, waiting[1])

    def show(self, table: TableId, since: Position, is_whole: Callable[[Reading], bool]) -> bool:
        """Take in what waits of a table with its snapshot, where that is whole; returns whether it is."""
        assert self.newest is not None
        ranges = hidden_snapshots.waiting(self.newest, self.pipeline.topic(table))
        note = replace(self.note(), ranges=ranges, whole=(str(table), since))
        self._work(SparkRecords(self._log.read), note, due=is_whole)
        return self._next > note.batch_id

    def drop(self, what: Drop) -> int:
        """Give up changes that wait in quarantine; returns how many."""
        return self._drop(replace(self.note(), drop=what), what) if self.newest else 0

    def _drop(self, note: Note, what: Drop) -> int:
        assert self.newest is not None
        role, text = Role.QUARANTINE, note.as_json()
        identity = self._identity(role, note.checkpoint_id, note.batch_id, text)
        known = {*map(TableId.parse, self.newest.tables), *self.definitions.streamed().versions}
        tables = {self.pipeline.topic(table): str(table) for table in known}
        return dropping.give_up(self, self._held, what, identity, tables)

    def clean_up(self, streaming: Position | None) -> None:
        """What takes effect between batches (``Settling.look``)."""
        self._settling.look(streaming)

    def ask_again(self, goes_on: Collection[str] = ()) -> None:
        """Have the tables of open gaps read again (``Settling.ask_again``)."""
        self._settling.ask_again(goes_on)

    def ensure_tables(self) -> None:
        """Create the lake's tables for source tables that have a key but no row yet."""
        standing = self.tables.standing(self.newest)
        self._applier.create_missing(self.definitions.readable()[0], standing)

    def barred(self) -> frozenset[str]:
        """Tables that a policy holds before a DDL, by what the lake has applied."""
        _, barriers = self.definitions.governed(self.newest)
        return frozenset(map(str, barriers))

    def rewind(self, entry: Entry) -> None:
        """Publish where topics go on from now, without any change. ``entry``: under its own number, where that is beyond
        the newest one's.
        """
        number = max(self._next, entry.batch_id)
        self.publish(entry.without_changes("rewind", number, self._committer.term))

    def publish(self, entry: Entry, readers: Mapping[str, str] | None = None) -> None:
        """Write the manifest's next row. ``readers``: as ``Reading`` has them."""
        entry = next_entry.without_old_gaps(entry, self.newest)
        self._published.add(
            entry, self._identity(Role.MANIFEST, entry.checkpoint_id, entry.batch_id)
        )
        before, self.newest = self.newest, entry
        self._tell(Published(before, entry, readers or {}))

    def note(self) -> Note:
        """Of a batch without records: the next number, under the checkpoint's id."""
        return Note(self._next, self.checkpoint_id)

    def without_changes(self, kind: Kind) -> Entry:
        """The newest entry once more, with the next number."""
        assert self.newest is not None
        return self.newest.without_changes(kind, self._next, self._committer.term)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _standing(self, but: str = "") -> frozenset[str]:
        """Topics of tables that stand still, but for one table: what is theirs stays where it is."""
        found = (table for table in self.tables.standing(self.newest) if str(table) != but)
        return frozenset(map(self.pipeline.topic, found))

    @property
    def _next(self) -> int:
        return (self.newest.batch_id if self.newest else 0) + 1

    def _identity(self, role: Role, checkpoint: str, batch_id: int, note: str = "") -> Identity:
        app = app_id(self.pipeline.name, checkpoint, INTERNAL_FOLDER, role)
        return Identity(app, batch_id, 0, note)
