"""Taking a table again, by a snapshot that Debezium makes while the others go on.

The request goes through a Kafka topic, so nothing is ever written to the source: beyond the grants
of the pipeline (SELECT on the table) it needs GTIDs there. A table with a key is read in chunks
between two marks of the log (an incremental snapshot); its old rows stay readable, and those that
the source no longer has go at the end. Of one that has joined later the connector reads the definition before, which it
does in a blocking snapshot alone: one of no rows. A table without a key is read in one go, during which the
connector streams nothing (a blocking snapshot).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pymysql.cursors import Cursor

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.files.storage import Files, files_at
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.epochs import newest_number
from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import Entry
from ingest.model.names import resync_path
from ingest.model.position import Position
from ingest.model.reasons import NO_KEY
from ingest.model.topics import TableId
from ingest.schema import snapshot_select
from ingest.source import later_tables, mysql, resync_signal
from ingest.source.absent_tables import AbsentTables
from ingest.source.epoch_registry import EpochRegistry
from ingest.source.left_out import LeftOut
from ingest.source.read_moments import ReadMoments
from ingest.source.resync_request import Request
from ingest.source.resync_signal import notification_topic
from ingest.source.snapshot_notices import SnapshotNotices

SEND_AGAIN_AFTER = 45.0
"""Seconds without a sign that the connector has begun: it reads requests from the topic's end, so one
that was sent while it was away is lost."""


def request(
    pipeline: Pipeline,
    tables: Sequence[str],
    say: Callable[[str], None],
    requests: Requests | None = None,
    *,
    anew: bool = False,
) -> list[Request]:
    """Ask for these tables; the running job (or the next) brings it to its end. ``anew``: the connector is to read
    their definitions from MySQL, too, which it does in a blocking snapshot alone.
    """
    newest = Ledger(pipeline.lake.path).last()
    states = newest.tables if newest else {}
    with mysql.connected(pipeline.source) as cursor:
        _refuse_without_gtids(pipeline)
        named = [TableId.parse(name) for name in tables]
        joined = later_tables.untold_in(newest)
        joined.update(later_tables.TakenBefore(pipeline).joining(named))
        # Such a name goes into no condition, and without one a blocking snapshot reads all rows.
        whole = {t for t in joined if snapshot_select.listed(t) is None}
        own = mysql.own_selects(cursor)
        selects = {t: snapshot_select.statement(t, own[t]) for t in named if t in own}
        keys = {t: mysql.primary_key(cursor, t) for t in named}
        whys = {t: _why_blocking(keys[t], anew=anew or t in whole, marked=t in own) for t in named}
        epoch = newest_number(EpochRegistry(pipeline).known())
        places = [at for t in named for at in settled(newest, t)]
        below = _end(cursor, epoch)
        if joined or any(whys.values()) or is_quiet(places, below):
            mysql.rotate_log(cursor)
            below = _end(cursor, epoch)
        place = (notification_topic(pipeline), 0)
        heard = broker.end_offsets(pipeline, [place[0]]).get(place, 0)
        made = [
            Request(
                f"resync-{uuid.uuid4().hex[:12]}",
                str(table),
                "BLOCKING" if why else "INCREMENTAL",
                below,
                heard,
                selects.get(table, ""),
                time.time(),
                newest.batch_id if newest else 0,
                states[str(table)].snapshot if str(table) in states else None,
                untold=table in joined and not why,
            )
            for table, why in whys.items()
        ]
    requests = requests or Requests(pipeline)
    busy = any(not one.blocks for one in requests.open())
    for one in made:
        requests.add(one)
        beside = _WITH_DEFINITION if one.untold else _INCREMENTAL
        say(f"{one.table}: asked for {whys[TableId.parse(one.table)] or beside}")
    blocking = any(one.blocks for one in made)
    requests.send([one for one in made if one.blocks or not (busy or blocking)])
    return made


def _end(cursor: Cursor, epoch: int) -> Position:
    end = mysql.reached(cursor)
    return Position(epoch, end.file, end.pos)


def settled(newest: Entry | None, table: TableId) -> list[Position]:
    """Places of a table that rows must stand behind: to be taken, to close its gaps, and to be told from those of the snapshot
    before.
    """
    state = newest.tables.get(str(table)) if newest else None
    open_gaps = [gap for gap in newest.gaps if gap.is_open and gap.of == table] if newest else []
    own = [state.floor, state.snapshot] if state else []
    return [at for at in [*own, *(gap.position for gap in open_gaps)] if at]


_HARDLY_ANYTHING = 256
"""Bytes of a binlog. On a quiet server places were seen to stand 36 before its end, and 71 in a new file (126 of 197), more where it
begins with the numbers of many servers. A file too many costs nothing.
"""


def is_quiet(places: Sequence[Position], end: Position) -> bool:
    """True where next to nothing was written behind such a place. The rows of an incremental snapshot may then carry the place
    of an event before it, be passed over as older ones, and be asked for again without end.
    """
    behind = replace(end, pos=end.pos - _HARDLY_ANYTHING)
    return any(behind <= at for at in places)


def _why_blocking(key: tuple[str, ...], *, anew: bool, marked: bool) -> str:
    """What is asked for, where it has to be a blocking snapshot; empty where an incremental one does."""
    why = {
        "with its definition": anew,
        f"as {NO_KEY.of()}": not key,
        "as it has labels of the binary character set, which Debezium reads in no other": marked,
    }
    reasons = [reason for reason, holds in why.items() if holds]
    return f"a blocking snapshot, {reasons[0]}; {_WAITS}" if reasons else ""


_WAITS = "the stream waits while it is read"
_WITH_DEFINITION = "its definition, then an incremental snapshot beside the stream"
_INCREMENTAL = "an incremental snapshot; its rows stay readable until the new ones are whole"


def is_possible(pipeline: Pipeline) -> bool:
    """True where tables can be taken again while the others go on."""
    return mysql.server_facts(pipeline.source).gtid_mode == "ON"


def _refuse_without_gtids(pipeline: Pipeline) -> None:
    if not is_possible(pipeline):
        raise IngestError(
            "E-RESYNC-GTID",
            _NO_GTIDS,
            remedy=_ALL,
            exit_code=Exit.REFUSED,
        )


_NO_GTIDS = "A table can be taken again while the others go on only where MySQL has GTIDs."
_ALL = "set gtid_mode=ON, or take everything again with `ingest resync FILE --all`."


@dataclass
class Requests:
    """Open requests, kept in the lake, and what the connector says of them."""

    pipeline: Pipeline
    say: Callable[[str], None] = lambda _: None
    keep: Callable[[Sequence[TableId]], bool] = lambda _: True
    """Has the connector keep what it has read of tables' definitions; False while it cannot."""
    absent: AbsentTables = field(init=False)
    moments: ReadMoments = field(init=False)
    _impossible: set[str] = field(default_factory=set)
    """Tables of which it was said that they cannot be taken again."""
    _kept: set[str] = field(default_factory=set)
    _sent: dict[str, float] = field(default_factory=dict)
    _said: SnapshotNotices = field(default_factory=SnapshotNotices)
    _active: set[str] = field(default_factory=set)
    _consumer: Consumer | None = None
    _untaken: int = 0
    """The first notification that was not taken in yet."""

    def __post_init__(self) -> None:
        self.absent = AbsentTables(self.pipeline, self.say)
        self.moments = ReadMoments(self.pipeline)

    def ask(self, tables: Sequence[str], *, anew: bool = False) -> None:
        """Take these tables again (``anew``: :func:`request`), unless that is asked for already, or the connector has
        nothing of them to read (``LeftOut``), or MySQL has not.
        """
        left_out = LeftOut(self.pipeline).tables() if tables else {}
        asked = {*left_out, *(one.table for one in self.open())} if tables else set()
        missing = [table for table in tables if table not in asked]
        absent = self.absent.of(missing)
        if missing := [table for table in missing if table not in absent]:
            if is_possible(self.pipeline):
                request(self.pipeline, missing, self.say, self, anew=anew)
            else:
                self._say_impossible(missing)

    def _say_impossible(self, tables: Sequence[str]) -> None:
        """Once of each: its gap stays open, and the others go on."""
        if new := [table for table in tables if table not in self._impossible]:
            self._impossible.update(new)
            self.say(f"{', '.join(new)}: {_NO_GTIDS} {_ALL}")

    def add(self, one: Request) -> None:
        """Keep it until it is done."""
        self._files().write(f"{one.id}.json", one.as_json())

    def done(self, one: Request) -> None:
        """Forget it."""
        self._files().delete(f"{one.id}.json")

    def open(self) -> list[Request]:
        """Those that are not done, in order of name."""
        files = self._files()
        names = [name for name in files.names("") if name.endswith(".json")]
        return [Request.from_json(text) for name in names if (text := files.read(name))]

    def send(self, asked: Sequence[Request]) -> None:
        """Put them into the signal topic, those of a kind as one signal: Debezium takes its tables one
        after the other, and their rows come together.
        """
        if not asked:
            return
        resync_signal.put(self.pipeline, asked)
        self._sent.update(dict.fromkeys((one.id for one in asked), time.monotonic()))

    def look(self) -> list[Request]:
        """The open ones, after taking in what the connector has said of them. One signal for incremental
        snapshots is sent after the other: while one is worked on, Debezium calls all it does by the name
        of the newest. None is sent again while a blocking one is open: both read by one connection of Debezium's, and
        where they begin together one of them is given up. One that it seems not to have heard, or that it gave up, is
        sent again, unless MySQL has no such table any more: that one is waited for no longer.
        """
        found = self.open()
        if found:
            self._read()
            self.moments.heard(
                {one.id: at for one in found if (at := self._said.read_from(one)) >= 0}
            )
            self._keep_definitions(found)
            found = [self._told(one) for one in found]
        here = [one for one in found if not self.is_gone(one)]
        blocking = [one for one in here if one.blocks and not self.is_complete(one)]
        # While one is under way the others wait in Debezium's queue: sent again, they would be read once more each.
        unheard = blocking if self._said.begun < 0 else []
        for one in unheard:  # the next of those that were sent may be about to begin
            self._sent[one.id] = max(self._sent_at(one), self._said.ended)
        self._send_if_due(unheard, follows=False)
        pending = [one for one in here if not one.blocks]
        left = [one for one in pending if not self.is_complete(one)]
        begun = [one for one in left if self._said.is_started(one)]
        if begun:  # the others are in no signal that is still to come
            for one in left:
                if one not in begun:
                    self._sent.pop(one.id, None)
        elif not blocking:
            follows = len(left) < len(pending) or not self._active <= {one.id for one in left}
            self._send_if_due(self._held_back(left, pending), follows=follows)
        self._active = {one.id for one in begun or left}
        return found

    def _keep_definitions(self, found: Sequence[Request]) -> None:
        """Before anything is made of it that a blocking snapshot has read a table."""
        read = [one for one in found if one.blocks and self._said.is_scanned(one)]
        new = [one for one in read if one.id not in self._kept]
        if new and self.keep([TableId.parse(one.table) for one in new]):
            self._kept.update(one.id for one in new)

    def _told(self, one: Request) -> Request:
        """The same, to be asked for its rows once the connector has read its definition. A crash before that is kept costs
        nothing: the notifications are read again. On a quiet server the rows would carry a place a few bytes before that of the
        definition, and be read by no definition or an older one (seen); so they get a binlog file of their own.
        """
        if not one.untold or not self._is_scanned(one):
            return one
        self._rotate_log()
        self._sent.pop(one.id, None)
        told = replace(one, untold=False, sent=0.0)
        self.add(told)
        return told

    def _held_back(self, left: Sequence[Request], pending: Sequence[Request]) -> Sequence[Request]:
        """Those that are ``left``, but for tables that were given up while one is about to be asked for anew because of such a table: tried
        in between, it would spoil that reading, too, and each further one.
        """
        if not any(self.is_complete(one) and self.holds_other_rows(one) for one in pending):
            return left
        return [one for one in left if not self._said.was_given_up(one)]

    def _next(self, left: Sequence[Request]) -> Sequence[Request]:
        """Those that one signal is to carry: one whose table was given up goes alone. First what has not begun yet, which is read before
        another table is given up once more; then whose turn was longest ago, so that none that fails each time keeps others away.
        """
        alone = [[one] for one in left if self._said.was_given_up(one)]
        together = [one for one in left if not self._said.was_given_up(one)]
        turns = [*alone, *([together] if together else [])]

        def turn(some: Sequence[Request]) -> tuple[bool, float]:
            return all(map(self._said.has_begun, some)), min(map(self._sent_at, some))

        return min(turns, key=turn, default=[])

    def _send_if_due(self, left: Sequence[Request], *, follows: bool) -> None:
        """Whoever asked has sent the first; what ``follows`` it is ours to send. Not while any of those that are ``left`` may be about
        to begin: two signals at once are both called by the name of the second.
        """
        now = time.monotonic()
        at_once = follows and all(one.id not in self._sent for one in left)
        waited = [now - self._sent_at(one) for one in left]
        if at_once or min(waited, default=0.0) > SEND_AGAIN_AFTER:
            asked = self._next(left)
            gone = self.absent.of(one.table for one in asked)
            here = [one for one in asked if one.table not in gone]
            self.send(here)
            for one in here:
                self.add(replace(one, sent=time.time()))

    def _sent_at(self, one: Request) -> float:
        """By the monotonic clock; by an earlier process, perhaps. Runs with ``--once`` are shorter than the wait: were it
        begun anew by each, a request that the connector has not heard would never be sent again. A wall clock that
        was set costs another wait, or one snapshot too many.
        """
        now = time.monotonic()
        return self._sent.setdefault(one.id, now - max(0.0, time.time() - one.sent))

    def is_gone(self, one: Request) -> bool:
        """True where the table was not there when this was to be sent again, and the connector has not read all of it before."""
        return one.table in self.absent.known and not self.is_complete(one)

    def is_complete(self, one: Request) -> bool:
        """True when the connector has read all of the table."""
        if one.kind == "BLOCKING":
            return self._is_scanned(one)
        return self._said.is_read(one)

    def _is_scanned(self, one: Request) -> bool:
        """True once a blocking snapshot has read it since it was asked for, and its definition is kept."""
        return self._said.is_scanned(one) and one.id in self._kept

    def was_empty(self, one: Request) -> bool:
        """True when the connector has read all of the table and found no row."""
        return self._said.was_empty(one)

    def is_over(self, one: Request) -> bool:
        """True when the connector has read an incremental one's table, or given it up."""
        return self._said.is_over(one)

    def holds_other_rows(self, one: Request) -> bool:
        """True when rows of another table may stand among those that the connector has read of it (``snapshot_notices``)."""
        return self._said.holds_other_rows(one)

    def close(self) -> None:
        """Leave Kafka."""
        if self._consumer:
            self._consumer.close()
        self._consumer = None

    def _read(self) -> None:
        """What is new in the topic, which Kafka keeps for ``kafka.retention_hours``: what is gone by then was said of requests of before."""
        topic = notification_topic(self.pipeline)
        place = TopicPartition(topic, 0)
        try:
            if self._consumer is None:
                self._consumer = broker.client(self.pipeline, broker.FOLLOWING)
                if topic not in self._consumer.list_topics(timeout=10).topics:
                    self.close()
                    return
                first, _ = self._consumer.get_watermark_offsets(place, timeout=10)
                self._untaken = max(first, self._untaken)
                self._consumer.assign([TopicPartition(topic, 0, self._untaken)])
            for message in broker.unread(
                self._consumer, place, begun_at=self._untaken, passes_over=True
            ):
                if failure := message.error():
                    raise KafkaException(failure)
                offset = message.offset() or 0
                if said := message.value():
                    self._said.take(json.loads(said), offset, time.monotonic())
                self._untaken = offset + 1
        except KafkaException:
            self.close()  # begun anew by the next look; nothing depends on when

    def _rotate_log(self) -> None:
        with mysql.connected(self.pipeline.source) as cursor:
            mysql.rotate_log(cursor)

    def _files(self) -> Files:
        return files_at(resync_path(self.pipeline.lake.path))
