"""What takes effect between batches, once everything before it is applied.

A DDL that no change of its table has followed; rows that a snapshot which began again did not find any more; a table
that was read again. Each waits for a position: the connector must have streamed beyond it (so all of it is in Kafka),
and the lake must hold what the topic held then.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ingest.batch.doubtful_tables import Retaking
from ingest.batch.hidden_snapshots import Hidden, Shows
from ingest.batch.table_applier import Applier, Work
from ingest.batch.table_definitions import Definitions
from ingest.batch.topic_end import Awaited
from ingest.changes import restarted_snapshots
from ingest.changes.restarted_snapshots import Cleanup
from ingest.lake.manifest import next_entry
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, Kind
from ingest.model.position import Position
from ingest.model.reasons import Reason
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl_policy, pending_ddl
from ingest.source.definition_check import SecondLook
from ingest.source.later_tables import LaterTables
from ingest.source.resync import Requests
from ingest.source.resync_request import Request


class Spine(Shows, Protocol):
    """What is asked of the batches (``micro_batch.Batches``)."""

    @property
    def newest(self) -> Entry | None:
        """The manifest's newest entry."""

    def note(self) -> Note:
        """Of a batch without records: the next number, under the checkpoint's id."""

    def without_changes(self, kind: Kind) -> Entry:
        """The newest entry once more, with the next number."""

    def publish(self, entry: Entry) -> None:
        """Write the manifest's next row."""

    def rewind(self, entry: Entry) -> None:
        """Publish where topics go on from now, and which gaps there are."""

    def finish(self, note: Note) -> None:
        """Do a batch of this note."""

    def replay(self) -> int:
        """Take in what waits in quarantine and can be applied by now."""


class Settling:
    """Of one job. Every method may be called again after a crash: what is done already is found done."""

    def __init__(
        self,
        spine: Spine,
        applier: Applier,
        definitions: Definitions,
        awaited: Awaited,
        requests: Requests,
        again: Retaking,
        second_look: SecondLook | None,
        later: LaterTables | None = None,
    ) -> None:
        self._spine = spine
        self._applier = applier
        self._definitions = definitions
        self._awaited = awaited
        self._requests = requests
        self._again = again
        self._second_look = second_look
        self._later = later
        self._hidden = Hidden(spine, definitions, awaited, requests, again.is_wiped)

    def look(self, streaming: Position | None) -> None:
        """Do what has become due. ``streaming``: the newest position that the connector is known to have streamed; a
        snapshot below it is complete in Kafka.
        """
        if self._second_look and streaming:
            self._second_look.look(self._definitions.streamed(), streaming, self._requests)
        if self._later and streaming:
            self._name_joined(self._later, streaming)
        if (newest := self._spine.newest) is None:
            return
        known = [streaming, *(mark.position for mark in newest.high_water.values())]
        streamed = max((position for position in known if position), default=None)
        requests = self._requests.look()
        self._read_again(self._among_others(requests, newest, streamed), reasons.AMONG_OTHERS)
        newest = self._newest
        if streamed is not None:
            self._follow_ddl(newest, streamed, requests)
        for cleanup in restarted_snapshots.awaited(self._definitions.known(), newest.tables):
            if restarted_snapshots.lost_rows(cleanup, newest.gaps):
                continue  # what it does not contain may be what Kafka lost of it; the table is taken again
            if restarted_snapshots.is_complete(cleanup, streamed) and self._is_applied(cleanup):
                self.clean_up(cleanup)
        self._hidden.look(newest, streamed, requests)
        self._read_again(self._hidden.to_ask_again(), reasons.CHANGED_WHILE_READ)
        for request in requests:
            if self._complete(request):
                self._spine.replay()  # what waited for the table is void by now, or free to go on
        if streaming and self._requests.absent.came_back():
            self.ask_again()

    def _name_joined(self, later: LaterTables, streaming: Position) -> None:
        """Gaps of tables that have joined. They are published before anything else: from there on a crash loses nothing, and
        who looks sees that rows are missing.
        """
        looked = later.look(self._definitions.streamed(), streaming, self._spine.newest)
        if looked is None:
            return
        entry = self._spine.newest or next_entry.before_the_first(self._spine.note().checkpoint_id)
        number = self._spine.note().batch_id
        gaps = looked.gaps(entry, number, self._again.pipeline.topic)
        if gaps != entry.gaps:
            self._spine.rewind(replace(entry, gaps=gaps))
            for table in looked.joined:
                self._requests.say(f"{table}: {looked.why(table)}")
        void = [r for r in self._requests.open() if r.table in looked.void] if looked.void else []
        for request in void:
            self._requests.done(request)
        later.published(looked, self._spine.newest)
        self.ask_again({request.table for request in void})

    def _among_others(
        self, requests: Sequence[Request], newest: Entry, streamed: Position | None
    ) -> dict[TableId, Position]:
        """Tables among whose rows those of another may stand, by where they may. The rows may still be on their way: the request
        is open until the connector has read all, so that what is asked for anew is read behind them, and removes them.
        """
        found = {}
        for one in requests:
            told = any(gap.makes_void(one.table, one.after) for gap in newest.gaps)
            if not told and self._requests.holds_other_rows(one):
                found[TableId.parse(one.table)] = max(streamed or one.below, one.below)
        return found

    def _read_again(self, tables: Mapping[TableId, Position], reason: Reason) -> None:
        """Gaps by which what was read of these, up to these places, is void, and asked for anew."""
        for table, known in tables.items():
            entry, number = self._newest, self._spine.note().batch_id
            why, place = reason.says, (self._again.pipeline.topic(table), 0)
            at = entry.ends.get(place, 0)
            gap = Gap(str(table), *place, at, at, why, number, position=known)
            self._spine.rewind(replace(entry, gaps=(*entry.gaps, gap)))
            self._requests.say(f"{table}: {why}; it is read again")
        if tables:  # of one that nobody has asked for nothing else would ask, until the next batch
            self.ask_again()

    def _follow_ddl(self, newest: Entry, streamed: Position, requests: Sequence[Request]) -> None:
        catalog, barriers = self._definitions.governed(newest)
        ddl_policy.refuse(barriers)
        waiting = pending_ddl.pending(catalog, newest.tables, streamed, barriers)
        read = {request.table for request in requests if request.kind == "BLOCKING"}
        ready = {
            str(table): upto
            for table, upto in waiting.items()
            # Nor before the rows that it was read with: without a key they take the place of those of before.
            if not (str(table) in read and pending_ddl.is_of_a_snapshot(catalog, table, upto))
            and self._is_applied(Cleanup(table, upto))
        }
        if ready:
            self._spine.finish(replace(self._spine.note(), ddl=ready))

    def _complete(self, request: Request) -> bool:
        """A table that was read again: done once all that was read is in Kafka and applied."""
        outcome = self._again.outcome(request, self._newest, self._definitions.readable()[1])
        if outcome is None:
            return False
        if not outcome.void and self._hidden.is_under_way(request):
            return False
        read = replace(outcome.cleanup, below=request.below)
        state = self._newest.tables.get(request.table)
        # What waits of a request that is void is not shown, so it is not waited for: another one's rows come behind it.
        waits = not (outcome.void and state and state.hidden)
        if waits and not (self._is_applied(read) and self._is_applied(outcome.cleanup)):
            return False
        if not outcome.void and self._hidden.is_doubtful(request, self._newest):
            self._hidden.doubt(request, self._newest)
            return False
        if outcome.void:
            self._forget_rows_of(request)
        elif request.table not in self._newest.tables:
            self._close_gaps(outcome.cleanup, request)
        else:
            self.clean_up(outcome.cleanup, outcome.begins, asked_after=request.after)
        self._awaited.forget(read)
        self._requests.done(request)
        # A DDL that came after the request may have opened another gap; and one that the request is void by is open.
        self.ask_again({request.table} if outcome.void else ())
        return True

    def _forget_rows_of(self, request: Request) -> None:
        """Rows that were read for a void request begin no snapshot: the next one begins with its own."""
        state = self._newest.tables.get(request.table)
        if state is not None and state.reread is not None:
            entry = self._spine.without_changes("cleanup")
            tables = {**entry.tables, request.table: replace(state, reread=None, changes=0)}
            self._spine.publish(replace(entry, tables=tables))

    def clean_up(
        self,
        cleanup: Cleanup,
        begins: Position | None = None,
        note: Note | None = None,
        asked_after: int | None = None,
    ) -> None:
        """Remove the rows that a completed snapshot did not contain, and publish that. ``begins``: where the rows of that
        snapshot begin, where it was asked for; ``note``: of the attempt that a crash ended;
        ``asked_after``: see ``restarted_snapshots.closed``.
        """
        newest, name = self._newest, str(cleanup.table)
        note = note or replace(self._spine.note(), cleanup=(name, cleanup.below))
        started = time.monotonic()
        entry = self._spine.without_changes("cleanup")
        log = newest.tables[name].log
        applied = self._applier.clean_up(cleanup, Work.of(note), log)
        read_after = max(cleanup.below, begins or cleanup.below)
        settled = restarted_snapshots.settled(entry.tables[name], cleanup, read_after)
        after = replace(settled, version=applied.version, log=applied.log)
        gaps = restarted_snapshots.closed(newest.gaps, cleanup, asked_after)
        tables, seconds = {**entry.tables, name: after}, time.monotonic() - started
        self._spine.publish(replace(entry, tables=tables, gaps=gaps, seconds=seconds))
        self._awaited.forget(cleanup)

    def _close_gaps(self, cleanup: Cleanup, request: Request) -> None:
        """Of a table of which there is no row, here or at the source."""
        entry = self._spine.without_changes("cleanup")
        gaps = restarted_snapshots.closed(entry.gaps, cleanup, request.after)
        if gaps != entry.gaps:
            self._spine.publish(replace(entry, gaps=gaps))

    def ask_again(self, goes_on: Collection[str] = ()) -> None:
        """Have the tables of open gaps read again. ``goes_on``: as ``Retaking.ask`` has it."""
        if (newest := self._spine.newest) is not None:
            self._again.ask(newest, self._definitions.readable()[1], goes_on)

    @property
    def _newest(self) -> Entry:
        newest = self._spine.newest
        assert newest is not None
        return newest

    def _is_applied(self, cleanup: Cleanup) -> bool:
        state = self._newest.tables.get(str(cleanup.table))
        if state is not None and state.stopped:
            return False  # nothing may be done to it, though nothing of it waits
        return self._awaited.is_applied(cleanup, self._newest)
