"""Tables of which it is not certain what they hold: told, and asked for again where that helps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ingest.batch.record_reader import Reading
from ingest.batch.table_definitions import InForce
from ingest.changes import restarted_snapshots
from ingest.changes.restarted_snapshots import Cleanup
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Binlog
from ingest.model import position_ties, reasons
from ingest.model.manifest import Entry
from ingest.model.only_by_hand import only_by_hand, told_once
from ingest.model.position import Position
from ingest.model.position_ties import Doubt
from ingest.model.topics import TableId, captured
from ingest.schema.set_aside import Span, Spans
from ingest.source.resync import Requests
from ingest.source.resync_request import Request


@dataclass(frozen=True)
class Outcome:
    """A table was read again: what is to go, and where its rows begin, up to which gaps close then. ``void``: what was read says
    nothing of the table any more, so that nothing goes and no gap closes.
    """

    cleanup: Cleanup
    begins: Position
    void: bool = False


@dataclass(frozen=True)
class Retaking:
    """Of one job."""

    pipeline: Pipeline
    requests: Requests
    binlog: Binlog
    outlives: Callable[[TableId], bool] = lambda _: False
    """Whether the lake's copy of a table keeps rows that the source no longer has."""
    _known: dict[object, frozenset[str]] = field(default_factory=dict, compare=False)
    """As :meth:`_by_hand` has found it of the newest row that it was asked of: each look opens a table."""

    def doubts(self, read: Reading, seen: InForce, previous: Entry | None) -> dict[TableId, Doubt]:
        """Tables that a batch leaves a gap in: by what MySQL says of changes at one place, by another server's,
        by what cannot be read, and by readings that cannot be told to be whole.
        """
        events = self.binlog.events({tie.position for tie in read.ties})
        gaps = previous.gaps if previous else ()
        known = {gap.table for gap in gaps if gap.is_open and not gap.by_hand}
        untold = {gap.table for gap in gaps if gap.is_untold}
        unread = {
            table: Doubt(span.why, position)
            for table, position in read.counts.unreadable.items()
            # Where its definition has to be read first, only a gap that says so has that done.
            if str(table) not in (untold if (span := seen.aside[table][-1]).mends else known)
            and captured([table], self.pipeline.source.tables)
        }
        why = reasons.UNCERTAIN_READING.says
        return {
            **unread,
            **{table: Doubt(why, at) for table, at in self._uncertain(read, seen).items()},
            **position_ties.torn(read.counts.torn),
            **position_ties.doubts(read.ties, events),
        }

    def _uncertain(self, read: Reading, seen: InForce) -> dict[TableId, Position]:
        """By table, its newest place. What comes out of quarantine may be of a reading that a TRUNCATE has followed since."""
        found = {} if seen.note.replay else dict(read.counts.strays)
        for table, facts in read.facts.items():
            if (attempt := facts.attempt) is None:
                continue
            twice = attempt.twice and not facts.keys  # with a key the later state of a row wins
            if twice or restarted_snapshots.is_uncertain(attempt, seen.catalog, table):
                found[table] = facts.high
        return found

    def is_wiped(self, table: TableId) -> bool:
        """Whether a TRUNCATE takes the rows of a table without a key."""
        target = self.pipeline.target(table, keyed=False)
        ignored = "truncate" in self.pipeline.rules(table).ignores
        return not ignored and target.truncated(Position(0, 0, 0)) is not None

    def outcome(self, request: Request, newest: Entry, aside: Spans) -> Outcome | None:
        """What has come of taking a table again; None until all of it is in Kafka, or nothing of it will be. ``aside``: where what
        was read could not be taken in.
        """
        table, state = TableId.parse(request.table), newest.tables.get(request.table)
        void = Outcome(Cleanup(table, request.below), request.below, void=True)
        newer = [gap for gap in newest.gaps if gap.makes_void(request.table, request.after)]
        gone = self.requests.is_gone(request)
        # Its rows cannot be read before its definition is, which is asked for anew; but not while the connector is at it.
        untold = not request.blocks and any(gap.is_untold for gap in newer)
        over = gone or (untold and self.requests.is_over(request))
        if not (over or self.requests.is_complete(request)):
            return None
        if gone or newer:
            return void
        empty = self.requests.was_empty(request)
        if state and request.kind == "BLOCKING" and not empty:
            # Its rows' own position; older ones went when they came. A gap behind it stays open.
            begins = state.floor or request.below
            unread = state.hidden is None and _is_unread(aside.get(table, ()), begins)
            return void if unread else Outcome(Cleanup(table, begins), begins)
        first = state.reread if state else None
        if first is None and not empty and (state is None or state.snapshot != request.snapshot):
            # Rows were read, and none of them is known of: they were settled before a crash, or came to nothing. That
            # the source had none is the last thing it says.
            return void
        # Without a first row the source's table is empty, or each row was changed while it was read: older rows go.
        begins = first or request.below
        if _is_unread(aside.get(table, ()), begins):
            return void
        # Debezium gives a chunk's rows the place at which the stream has passed the chunk's end, and leaves out those that
        # were changed meanwhile: they come by the stream alone, at places before that. All of these are behind the request.
        return Outcome(Cleanup(table, min(begins, request.below)), begins)

    def ask(self, entry: Entry, aside: Spans, goes_on: Collection[str] = ()) -> None:
        """For the tables of all open gaps that can be read by now, unless that is asked for already. One that the
        pipeline file excludes stays as it is, as does one that nobody knows, one of which a person gave changes up, and one
        that only a person has taken again. ``goes_on``: tables of which a request came to nothing: whoever made it wants it still.
        """
        left = self._by_hand(entry) - {*goes_on}
        mended = [gap for gap in entry.gaps if gap.is_open and not gap.by_hand]
        found = {table for gap in mended if (table := gap.of) and gap.table not in left}
        lasting = {table for table, spans in aside.items() if any(span.lasts for span in spans)}
        taken = captured(found - lasting, self.pipeline.source.tables)
        self.requests.ask([str(table) for table in taken])

    def told_once(self, entry: Entry) -> Entry:
        """A batch's row without what it repeats of gaps that may stay open for long."""
        return told_once(entry, self._by_hand(entry))

    def _by_hand(self, entry: Entry) -> frozenset[str]:
        hidden = frozenset(name for name, state in entry.tables.items() if state.hidden)
        of = (entry.batch_id, tuple(entry.gaps), hidden)
        if of not in self._known:
            found = only_by_hand(entry, self.outlives)
            self._known.clear()
            self._known[of] = found
        return self._known[of]

    def say(self, entry: Entry, aside: Spans) -> None:
        """What the batch has found out."""
        for gap in entry.gaps:
            if gap.since == entry.batch_id and gap.is_open:
                left = self._by_hand(entry)
                lasting = any(span.lasts for span in (aside.get(gap.of, ()) if gap.of else ()))
                then = "set aside, the others go on" if lasting else "taking the table again"
                then = reasons.BY_A_PERSON if gap.table in left else then
                self.requests.say(f"{gap.table}: {gap.reason}; {then}")


def _is_unread(aside: Sequence[Span], begins: Position) -> bool:
    """Whether rows that were read from a place on, or changes behind them, could not be taken in: what is absent from what was is not
    absent from the source.
    """
    return any(span.end is None or span.end > begins for span in aside)
