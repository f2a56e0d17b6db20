"""Snapshots of tables without a key, which wait in Kafka until they are whole: their readers see the old rows, then the new ones.

Rows without a key cannot be told from older ones of the same content, so those of a snapshot that began again replace all
that is there, and applied batch by batch they would show a part. So they stay in Kafka, with all that comes behind them, and
are taken in together, in one batch, by one commit. Nothing of ours holds them meanwhile: a crash leaves a row of the
manifest that says from where a topic waits, and a start reads on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyspark.sql import functions as F

from ingest.batch.record_reader import Reading, ReadRequest
from ingest.batch.table_definitions import Definitions
from ingest.batch.topic_end import Awaited
from ingest.changes import dedup, restarted_snapshots
from ingest.changes.restarted_snapshots import Asked, Cleanup
from ingest.kafka.ports import Ranges
from ingest.model.manifest import Entry
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.steps import Attempt, TableFacts
from ingest.source.resync import Requests
from ingest.source.resync_request import Request

FIRST_PAUSE = 15.0
"""Seconds until a table that was changed while it was read for the second time is read again; twice as many each further time."""
LONGEST_PAUSE = 600.0


def begun(facts: Mapping[TableId, TableFacts], request: ReadRequest) -> dict[TableId, Position]:
    """Tables without a key of which a snapshot begins in this batch over rows that are there, and its place."""
    note = request.note
    states = request.previous.tables if request.previous else {}
    found = dict[TableId, Position]()
    for table, its in facts.items():
        attempt = restarted_snapshots.begins_again(its, states.get(str(table)))
        # What comes out of quarantine is of a snapshot that is applied.
        if attempt is None or note.replay or note.shows == str(table) or its.keys:
            continue
        version = request.catalog.at(table, attempt.position)
        if version is not None and not version.key:
            found[table] = attempt.position
    return found


def waiting(newest: Entry, topic: str) -> Ranges:
    """What of a topic is read and left in Kafka."""
    return {
        place: (min(end, newest.high_water[place].offset), end)
        for place, end in newest.ends.items()
        if place[0] == topic and place in newest.high_water
    }


NONE_COUNTS = Position(2**31 - 1, 0, 0)
"""No attempt at a snapshot counts: the table was found empty by the newest."""

_FOUND_EMPTY = Attempt("", Position(0, 0, 0))
"""What replaces nothing: what was there before such a snapshot goes as it does where none has waited (``Settling``)."""


def counting(facts: Mapping[TableId, TableFacts], note: Note) -> Mapping[TableId, TableFacts]:
    """The same facts, without an attempt at a snapshot that was given up and followed by one that brought no row."""
    if note.whole is None or (found := facts.get(TableId.parse(note.shows))) is None:
        return facts
    if found.attempt is None or found.attempt.position >= note.whole[1]:
        return facts
    return {**facts, found.table: replace(found, attempt=_FOUND_EMPTY)}


def is_whole(table: TableId, since: Position, *, certain: bool) -> Callable[[Reading], bool]:
    """Whether all of the newest snapshot is among what was read of a table that has waited. ``since``: before which no attempt
    counts; ``certain``: all of it was in Kafka before it was noted where the topic ended. Else its last row must be there.
    """

    def found(read: Reading) -> bool:
        facts = read.facts.get(table)
        if facts is None or certain or facts.attempt is None:
            return facts is not None and certain
        return facts.attempt.position < since or _has_last_row(read, facts.attempt)

    return found


def has_changed(read: Reading, attempt: Attempt, until: Position) -> bool:
    """Whether changes lie between a snapshot's place and ``until``, so that its rows may hold them already
    (``read_moments``). ``read``: of one table alone.
    """
    assert read.fresh is not None
    place = F.col("position")
    between = (place > dedup.literal(attempt.position)) & (place <= dedup.literal(until))
    return not read.fresh.filter(dedup.streamed() & between).isEmpty()


def _has_last_row(read: Reading, attempt: Attempt) -> bool:
    assert read.fresh is not None
    return not read.fresh.filter((F.col("reading") == attempt.run) & dedup.is_last()).isEmpty()


class Shows(Protocol):
    """What is asked of the batches (``micro_batch.Batches``)."""

    def show(self, table: TableId, since: Position, is_whole: Callable[[Reading], bool]) -> bool:
        """Take in what waits of a table with its snapshot, where that is whole; returns whether it is."""


@dataclass
class Hidden:
    """Of one job: snapshots that wait, and what is known of each."""

    spine: Shows
    definitions: Definitions
    awaited: Awaited
    requests: Requests
    wiped: Callable[[TableId], bool]
    """Whether a TRUNCATE takes the rows of a table: a policy may ignore it, and a target keep them."""
    _heard: dict[str, Position] = field(default_factory=dict)
    """By table that was asked for: what was known to be streamed when the connector was first known to have read it."""
    _certain: set[str] = field(default_factory=set)
    """Tables of which all was in Kafka when it was noted where their topic ends."""
    _tried: dict[str, object] = field(default_factory=dict)
    """By table: what was known when all that waits was last looked at, and not whole."""
    _exact: dict[str, str] = field(default_factory=dict)
    """By table: the reading that was asked for and is shown, and holds no change that came behind it."""
    _doubts: dict[str, int] = field(default_factory=dict)
    """By table: how often it was changed while it was read."""
    _again_at: dict[str, tuple[float, Position]] = field(default_factory=dict)
    """By such a table: when it is read again, and behind which place."""

    def look(self, newest: Entry, streamed: Position | None, requests: Sequence[Request]) -> None:
        """Take in what is whole. ``streamed``: the newest position that is known to be streamed."""
        for name, state in newest.tables.items():
            if state.hidden is not None:
                mine = [one for one in requests if one.table == name and one.kind == "BLOCKING"]
                self._look_at(newest, name, state.hidden, streamed, mine)

    def _look_at(
        self,
        newest: Entry,
        name: str,
        hidden: Position,
        streamed: Position | None,
        requests: Sequence[Request],
    ) -> None:
        table = TableId.parse(name)
        asked = [
            Asked(one.after, self.requests.is_complete(one), self.requests.was_empty(one))
            for one in requests
        ]
        pinned = max(self.definitions.known().snapshots(table), default=None)
        if not restarted_snapshots.may_be_whole(
            name, hidden, gaps=newest.gaps, streamed=streamed, asked=asked, pinned=pinned
        ):
            self._forget(name)
            return
        read = Cleanup(table, hidden)
        moments = [self.requests.moments.upper(one.id) for one in requests]
        heard = [at for at in moments if at is not None]
        if len(heard) < len(moments) or name in self._again_at:
            return
        newest_known = max(hidden, pinned or hidden)
        if not requests and not self._is_of_the_connector(table, newest_known):
            # Read for a request that is done, or void: nobody says when it is whole, nor as of which moment.
            self._doubt(name, hidden)
            return
        until = max(heard, default=None)
        if name not in self._certain and self._is_certain(name, streamed, asked):
            self._certain.add(name)
            self.awaited.forget(read)  # rows may have come since it was noted
        certain = name in self._certain
        known = (certain, newest.ends)
        if not self.awaited.is_read(read, newest) or self._tried.get(name) == known:
            return
        empty = bool(asked) and all(one.empty for one in asked)
        since = NONE_COUNTS if empty else pinned or Position(0, 0, 0)
        whole = is_whole(table, since, certain=certain)
        if self.spine.show(table, since, self._undoubted(table, whole, None if empty else until)):
            self._forget(name)
        else:
            self._tried[name] = known
        self.awaited.forget(read)

    def _undoubted(
        self, table: TableId, whole: Callable[[Reading], bool], until: Position | None
    ) -> Callable[[Reading], bool]:
        """The same, of one that was asked for only where nothing was changed while it was read; else it is asked for anew."""

        def found(read: Reading) -> bool:
            if not whole(read):
                return False
            if until is None or not self._is_changed(read, table, until):
                if until is not None and (attempt := read.facts[table].attempt):
                    self._exact[str(table)] = attempt.run
                self._doubts.pop(str(table), None)
                return True
            self._doubt(str(table), until)
            return False

        return found

    def _is_changed(self, read: Reading, table: TableId, until: Position) -> bool:
        facts = read.facts[table]
        attempt = facts.attempt
        if attempt is None or self._is_of_the_connector(table, attempt.position):
            return False
        wiped = any(place > attempt.position for place in facts.truncates)
        if wiped and self.wiped(table):
            return False  # none of its rows stays
        uncertain = restarted_snapshots.is_uncertain(attempt, self.definitions.known(), table)
        return attempt.twice or uncertain or has_changed(read, attempt, until)

    def doubt(self, request: Request, newest: Entry) -> None:
        """Have its table read again, of which the rows are applied already (:meth:`is_doubtful`)."""
        if request.table not in self._again_at:
            self._doubt(request.table, newest.tables[request.table].position or request.below)

    def _doubt(self, name: str, until: Position) -> None:
        """At once the first time; each further reading, during which nothing is streamed, after twice the pause."""
        times = self._doubts[name] = self._doubts.get(name, -1) + 1
        pause = FIRST_PAUSE * 2 ** (times - 1) if times else 0.0
        self._again_at[name] = (time.monotonic() + min(pause, LONGEST_PAUSE), until)

    def to_ask_again(self) -> dict[TableId, Position]:
        """Tables of which what was read is of no use, and which it is time to read once more, behind these places."""
        now = time.monotonic()
        due = {name: place for name, (at, place) in self._again_at.items() if now >= at}
        for name in due:
            del self._again_at[name]
            self._forget(name)
        return {TableId.parse(name): place for name, place in due.items()}

    def is_under_way(self, request: Request) -> bool:
        """Whether changes that its rows may hold already are not all in Kafka: before that nothing is known of them."""
        return self._has_moment(request) and self.requests.moments.upper(request.id) is None

    def _has_moment(self, request: Request) -> bool:
        """Whether it has brought rows that are of one moment, behind the place that they carry."""
        return request.kind == "BLOCKING" and not self.requests.was_empty(request)

    def _is_of_the_connector(self, table: TableId, place: Position) -> bool:
        """Whether the connector began a snapshot there of itself: that one's rows are of just that place. Of one that was asked
        for the schema topic has records that call themselves streamed.
        """
        own = self.definitions.known().snapshots(table)
        return (place.epoch, place.file, place.pos) in {(p.epoch, p.file, p.pos) for p in own}

    def is_doubtful(self, request: Request, newest: Entry) -> bool:
        """Whether a table without a key that was not hidden, as it had no rows to show before, was changed since the place of
        its rows: whether they hold these changes already nobody knows. ``request``: whose rows are applied.
        """
        state = newest.tables.get(request.table)
        if not self._has_moment(request) or state is None or state.floor is None or state.hidden:
            return False
        table = TableId.parse(request.table)
        version = self.definitions.known().at(table, state.floor)
        if version is None or version.key or self._is_of_the_connector(table, state.floor):
            return False
        # Not by the place of all its changes: of the rows of one reading some may stand behind the others.
        topic = self.requests.pipeline.topic(table)
        marks = [mark.position for place, mark in newest.high_water.items() if place[0] == topic]
        changed = any(mark is not None and mark > state.floor for mark in marks)
        return changed and self._exact.get(request.table) != state.run

    def _is_certain(self, name: str, streamed: Position | None, asked: Sequence[Asked]) -> bool:
        """Of one that was asked for the connector says that it has read it as soon as the rows are in its own queue, and
        they have the very place that was streamed up to before. What it streams afterwards comes behind them.
        """
        if not asked or streamed is None:
            return not asked
        return streamed > self._heard.setdefault(name, streamed)

    def _forget(self, name: str) -> None:
        self._heard.pop(name, None)
        self._tried.pop(name, None)
        self._certain.discard(name)
