"""What ends the taking of a table again: a request that is older than what Kafka lost says nothing of the table."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.batch.doubtful_tables import Retaking
from ingest.batch.settling import Settling
from ingest.batch.topic_end import Awaited
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.position import PART_REREAD, Position
from ingest.model.start_facts import KafkaFacts, Note
from ingest.schema.catalog import Catalog
from ingest.schema.set_aside import Span
from ingest.schema.steps import Applied
from ingest.source.later_tables import Looked
from ingest.source.resync_request import Request
from ingest.start.start_decision import decide
from tests.support.binlog import PlainLog
from tests.support.declared_tables import CREATE, T, catalog, column, record
from tests.support.sound_start import IDLE, PLACE, TABLE, entry, facts
from tests.unit.source.wire import INITIAL, Wire, pipeline_of_d, said

BELOW = Position(0, 3, 400)
"""Where MySQL's log ended when the table was asked for, while the job was down."""
READ = Position(0, 3, 410, part=PART_REREAD)
RETENTION = {PLACE: KafkaFacts(15, 20, "T"), IDLE: KafkaFacts(0, 4, "I")}


class Asking(Wire):
    """Requests that ask nobody for tables, and note which are asked for."""

    def __init__(self, pipeline, lake):
        super().__init__(pipeline)
        self.lake, self.asked = lake, []
        self.moments = SimpleNamespace(heard=lambda _: None, upper=lambda _: BELOW)

    def ask(self, tables, *, anew=False):
        open_ = {one.table for one in self.open()}
        for table in tables:
            if table not in open_:
                self.asked.append(table)
                after = self.lake.newest.batch_id
                state = self.lake.newest.tables.get(table)
                self.add(asked(f"resync-{after}", after=after, snapshot=state and state.snapshot))


def asked(id_, **more):
    return Request(id_, "d.t", more.pop("kind", "INCREMENTAL"), BELOW, sent=time.time(), **more)


class Later:
    """A look at MySQL's tables that finds what a test says."""

    def __init__(self):
        self.found, self.open = [], None

    def look(self, catalog, streaming, newest):
        return self.found.pop(0) if self.found else None

    def published(self, looked, newest):
        self.open = [gap.table for gap in newest.gaps if gap.is_incomplete]


class Lake:
    """The batches of a job, of which no row is written: what is published, and which rows were to go."""

    def __init__(self, root, newest, known=None, *, outlives=False):
        self.newest, self.removed, self.shown = newest, [], []
        pipeline = pipeline_of_d(root)
        self.catalog, self.aside = known or Catalog(), {}
        self.requests = Asking(pipeline, self)
        again = Retaking(pipeline, self.requests, PlainLog(), lambda _: outlives)
        ends = Awaited(lambda table: self.newest.ends)
        tables = SimpleNamespace(
            known=lambda: self.catalog,
            governed=lambda newest: (Catalog(), {}),
            readable=lambda: (self.catalog, self.aside),
            streamed=lambda: self.catalog,
        )
        self.later = Later()
        self.settling = Settling(self, self, tables, ends, self.requests, again, None, self.later)

    def note(self):
        return Note(self.newest.batch_id + 1, "abc")

    def without_changes(self, kind):
        return self.newest.without_changes(kind, self.newest.batch_id + 1, 1)

    def publish(self, published):
        self.newest = published

    def rewind(self, entry):
        self.publish(entry.without_changes("rewind", self.note().batch_id, 1))

    def replay(self):
        return 0

    def show(self, table, since, is_whole):
        self.shown.append(str(table))
        return False

    def clean_up(self, cleanup, work, log=None):
        self.removed.append(cleanup.below)
        return Applied(cleanup.table, "/l/d/t", 9, 0)

    def start(self, **more):
        """As a start decides it: this is the row that it writes."""
        decision = decide(facts(newest=self.newest, history=[self.newest], **more))
        self.publish(decision.entry.without_changes("rewind", decision.entry.batch_id, 1))
        self.settling.ask_again()

    def come(self, **state):
        """A batch that leaves the table so."""
        tables = {"d.t": replace(self.newest.tables["d.t"], **state)}
        self.publish(replace(self.newest, batch_id=self.newest.batch_id + 1, tables=tables))

    def hear(self, *notifications):
        self.requests.notifications += notifications
        self.settling.look(None)

    @property
    def open_gaps(self):
        return [gap.reason for gap in self.newest.gaps if gap.is_open]


def read_whole(id_, status="SUCCEEDED"):
    return [said("STARTED", id_), said("TABLE_SCAN_COMPLETED", id_, "d.t", status)]


@pytest.fixture
def lake(tmp_path):
    """It was asked for the table after batch 3; then the job was down, longer than Kafka keeps records."""
    made = Lake(tmp_path, entry())
    made.requests.add(asked("resync-3", after=3))
    return made


def test_rows_among_which_another_table_s_may_stand_are_read_again_once_all_of_them_have_come(lake):
    """The connector gave `d.s` up and read on. What is asked for anew while it reads could begin before rows that are wrong."""
    both = "resync-s,resync-3"
    lake.hear(said("STARTED", both), said("TABLE_SCAN_COMPLETED", both, "d.s", "SQL_EXCEPTION"))
    assert (lake.open_gaps, lake.requests.asked) == ([reasons.AMONG_OTHERS.says], [])
    lake.come(reread=READ, position=READ)
    lake.hear(said("TABLE_SCAN_COMPLETED", both, "d.t"))
    assert (lake.removed, lake.requests.asked) == ([], ["d.t"])
    assert lake.newest.tables["d.t"].reread is None
    assert len(lake.open_gaps) == 1, "said once"
    (again,) = lake.requests.open()
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole(again.id))
    assert (lake.removed, lake.open_gaps, lake.requests.open()) == ([BELOW], [], [])


@pytest.mark.parametrize("status", ["SUCCEEDED", "EMPTY"])
def test_a_request_of_before_the_gap_removes_no_row_closes_nothing_and_is_asked_anew(lake, status):
    """The connector has read the table; its rows are among what Kafka lost. By positions it would be newer than all that
    the lake holds, and as no row of it came, the source's table would seem to be empty.
    """
    lake.start(kafka=RETENTION)
    (gap,) = lake.newest.gaps
    assert gap.position == TABLE.position < BELOW
    assert lake.requests.asked == []
    lake.hear(*read_whole("resync-3", status))
    assert (lake.removed, lake.open_gaps) == ([], [reasons.RETENTION.says])
    assert lake.requests.asked == ["d.t"]
    (now,) = lake.requests.open()
    assert now.after == gap.since


def test_the_request_that_follows_it_closes_the_gap_by_its_own_rows(lake):
    lake.start(kafka=RETENTION)
    lake.hear(*read_whole("resync-3"))
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole("resync-4"))
    assert (lake.removed, lake.open_gaps, lake.requests.open()) == ([BELOW], [], [])


def test_in_a_source_where_nothing_happens_a_request_after_the_gap_closes_it_all_the_same(lake):
    """Its log ends where it did before: no position tells the two requests apart."""
    lake.publish(replace(lake.newest, tables={"d.t": replace(TABLE, position=BELOW)}))
    lake.start(kafka=RETENTION)
    lake.hear(*read_whole("resync-3", "EMPTY"))
    assert (lake.removed, len(lake.open_gaps)) == ([], 1)
    lake.hear(*read_whole("resync-4", "EMPTY"))
    assert (lake.removed, lake.open_gaps) == ([BELOW], [])


def test_rows_that_had_come_for_the_older_request_begin_nothing_any_more(lake):
    """Those of the next one would seem to have begun there, and rows that are gone since would stay."""
    lake.come(reread=READ)
    lake.start(kafka=RETENTION)
    assert lake.newest.tables["d.t"].reread is None
    lake.come(reread=Position(0, 3, 420, part=PART_REREAD))  # what Kafka still had of it
    lake.hear(*read_whole("resync-3"))
    assert lake.newest.tables["d.t"].reread is None
    assert lake.removed == []


def test_a_request_that_nothing_was_lost_of_ends_as_ever(lake):
    lake.come(reread=READ)
    lake.hear(*read_whole("resync-3"))
    assert (lake.removed, lake.requests.open()) == ([BELOW], [])


def test_a_table_is_empty_by_the_connector_s_word_and_not_as_no_row_has_come(lake):
    """After a crash behind the clean-up the request is there still, and the place of its first row is forgotten."""
    lake.come(snapshot=READ)
    lake.hear(*read_whole("resync-3"))
    assert (lake.removed, lake.requests.open(), lake.requests.asked) == ([], [], [])


def test_an_empty_table_loses_its_older_rows(lake):
    lake.hear(*read_whole("resync-3", "EMPTY"))
    assert (lake.removed, lake.requests.open()) == ([BELOW], [])


def test_rows_that_all_changed_while_they_were_read_come_by_the_stream_alone(lake):
    """Debezium leaves out what a change brings anyhow. Nothing was settled since it was asked for."""
    lake.hear(*read_whole("resync-3"))
    assert (lake.removed, lake.requests.open()) == ([BELOW], [])


def test_rows_that_changed_while_a_chunk_was_read_stay(lake):
    """Debezium leaves them out of the chunk, the rows of which carry the place at which the stream has passed its end: those that
    were changed stand before that, and behind the request.
    """
    changed = Position(0, 3, 405)
    lake.come(position=changed)
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole("resync-3"))
    (below,) = lake.removed
    assert below <= changed < READ


def test_rows_of_a_place_before_the_request_stay_and_close_no_gap_behind_them(lake):
    """A task that begins again goes on from where it had come to, and may have been far behind when the table was asked for."""
    gaps = [Gap("d.t", "t", 0, 9, 9, "a DDL", 3, position=Position(0, 3, at)) for at in (100, 300)]
    lake.publish(replace(lake.newest, gaps=tuple(gaps)))
    first = Position(0, 3, 200, part=PART_REREAD)
    lake.come(reread=first, position=first)
    lake.hear(*read_whole("resync-3"))
    assert lake.removed == [first]
    assert [gap.position for gap in lake.newest.gaps if gap.is_open] == [gaps[1].position]
    assert lake.requests.asked == ["d.t"]


def test_what_took_rows_away_between_the_request_and_its_first_row_is_read_about_again(lake):
    """A partition is dropped there: a row that was written behind the request has gone with it, and no row was removed so far."""
    lake.come(position=Position(0, 3, 405))
    gap = Gap("d.t", "t", 0, 9, 9, "a DDL", 3, position=Position(0, 3, 406))
    lake.publish(replace(lake.newest, gaps=(gap,)))
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole("resync-3"))
    assert (lake.removed, lake.open_gaps, lake.requests.asked) == ([BELOW], ["a DDL"], ["d.t"])


UNREAD = Span(Position(0, 3, 405), None, "column 'e' has the type VECTOR")


@pytest.mark.parametrize("status", ["SUCCEEDED", "EMPTY"])
@pytest.mark.parametrize("end", [None, Position(0, 3, 408)])
def test_a_reading_of_which_rows_were_set_aside_removes_nothing_and_closes_no_gap(
    lake, status, end
):
    """None of its rows is known of, as of one that changed whole while it was read; and changes of the table were set aside, too."""
    gap = Gap("d.t", "t", 0, 9, 9, "a DDL", 3, position=Position(0, 3, 300))
    lake.publish(replace(lake.newest, gaps=(gap,)))
    lake.aside[T] = [replace(UNREAD, end=end)]
    lake.hear(*read_whole("resync-3", status))
    assert (lake.removed, lake.open_gaps, lake.requests.open()[1:]) == ([], ["a DDL"], [])
    assert lake.requests.asked == (["d.t"] if end else []), "once it can be read"


def test_a_reading_behind_what_was_set_aside_counts(lake):
    lake.aside[T] = [replace(UNREAD, end=Position(0, 3, 408))]
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole("resync-3"))
    assert (lake.removed, lake.requests.open()) == ([BELOW], [])


def test_the_rows_of_a_table_that_came_with_its_definition_count(tmp_path):
    """A blocking snapshot tells it first, at the place of its rows."""
    lake = Lake(tmp_path, entry(tables={"d.t": replace(TABLE, floor=BELOW)}))
    lake.aside[T] = [replace(UNREAD, start=Position(0, 3, 300), end=BELOW)]
    lake.requests.add(asked("resync-3", kind="BLOCKING", after=3))
    lake.hear(said("TABLE_SCAN_COMPLETED", "x", "d.t", by=INITIAL))
    assert (lake.removed, lake.requests.open()) == ([BELOW], [])


@pytest.mark.parametrize("status", ["SUCCEEDED", "UNKNOWN_SCHEMA"])
def test_a_table_whose_columns_are_forgotten_while_it_is_read_is_asked_for_anew_once_that_is_over(
    lake, status
):
    """The connector makes columns up for it, or gives it up. What is asked for anew has it read the definition first; asked for while
    it reads, the end of what it is at would be taken for the end of that.
    """
    forgotten = reasons.UNKNOWN_COLUMNS.of(table="d._t_new")
    gap = Gap("d.t", "t", 0, 9, 9, forgotten, 4, position=Position(0, 3, 405))
    lake.publish(replace(lake.newest, batch_id=4, gaps=(gap,)))
    lake.hear(said("STARTED", "resync-3"))
    assert lake.requests.asked == []
    lake.hear(said("TABLE_SCAN_COMPLETED", "resync-3", "d.t", status))
    assert (lake.removed, lake.requests.asked) == ([], ["d.t"])
    (now,) = lake.requests.open()
    assert now.after == 4


def test_of_a_table_without_a_row_here_a_reading_that_found_some_closes_nothing(tmp_path):
    gap = Gap("d.t", "p.d.t", 0, 0, 5, reasons.RETENTION.says, 3)
    lake = Lake(tmp_path, entry(tables={}, gaps=(gap,)))
    lake.requests.add(asked("resync-3", after=3))
    lake.hear(*read_whole("resync-3"))
    assert (lake.open_gaps, lake.requests.asked) == ([gap.reason], ["d.t"])
    lake.hear(*read_whole("resync-3", "EMPTY"))
    assert lake.open_gaps == []


def test_rows_that_wait_of_a_request_that_is_void_are_not_waited_for(tmp_path):
    """They are not shown before a later one has come, which is asked for when this one is done."""
    known = {"d.t": replace(TABLE, hidden=BELOW)}
    lake = Lake(tmp_path, entry(tables=known))
    lake.requests.add(asked("resync-3", kind="BLOCKING", after=3))
    lake.start(kafka=RETENTION)
    lake.come(hidden=BELOW)
    lake.hear(said("TABLE_SCAN_COMPLETED", "x", "d.t", by=INITIAL))
    assert lake.shown == []
    assert (lake.requests.asked, lake.removed, len(lake.open_gaps)) == (["d.t"], [], 1)
    (now,) = lake.requests.open()
    assert now.after >= lake.newest.gaps[0].since


def test_a_request_is_not_done_before_what_waits_is_shown(tmp_path):
    lake = Lake(tmp_path, entry(tables={"d.t": replace(TABLE, hidden=BELOW)}))
    lake.requests.add(asked("resync-3", kind="BLOCKING", after=3))
    lake.hear()
    assert lake.shown == []
    lake.hear(said("TABLE_SCAN_COMPLETED", "x", "d.t", by=INITIAL))
    assert (lake.shown, len(lake.requests.open())) == (["d.t"], 1)
    lake.come(hidden=None, floor=BELOW)
    lake.hear()
    assert (lake.shown, lake.removed, lake.requests.open()) == (["d.t"], [BELOW], [])


def test_a_request_for_a_table_that_the_source_has_no_more_ends_and_its_gap_stays_open(tmp_path):
    """Rows that had come for it begin nothing any more: the table may be made again, and then is another one."""
    gap = Gap("d.t", "p.d.t", 0, 0, 5, reasons.RETENTION.says, 3)
    lake = Lake(tmp_path, entry(tables={"d.t": replace(TABLE, reread=READ)}, gaps=(gap,)))
    lake.requests.add(replace(asked("resync-3", kind="BLOCKING", after=3), sent=0.0))
    lake.requests.dropped = {"d.t"}
    lake.requests.ask = lambda tables, *, anew=False: lake.requests.asked.extend(tables)
    lake.hear()
    lake.hear()
    assert (lake.requests.open(), lake.requests.sent, lake.removed) == ([], [], [])
    assert lake.open_gaps == [gap.reason]
    assert lake.newest.tables["d.t"].reread is None
    del lake.requests.asked[:]
    lake.requests.dropped, lake.requests.absent.next_look = set(), 0.0
    lake.settling.look(BELOW)
    assert lake.requests.asked == ["d.t"], "it is there again"
    lake.settling.look(BELOW)
    assert lake.requests.asked == ["d.t"]


AGAIN = record(500, "CREATE", [column("id")], snapshot="true")
"""A second attempt at a snapshot, as by a connector that was made anew."""


def test_a_snapshot_of_which_rows_may_be_lost_removes_nothing_and_closes_nothing(tmp_path):
    """Of its rows Kafka has the last ones. The table's others are older, and not known to be gone."""
    pinned = Position(0, 1, 500)
    settled = replace(TABLE, snapshot=Position(0, 1, 100))
    lake = Lake(tmp_path, entry(tables={"d.t": settled}), catalog(CREATE, AGAIN))
    lake.start(kafka=RETENTION, pinned={"d.t": pinned})
    (gap,) = lake.newest.gaps
    assert gap.position == pinned
    lake.settling.look(Position(0, 1, 600))
    assert (lake.removed, len(lake.open_gaps)) == ([], 1)
    lake.come(reread=READ)
    lake.hear(*read_whole("resync-4"))
    assert (lake.removed, lake.open_gaps) == ([BELOW], [])
    lake.settling.look(Position(0, 1, 600))
    assert lake.removed == [BELOW], "that snapshot is settled with it"


def test_a_snapshot_that_began_after_the_gap_closes_it(tmp_path):
    settled = replace(TABLE, snapshot=Position(0, 1, 100))
    lake = Lake(tmp_path, entry(tables={"d.t": settled}), catalog(CREATE, AGAIN))
    lake.start(kafka=RETENTION, pinned={"d.t": Position(0, 1, 100)})
    lake.settling.look(Position(0, 1, 600))
    assert (lake.removed, lake.open_gaps) == ([Position(0, 1, 500)], [])
    assert str(T) in lake.newest.tables


def joins(*, there=(T,)):
    return Looked(there, BELOW, ("d.*",), [("d.x",)], [T], [] if there else [T])


def test_a_table_that_joins_is_named_before_it_is_asked_for_and_what_was_asked_before_is_void(lake):
    lake.later.found.append(joins())
    lake.settling.look(BELOW)
    (gap,) = lake.newest.gaps
    assert (gap.table, gap.is_incomplete, gap.position) == ("d.t", True, BELOW)
    assert lake.later.open == ["d.t"], "published when what is taken is remembered"
    assert lake.requests.asked == ["d.t"]
    (request,) = lake.requests.open()
    assert request.after == gap.since, "the one of before knew nothing of the table's definition"


def test_it_is_whole_once_its_rows_have_come(lake):
    lake.later.found.append(joins())
    lake.settling.look(BELOW)
    (request,) = lake.requests.open()
    lake.come(reread=READ, position=READ)
    lake.hear(*read_whole(request.id))
    assert (lake.open_gaps, lake.removed, lake.requests.open()) == ([], [BELOW], [])


def test_of_one_that_the_source_drops_meanwhile_nothing_is_missing_or_asked_for(lake):
    lake.later.found += [joins(), joins(there=())]
    lake.settling.look(BELOW)
    lake.settling.look(BELOW)
    assert (lake.open_gaps, lake.requests.open(), lake.later.open) == ([], [], [])


def test_a_table_that_joins_before_the_first_batch_makes_the_manifest_s_first_row(tmp_path):
    lake = Lake(tmp_path, entry())
    lake.newest, lake.note = None, lambda: Note(1, "abc")
    lake.later.found.append(joins())
    lake.settling.look(BELOW)
    assert lake.newest.batch_id == 1
    assert lake.later.open == ["d.t"]


def test_a_table_that_waits_for_nobody_is_asked_for_at_once(tmp_path):
    """On a quiet server no batch comes that would."""
    state = replace(TABLE, position=BELOW, floor=BELOW, run="one@7", hidden=READ)
    lake = Lake(tmp_path, entry(tables={"d.t": state}), catalog(CREATE))
    lake.settling.look(READ)
    lake.settling.look(READ)
    assert lake.open_gaps == [reasons.CHANGED_WHILE_READ.says]
    assert lake.requests.asked == ["d.t"]


@pytest.fixture
def log(tmp_path):
    """Its copy keeps rows that the source has no more; nobody has asked for it."""
    return Lake(tmp_path, entry(tables={"d.t": replace(TABLE, floor=BELOW)}), outlives=True)


def test_a_log_of_which_kafka_lost_records_keeps_its_rows_and_its_gap_until_a_person_asks(log):
    log.start(kafka=RETENTION)
    log.settling.look(BELOW)
    assert (log.open_gaps, log.requests.asked) == ([reasons.RETENTION.says], [])
    by_a_person = asked("resync-9", kind="BLOCKING", after=log.newest.batch_id)
    log.requests.add(by_a_person)
    log.hear(said("TABLE_SCAN_COMPLETED", "x", "d.t", by=INITIAL))
    assert (log.removed, log.open_gaps, log.requests.open()) == ([BELOW], [], [])


def test_what_a_person_asked_for_of_a_log_and_kafka_lost_is_asked_anew(log):
    log.requests.add(asked("resync-3", kind="BLOCKING", after=3))
    log.start(kafka=RETENTION)
    assert log.requests.asked == []
    log.hear(said("TABLE_SCAN_COMPLETED", "x", "d.t", by=INITIAL))
    assert (log.removed, log.requests.asked) == ([], ["d.t"])


def test_a_log_that_joins_with_rows_of_before_is_not_taken_again_and_a_person_s_request_goes_on(
    tmp_path,
):
    lake = Lake(tmp_path, entry(), outlives=True)
    lake.later.found += [joins(), joins()]
    lake.settling.look(BELOW)
    assert (lake.open_gaps, lake.requests.asked) == ([reasons.JOINED.says], [])
    lake.requests.add(asked("resync-3", kind="BLOCKING", after=3))
    lake.settling.look(BELOW)
    assert lake.requests.asked == ["d.t"]
