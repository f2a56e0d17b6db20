"""When a snapshot that waits in Kafka is whole: what is known of it, and what is taken for certain."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.batch.hidden_snapshots import FIRST_PAUSE, NONE_COUNTS, Hidden, counting, waiting
from ingest.batch.topic_end import Awaited
from ingest.changes.restarted_snapshots import Asked, may_be_whole
from ingest.lake.manifest import next_entry
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.position import PART_WRITE, Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.steps import Attempt, TableFacts
from tests.support.sound_start import entry

T = TableId("d", "t")
AT, LATER = Position(0, 3, 157), Position(0, 3, 900)
LOST = Gap("d.t", "p.d.t", 0, 3, 9, reasons.RETENTION.says, 4, position=Position(0, 2, 50))
PLACE = ("p.d.t", 0)


def may_be(*asked, gaps=(), streamed=None, pinned=None):
    return may_be_whole("d.t", AT, gaps=gaps, streamed=streamed, asked=asked, pinned=pinned)


def test_one_that_the_connector_began_of_itself_is_whole_when_it_streams_beyond_it():
    assert not may_be()
    assert not may_be(streamed=Position(0, 3, 4))
    assert may_be(streamed=AT)
    assert not may_be(streamed=AT, pinned=LATER), "a newer one is under way"
    assert may_be(streamed=LATER, pinned=LATER)


def test_of_a_quiet_source_the_place_of_its_rows_is_all_that_the_connector_comes_to():
    """They stand behind it: nothing else may be written for hours, and it would wait for so long."""
    rows = replace(AT, part=PART_WRITE)
    known = {"gaps": (), "asked": (), "pinned": AT}
    assert may_be_whole("d.t", rows, streamed=AT, **known)
    assert not may_be_whole("d.t", rows, streamed=replace(AT, pos=AT.pos - 1), **known)
    assert not may_be_whole("d.t", rows, streamed=AT, **{**known, "pinned": LATER})


def test_one_that_was_asked_for_is_whole_when_the_connector_says_so_and_not_when_it_streams():
    """It was given up where it streams and has not said so: it is asked anew."""
    assert not may_be(Asked(3, complete=False, empty=False), streamed=LATER)
    assert may_be(Asked(3, complete=True, empty=False))
    assert not may_be(Asked(3, complete=True, empty=False), Asked(5, complete=False, empty=False))


def test_what_kafka_may_have_lost_rows_of_is_not_whole():
    assert not may_be(Asked(3, complete=True, empty=False), gaps=[LOST]), "asked for before that"
    assert may_be(Asked(4, complete=True, empty=False), gaps=[LOST])
    assert not may_be(streamed=LATER, gaps=[LOST]), "which snapshot these rows are of, nobody knows"
    assert may_be(streamed=LATER, gaps=[LOST], pinned=Position(0, 3, 100))
    assert not may_be(streamed=LATER, gaps=[LOST], pinned=Position(0, 2, 50))
    closed = replace(LOST, resync=Position(0, 2, 60))
    assert may_be(streamed=LATER, gaps=[closed])


class Shown:
    """The batches of a job: they say which looks there were, and find a snapshot whole or not."""

    def __init__(self, **said):
        self.looks, self.has_last_row, self.end = [], False, 20
        self.said = {"complete": True, "empty": False, **said}
        self.upper, self.changed = AT, False
        requests = SimpleNamespace(
            is_complete=lambda _: self.said["complete"],
            was_empty=lambda _: self.said["empty"],
            moments=SimpleNamespace(upper=lambda _: self.upper),
            pipeline=SimpleNamespace(topic=lambda table: f"p.{table}"),
        )
        known = SimpleNamespace(
            snapshots=lambda _: self.own, between=lambda _, low, high: ["a definition"]
        )
        definitions = SimpleNamespace(known=lambda: known)
        self.own = []
        self.truncates, self.wiped, self.twice, self.highest = (), True, False, None
        ends = Awaited(lambda _: {PLACE: self.end})
        self.hidden = Hidden(self, definitions, ends, requests, lambda _: self.wiped)
        self.newest = entry(
            offsets={PLACE: (9, 20)},
            high_water={PLACE: HighWater(9)},
            tables={"d.t": TableState("/l/d/t", 3, hidden=AT)},
        )

    def show(self, table, since, is_whole):
        attempt = Attempt("run@7", AT, self.highest, twice=self.twice)
        facts = TableFacts(T, 3, AT, AT, {}, None, self.truncates, frozenset(), attempt)
        fresh = SimpleNamespace(
            filter=lambda _: SimpleNamespace(isEmpty=lambda: not self.has_last_row)
        )
        self.looks.append(since)
        return is_whole(
            SimpleNamespace(
                facts={table: facts},
                fresh=fresh,
                changed=lambda: self.changed,
            )
        )

    def look(self, streamed=AT, *kinds):
        requests = [SimpleNamespace(id=k, table="d.t", kind=k, after=3) for k in kinds]
        before = len(self.looks)
        self.hidden.look(self.newest, streamed, requests)
        return len(self.looks) - before

    def reads(self, end):
        self.newest = replace(self.newest, offsets={PLACE: (20, end)})


@pytest.fixture
def last_row(monkeypatch):
    """Spark is not asked here for the last row."""
    monkeypatch.setattr(
        "ingest.batch.hidden_snapshots._has_last_row",
        lambda read, _: not read.fresh.filter(None).isEmpty(),
    )
    monkeypatch.setattr(
        "ingest.batch.hidden_snapshots.has_changed", lambda read, *_: read.changed()
    )


@pytest.mark.usefixtures("last_row")
def test_the_connector_s_word_comes_before_its_last_rows_so_these_are_waited_for():
    job = Shown()
    assert job.look(AT, "BLOCKING") == 1
    assert job.look(AT, "BLOCKING") == 0, "nothing is new, so nothing is read again"
    job.end = 24
    assert job.look(AT, "BLOCKING") == 0, "the lake has yet to read what the topic holds now"
    job.reads(24)
    job.has_last_row = True
    assert job.look(AT, "BLOCKING") == 1


@pytest.mark.usefixtures("last_row")
def test_without_a_last_row_what_streams_after_the_connector_s_word_says_it():
    job = Shown()
    assert job.look(AT, "BLOCKING") == 1
    job.end = 24  # rows that came in between
    assert job.look(LATER, "BLOCKING") == 0
    job.reads(24)
    assert job.look(LATER, "BLOCKING") == 1


@pytest.mark.usefixtures("last_row")
def test_one_whose_moment_nobody_knows_yet_is_not_looked_at():
    job = Shown()
    job.upper = None
    assert job.look(AT, "BLOCKING") == 0


@pytest.mark.usefixtures("last_row")
def test_one_that_was_changed_while_it_was_read_is_not_shown_but_read_again_after_growing_pauses(
    monkeypatch,
):
    now = [100.0]
    monkeypatch.setattr("ingest.batch.hidden_snapshots.time.monotonic", lambda: now[0])
    job = Shown()
    job.upper, job.changed, job.has_last_row = LATER, True, True
    due = []
    for _ in range(4):
        assert job.look(AT, "BLOCKING") == 1
        begun = now[0]
        while not (found := job.hidden.to_ask_again()):
            assert job.look(AT, "BLOCKING") == 0, "it waits until it is time"
            now[0] += 1
        assert found == {T: LATER}
        due.append(now[0] - begun)
    assert due == [0, FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    job.changed = False
    assert job.look(AT, "BLOCKING") == 1
    assert job.hidden.to_ask_again() == {}


@pytest.mark.usefixtures("last_row")
@pytest.mark.parametrize("wiped", [True, False])
def test_a_truncate_that_takes_its_rows_takes_the_doubt_with_them(wiped):
    """Where a policy ignores it, or the target keeps rows, they stay; and so does what came both ways."""
    job = Shown()
    job.upper, job.changed, job.has_last_row = LATER, True, True
    job.truncates, job.wiped = (LATER,), wiped
    assert job.look(AT, "BLOCKING") == 1
    assert bool(job.hidden.to_ask_again()) is not wiped


@pytest.mark.usefixtures("last_row")
def test_one_that_was_read_twice_within_a_second_is_read_again():
    job = Shown()
    job.has_last_row = job.twice = True
    assert job.look(AT, "BLOCKING") == 1
    assert job.hidden.to_ask_again() == {T: AT}


@pytest.mark.usefixtures("last_row")
def test_one_of_which_rows_stand_before_its_definition_is_read_again():
    job = Shown()
    job.has_last_row, job.highest = True, LATER
    assert job.look(AT, "BLOCKING") == 1
    assert job.hidden.to_ask_again() == {T: AT}


@pytest.mark.usefixtures("last_row")
def test_what_is_shown_is_beyond_doubt_behind_a_truncate_too():
    job = Shown()
    job.has_last_row = True
    assert job.look(AT, "BLOCKING") == 1
    table = SimpleNamespace(at=lambda *_: SimpleNamespace(key=()), snapshots=lambda _: ())
    job.hidden.definitions = SimpleNamespace(known=lambda: table)
    request = SimpleNamespace(id="a", table="d.t", kind="BLOCKING", after=3, below=AT)
    more = {"floor": LATER, "position": LATER}  # the truncate's place
    mark = {PLACE: HighWater(20, Position(0, 3, 950))}
    for run, doubtful in (("run@7", False), ("run@8", True)):
        state = TableState("/l/d/t", 3, run=run, **more)
        now = entry(tables={"d.t": state}, high_water=mark)
        assert job.hidden.is_doubtful(request, now) is doubtful, "another reading is another matter"
    for _ in range(2):
        job.hidden.doubt(request, now)
    assert job.hidden.to_ask_again() == {T: LATER}
    job.hidden.doubt(request, now)
    assert job.hidden.to_ask_again() == {}, "the second time not at once"


@pytest.mark.parametrize(
    ("more", "mark", "doubtful"),
    [
        ({}, LATER, True),
        ({}, AT, False),  # nothing came behind its rows
        ({"position": LATER}, None, False),  # but rows of the same reading
        ({"floor": None}, LATER, False),
        ({"hidden": AT}, LATER, False),  # it is looked at before it is shown
    ],
)
def test_first_rows_of_a_table_without_a_key_are_doubtful_where_changes_came_behind_them(
    more, mark, doubtful
):
    job, state = Shown(), TableState("/l/d/t", 3, **{"floor": AT, "position": AT, **more})
    now = entry(tables={"d.t": state}, high_water={PLACE: HighWater(20, mark)})

    def declared(own=(), *key):
        table = SimpleNamespace(at=lambda *_: SimpleNamespace(key=key), snapshots=lambda _: own)
        job.hidden.definitions = SimpleNamespace(known=lambda: table)

    declared()
    request = SimpleNamespace(id="a", table="d.t", kind="BLOCKING", after=3)
    assert job.hidden.is_doubtful(request, now) is doubtful
    declared((), "id")
    assert not job.hidden.is_doubtful(request, now)
    declared([AT])
    assert not job.hidden.is_doubtful(request, now), "the connector's own"


def test_an_incremental_request_says_nothing_of_it_and_one_that_is_not_done_keeps_it_hidden():
    job = Shown(complete=False)
    assert job.look(LATER, "BLOCKING") == 0
    job.own = [AT]
    assert job.look(LATER, "INCREMENTAL") == 1


def test_what_was_read_for_nobody_is_not_shown_but_read_for_somebody():
    """Its request is done, or void: nobody says when all of it is there, nor as of which moment it is."""
    job = Shown()
    assert job.look(LATER) == 0
    assert job.hidden.to_ask_again() == {T: AT}


def test_of_a_table_that_was_found_empty_no_attempt_counts():
    job = Shown(empty=True)
    assert job.look(AT, "BLOCKING") == 1
    assert job.looks == [NONE_COUNTS]
    found = TableFacts(T, 3, AT, AT, {}, None, (), frozenset(), Attempt("run", AT))
    note = Note(4, "abc", whole=("d.t", NONE_COUNTS))
    assert counting({T: found}, note)[T].attempt.position < AT
    assert counting({T: found}, replace(note, whole=("d.t", AT)))[T] == found
    assert counting({T: found}, replace(note, whole=None))[T] == found


def test_a_note_says_what_it_takes_in():
    note = Note(4, "abc", {PLACE: (9, 20)}, 3, whole=("d.t", AT))
    assert Note.from_json(note.as_json()) == note
    assert (note.shows, Note(4, "abc").shows) == ("d.t", "")


def batch(previous, ends, **more):
    note = Note(previous.batch_id + 1, "abc", {PLACE: ends}, 3, **more.pop("note", {}))
    return next_entry.entry(
        previous,
        note,
        more.pop("facts", {}),
        more.pop("applied", []),
        [PLACE],
        catalog=Catalog(),
        topic_ids={},
        topic=lambda table: f"p.{table}",
        waiting={},
        doubts={},
        **more,
    )


def test_what_waits_of_a_topic_is_all_since_the_batch_in_which_the_snapshot_began():
    state = TableState("/l/d/t", 3, changes=4, position=Position(0, 2, 5))
    before = entry(offsets={PLACE: (0, 9)}, high_water={PLACE: HighWater(9)}, tables={"d.t": state})
    begun = batch(before, (9, 12), hidden={T: AT})
    later = batch(begun, (12, 20))
    assert later.tables["d.t"] == replace(state, changes=0, hidden=AT)
    assert later.tables["d.t"].waits
    assert waiting(later, "p.d.t") == {PLACE: (9, 20)}
    assert waiting(later, "p.d.other") == {}
    shown = batch(later, (9, 20), note={"whole": ("d.t", AT)})
    assert waiting(shown, "p.d.t") == {PLACE: (20, 20)}, "all of it is applied"


def test_the_manifest_says_it_and_an_older_row_says_nothing():
    held = {"d.t": TableState("/l/d/t", 3, hidden=AT), "d.u": TableState("/l/d/u", 1)}
    row = entry(tables=held).as_row()
    assert row["hidden"] == [{"table": "d.t", "position": AT.as_dict()}]
    assert Entry.from_row({**row, "stopped": None}).tables == held
    older = {name: value for name, value in row.items() if name != "hidden"}
    assert Entry.from_row(older).tables["d.t"].hidden is None
