"""A batch that is torn and finished by other rules than it was begun by (another pipeline file, another version): what of it goes
to quarantine is decided once for each change, and each is applied once.
"""

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from ingest.batch import change_logs, micro_batch, side_by_side, table_applier
from ingest.batch.side_by_side import Failures
from ingest.lake.quarantine.waiting_list import waiting_list
from ingest.model.errors import IngestError
from ingest.model.position import Position
from ingest.model.specification import row
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import insert, update
from tests.conformance.targets import Crash, SparkTarget, dying
from tests.spark.lake.test_held_back import unreadable

LOGS = {"defaults": {"targets": ["mirror", "change_log"]}}


class Lake:
    """Tables of a lake, of which a batch is torn."""

    def __init__(self, spark, folder, *keyed, engine="auto", **settings):
        self.keyed = keyed
        self.histories = [
            History(one, 1, records=[[]], snapshots=[Position(0, 1, 5)]) for one in keyed
        ]
        self.target = SparkTarget(
            spark, folder, *self.histories, spark={"merge_engine": engine}, **settings
        )

    def write(self, index, change, *given):
        made = change(*given, keyed=self.keyed[index])
        self.histories[index].records[0].append(Record(made, 0, made.position.pos))

    def take(self):
        self.target.apply(self.target.log.ends())

    def die_at(self, place, act=None):
        """In a batch of all that was written since the last one, or in something else."""
        with ExitStack() as dies:
            for module in (micro_batch, side_by_side, table_applier, change_logs):
                dies.enter_context(patch.object(module, "reached", dying(place)))
            dies.enter_context(pytest.raises(Crash))
            (act or self.take)()

    def start(self):
        """As another process."""
        self.target.failures = Failures()
        self.target.start()

    def rows(self, index=0):
        return Counter({(r["id"], r["v"]): n for r, n in _plain(self.target.content(index))})

    def logged(self, index=0):
        images = [one["after"] for one in self.target.log_of(index) if one["after"]]
        return Counter((int(one["id"]), one["v"]) for one in images)

    @property
    def waiting(self):
        return sum(one.changes for one in waiting_list(str(self.target.path)))

    @property
    def standing(self):
        tables = self.target.batches.newest.tables
        return {name for name, state in tables.items() if state.stopped}

    def each_once(self, index, *rows):
        """Also once all that waits is taken in."""
        self.target.batches.replay()
        assert self.rows(index) == Counter(rows)
        assert self.waiting == 0
        return True


def _plain(content):
    return [(dict(one), count) for one, count in content.items()]


@pytest.fixture
def lake(spark, tmp_path):
    made = []

    def of(*keyed, **more):
        made.append(Lake(spark, tmp_path, *keyed, **more))
        return made[-1]

    yield of
    for one in made:
        one.target.remove()


ways = pytest.mark.parametrize(
    ("keyed", "engine"),
    [
        pytest.param(True, "auto", id="in the driver"),
        pytest.param(True, "spark", id="by Spark", marks=pytest.mark.long),
        pytest.param(False, "auto", id="without a key"),
    ],
)


@ways
def test_what_a_torn_batch_has_set_aside_is_not_applied_too_by_a_reader_that_can_read_it(
    lake, keyed, engine
):
    one = lake(keyed, engine=engine)
    one.write(0, insert, 10, 1, "bad")
    one.write(0, insert, 11, 2, "b")
    one.write(0, insert, 12, 3, "c")
    with unreadable():
        one.die_at("quarantine_committed")
    one.start()
    assert (one.rows(), one.waiting) == (Counter([(2, "b"), (3, "c")]), 1)
    assert one.target.batches.newest.rejects == 1
    assert one.each_once(0, (1, "bad"), (2, "b"), (3, "c"))


def test_what_waits_behind_it_goes_on_waiting_in_order(lake):
    one = lake(True)
    one.write(0, insert, 10, 1, "bad")
    one.write(0, insert, 11, 2, "b")
    one.write(0, update, 12, 1, "bad", "c")
    with unreadable():
        one.die_at("quarantine_committed")
    one.start()
    assert (one.rows(), one.waiting) == (Counter([(2, "b")]), 2)
    one.write(0, update, 20, 1, "c", "d")
    one.take()
    assert one.waiting == 3
    assert one.each_once(0, (1, "d"), (2, "b"))


@ways
def test_what_only_today_s_reader_cannot_read_is_set_aside_beside_what_the_batch_has(
    lake, keyed, engine
):
    one = lake(keyed, engine=engine)
    for number, value in enumerate(["worse", "bad", "c"], 1):
        one.write(0, insert, 10 + number, number, value)
    with unreadable("worse"):
        one.die_at("quarantine_committed")
        with unreadable("bad"):
            one.die_at("quarantine_committed", one.target.start)  # behind what came to it
            one.start()
            assert (one.rows(), one.waiting) == (Counter([(3, "c")]), 2)
            assert one.target.batches.newest.rejects == 2
    assert one.each_once(0, (1, "worse"), (2, "bad"), (3, "c"))


def test_of_a_table_that_holds_what_would_be_set_aside_now_its_part_is_begun_anew(lake):
    one = lake(False, True)
    one.write(0, insert, 10, 1, "a")
    one.write(1, insert, 11, 1, "a")
    one.take()
    one.write(0, insert, 20, 2, "bad")
    one.write(0, insert, 21, 3, "c")
    one.write(1, insert, 22, 2, "b")
    one.die_at("table_committed")  # the first table's part is there
    with unreadable():
        one.start()
        assert (one.standing, one.waiting) == ({"d.t0"}, 0)
        assert one.rows() == Counter([(1, "a")]), "as before the batch"
        assert one.rows(1) == Counter([(1, "a"), (2, "b")])
        one.start()
        one.take()
        assert (one.standing, one.waiting) == (set(), 1)
        assert one.rows() == Counter([(1, "a"), (3, "c")])
    assert one.each_once(0, (1, "a"), (2, "bad"), (3, "c"))


def test_a_table_whose_change_log_holds_the_batch_is_done_with_it(lake):
    one = lake(False, True, **LOGS)
    one.write(0, insert, 20, 2, "bad")
    one.write(0, insert, 21, 3, "c")
    one.write(1, insert, 22, 2, "b")
    one.die_at("log_committed")
    with unreadable():
        one.start()
        assert (one.standing, one.waiting) == (set(), 0)
    one.write(0, insert, 30, 4, "d")
    one.take()
    rows = [(2, "bad"), (3, "c"), (4, "d")]
    assert one.each_once(0, *rows)
    assert one.logged() == Counter(rows)
    assert one.rows(1) == Counter([(2, "b")])


def test_one_whose_change_log_lacks_it_begins_anew_and_has_each_change_in_its_log_once(lake):
    one = lake(False, True, **LOGS)
    one.write(0, insert, 10, 1, "a")
    one.write(1, insert, 11, 1, "a")
    one.take()
    one.write(0, insert, 20, 2, "bad")
    one.write(0, insert, 21, 3, "c")
    one.die_at("log_started")
    with unreadable():
        one.start()
        assert (one.standing, one.waiting) == ({"d.t0"}, 0)
        one.start()
        one.take()
        assert (one.standing, one.waiting) == (set(), 1)
    rows = [(1, "a"), (2, "bad"), (3, "c")]
    assert one.each_once(0, *rows)
    assert one.logged() == Counter(rows)


def test_a_table_that_is_alone_is_finished_by_the_rules_that_it_was_begun_by_alone(lake):
    one = lake(False)
    one.write(0, insert, 20, 2, "bad")
    one.write(0, insert, 21, 3, "c")
    one.die_at("table_committed")
    with unreadable(), pytest.raises(IngestError, match=r"d\.t0: its part of batch 1 was begun"):
        one.start()
    assert one.waiting == 0
    one.start()
    assert one.each_once(0, (2, "bad"), (3, "c"))


def test_what_waits_is_not_applied_too_where_its_table_went_back_and_can_be_read_by_now(lake):
    """As by a person's RESTORE, or of one that stood still when it was set aside."""
    one = lake(False, True)
    one.write(0, insert, 10, 1, "a")
    one.write(1, insert, 11, 1, "a")
    one.take()
    table = one.target._held("d.t0")
    known = table.version()
    one.write(0, insert, 20, 2, "bad")
    one.write(0, insert, 21, 3, "c")
    with unreadable():
        one.take()
    table.restore(known)
    one.start()
    one.take()
    assert (one.rows(), one.waiting) == (Counter([(1, "a"), (3, "c")]), 1)
    assert one.each_once(0, (1, "a"), (2, "bad"), (3, "c"))
    assert row(id=2, v="bad") in one.target.content()
