"""Tables of which it is not certain what they hold: told, and asked for again where that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.batch.record_reader import Reading
from ingest.changes.restarted_snapshots import Cleanup
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Binlog
from ingest.model import position_ties
from ingest.model.manifest import Entry, Gap, TableState
from ingest.model.position import Position
from ingest.model.position_ties import Doubt
from ingest.model.topics import TableId, captured
from ingest.schema.set_aside import Spans
from ingest.source.resync import Request, Requests


@dataclass(frozen=True)
class Retaking:
    """Of one job."""

    pipeline: Pipeline
    requests: Requests
    binlog: Binlog

    def doubts(self, read: Reading, aside: Spans, previous: Entry | None) -> dict[TableId, Doubt]:
        """Tables that a batch leaves a gap in: by what MySQL says of changes at one place, by another server's, and
        by what cannot be read.
        """
        events = self.binlog.events({tie.position for tie in read.ties})
        gaps = previous.gaps if previous else ()
        known = {gap.table for gap in gaps if gap.is_open and not gap.by_hand}
        unread = {
            table: Doubt(aside[table][-1].why, position)
            for table, position in read.counts.unreadable.items()
            if str(table) not in known and captured([table], self.pipeline.source.tables)
        }
        return {
            **unread,
            **position_ties.torn(read.counts.torn),
            **position_ties.doubts(read.ties, events),
        }

    def whole(self, request: Request, state: TableState | None) -> tuple[Cleanup, Position] | None:
        """What is to go once a table was read again, and up to where gaps close then; None until all of it is in
        Kafka.
        """
        if not self.requests.is_complete(request):
            return None
        # Without a first row nothing was read: the source's table is empty, and older rows go.
        begins, asked = state.reread if state else None, request.below
        if state and request.kind == "BLOCKING" and not self.requests.was_empty(request):
            # Its rows' own position; older ones went when they came. A gap behind it stays open.
            begins = asked = state.floor or request.below
        return Cleanup(TableId.parse(request.table), begins or request.below), asked

    def ask(self, gaps: Sequence[Gap], aside: Spans) -> None:
        """For the tables of all open gaps that can be read by now, unless that is asked for already. One that the
        pipeline file excludes stays as it is, as does one that nobody knows, and one of which a person gave changes up.
        """
        mended = [gap for gap in gaps if gap.is_open and not gap.by_hand]
        found = {table for gap in mended if (table := gap.of) is not None}
        lasting = {table for table, spans in aside.items() if any(span.lasts for span in spans)}
        taken = captured(found - lasting, self.pipeline.source.tables)
        self.requests.ask([str(table) for table in taken])

    def say(self, entry: Entry, aside: Spans) -> None:
        """What the batch has found out."""
        for gap in entry.gaps:
            if gap.since == entry.batch_id and gap.is_open:
                lasting = any(span.lasts for span in (aside.get(gap.of, ()) if gap.of else ()))
                then = "set aside, the others go on" if lasting else "taking the table again"
                self.requests.say(f"{gap.table}: {gap.reason}; {then}")
