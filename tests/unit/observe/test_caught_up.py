"""How far the lake is behind: true when idle, honest when anything on the way stands still."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.model.errors import IngestError
from ingest.model.gtid import GtidSet
from ingest.model.manifest import HighWater, TableState
from ingest.model.topics import TableId
from ingest.observe import caught_up
from ingest.observe.caught_up import Asked, CaughtUp, thinned
from ingest.observe.lag_watch import LagWatch, Outside
from ingest.source.mysql import Reached
from tests.support.sound_start import entry

A, B = ("p.d.a", 0), ("p.d.b", 0)
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def looked(found, at, target, delivered, applied, ends):
    found = found.ask(at, target).arrive(lambda one: one <= delivered, ends)
    return found.apply(applied, ends)


def test_an_idle_source_is_caught_up_to_each_look_however_old_its_newest_change_is():
    found = CaughtUp()
    for at in (100.0, 200.0, 90_000.0):
        found = looked(found, at, 7, 7, {A: 3}, {A: 3})
        assert found.whole == at


def test_a_stuck_debezium_lets_the_moment_stand_still_from_the_first_transaction_it_misses():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 3}, {A: 3})
    for at in (105.0, 110.0, 4000.0):
        found = looked(found, at, 8, 7, {A: 3}, {A: 3})
    assert (found.whole, found.topics) == (100.0, {"p.d.a": 100.0})
    found = looked(found, 4005.0, 8, 8, {A: 4}, {A: 4})
    assert found.whole == 4005.0


def test_a_mark_that_is_not_delivered_yet_is_proven_later_and_not_forgotten():
    found = CaughtUp().ask(100.0, 7).ask(105.0, 8)
    found = found.arrive(lambda one: one <= 7, {A: 3}).apply({A: 3}, {A: 3})
    assert found.whole == 100.0
    found = found.arrive(lambda one: one <= 8, {A: 4}).apply({A: 4}, {A: 4})
    assert found.whole == 105.0


def test_a_lake_that_has_not_applied_what_was_delivered_is_not_caught_up_to_it():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 3}, {A: 9})
    assert found.whole is None
    found = looked(found, 105.0, 7, 7, {A: 8}, {A: 20})
    assert found.whole is None
    found = looked(found, 110.0, 7, 7, {A: 9}, {A: 30})
    assert found.whole == 100.0, "what came after the mark does not hold it back"


def test_a_table_that_stands_still_holds_back_the_whole_and_itself_and_no_other():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 3, B: 3}, {A: 3, B: 3})
    found = looked(found, 105.0, 8, 8, {A: 4, B: 3}, {A: 4, B: 5})
    assert (found.whole, found.topics) == (100.0, {"p.d.a": 105.0, "p.d.b": 100.0})


def test_a_topic_that_came_after_a_mark_held_nothing_then():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 3}, {A: 3})
    found = found.apply({A: 3}, {A: 3, B: 8})
    assert found.topics["p.d.b"] == 100.0


def test_a_topic_that_was_deleted_and_made_again_is_not_called_caught_up():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 1000}, {A: 1000})
    found = looked(found, 105.0, 8, 8, {A: 1000}, {A: 12})
    assert (found.whole, found.topics["p.d.a"]) == (100.0, 100.0)
    told = caught_up.progress(found, {A: 1000}, {A: 12}, {}, looked_at=105.0, undelivered=0)
    assert told.tables["p.d.a"].records == 12


def test_where_kafka_has_no_topic_nothing_is_proven():
    """A pipeline that looked for its topics by a wrong name found none, and said that nothing was missing."""
    found = looked(CaughtUp(), 100.0, 7, 7, {}, {})
    assert found.whole is None
    found = looked(found, 105.0, 7, 7, {A: 3}, {A: 3})
    assert found.whole == 105.0


def test_a_table_is_called_by_its_own_name_wherever_its_topic_has_another():
    topics = ["p.d.a_u0024b", "p.d.unknown"]
    named = caught_up.names(topics, ["d.a$b"], lambda table: "p.d.a_u0024b", "p.")
    assert named == {"p.d.a_u0024b": "d.a$b", "p.d.unknown": "d.unknown"}


def test_a_table_that_the_connector_leaves_out_holds_back_itself_and_the_whole_and_no_other():
    found = looked(CaughtUp(), 100.0, 7, 7, {A: 3, B: 3}, {A: 3, B: 3})
    found = found.ask(105.0, 8).arrive(lambda _: True, {A: 3, B: 4})
    found = found.apply({A: 3, B: 4}, {A: 3, B: 4}, ["p.d.a"])
    assert (found.whole, found.topics) == (100.0, {"p.d.a": 100.0, "p.d.b": 105.0})


@dataclass
class World:
    """A log of commits to two topics; how much of it is delivered; how much of each topic is applied. Time is counted
    in commits and looks.
    """

    now: float = 0.0
    commits: list = field(default_factory=list)
    delivered: int = 0
    applied: dict = field(default_factory=lambda: {A: 0, B: 0})

    def ends(self):
        return {
            place: sum(p == place for _, p in self.commits[: self.delivered]) for place in (A, B)
        }

    def missing(self, until):
        """Commits of before a moment that the lake does not hold."""
        seen, found = {A: 0, B: 0}, []
        for at, place in self.commits:
            seen[place] += 1
            if at <= until and seen[place] > self.applied[place]:
                found.append(at)
        return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from([A, B])),
        st.tuples(st.just("deliver"), st.integers(1, 4)),
        st.tuples(st.just("apply"), st.sampled_from([A, B]), st.integers(1, 4)),
        st.tuples(st.just("look")),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_no_history_makes_it_claim_a_moment_before_which_anything_is_missing(steps):
    world, found = World(), CaughtUp()
    for what, *how in [*steps, ("settle",), ("look",)]:
        world.now += 1
        ends = world.ends()
        if what == "commit":
            world.commits.append((world.now, how[0]))
        elif what == "deliver":
            world.delivered = min(len(world.commits), world.delivered + how[0])
        elif what == "apply":
            world.applied[how[0]] = min(ends[how[0]], world.applied[how[0]] + how[1])
        elif what == "settle":
            world.delivered = len(world.commits)
            world.applied = world.ends()
        else:
            found = looked(
                found, world.now, len(world.commits), world.delivered, world.applied, ends
            )
            if found.whole is not None:
                assert world.missing(found.whole) == []
    assert found.whole == world.now, "once all is there, the newest look is proven"


def test_a_mark_that_takes_kafkas_end_for_granted_is_found_out():
    """The property above must fail for a watch that forgets to wait for the lake."""
    world = World(commits=[(1.0, A)], delivered=1)
    wrong = looked(CaughtUp(), 2.0, 1, 1, world.ends(), world.ends())
    assert wrong.whole == 2.0
    assert world.missing(wrong.whole)


def test_a_week_of_marks_stays_few_and_none_is_far_from_its_neighbours():
    marks = ()
    for at in range(0, 7 * 86_400, 60):
        marks = thinned((*marks, Asked(float(at), 0)))
    now = marks[-1].at
    assert marks[0].at == 0.0
    assert len(marks) < 300
    for one, then in pairwise(marks):
        assert then.at - one.at <= max(60.0, caught_up.SHARE * (now - one.at))


def reached(pos, gtids):
    return Reached(1, pos, GtidSet.parse(f"{SERVER}:1-{gtids}"))


def stored(pos, gtids):
    return {"file": "binlog.000001", "pos": pos, "gtids": f"{SERVER}:1-{gtids}"}


@dataclass
class Recorded:
    """Answers as MySQL, Connect, Kafka and the manifest give them; ``None`` for one that is away."""

    reached: Reached
    offset: dict | None
    applied: int
    end: int
    away: bool = False
    left_out: tuple = ()
    quarantined: int = 0

    def outside(self):
        def answer():
            if self.away:
                raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait")
            return self.offset

        return Outside(
            lambda: self.reached,
            answer,
            lambda: entry(self.end, high_water={A: HighWater(self.applied)}, tables={}),
            lambda: {A: self.end},
            lambda: self.left_out,
            lambda: self.quarantined,
        )


def watch(world, clock):
    return LagWatch(
        world.outside(), lambda t: f"p.{t.database}.{t.name}", "p.", clock=lambda: clock[0]
    )


def test_a_look_asks_all_four_and_knows_transactions_records_and_the_moment():
    world, clock = Recorded(reached(500, 5), stored(400, 3), 3, 10), [100.0]
    found = watch(world, clock)
    found.look()
    assert (found.progress.undelivered, found.progress.caught_up) == (2, None)
    assert found.progress.tables["d.a"].records == 7
    world.offset, world.applied, clock[0] = stored(500, 5), 10, 105.0
    found.look()
    assert (found.progress.undelivered, found.progress.caught_up) == (0, 105.0)
    assert found.progress.tables["d.a"].caught_up == 105.0


@pytest.mark.parametrize("offset", [None, {"snapshot": True, "file": "binlog.000001", "pos": 4}])
def test_before_the_first_offset_and_in_a_snapshot_nothing_is_proven(offset):
    found = watch(Recorded(reached(500, 5), offset, 10, 10), [100.0])
    found.look()
    assert (found.progress.undelivered, found.progress.caught_up) == (None, None)


def test_who_does_not_answer_is_counted_and_nothing_new_is_claimed():
    world, clock = Recorded(reached(500, 5), stored(500, 5), 10, 10), [100.0]
    found = watch(world, clock)
    found.look()
    world.away, clock[0] = True, 200.0
    found.look()
    assert (found.progress.caught_up, found.progress.looked_at) == (100.0, 100.0)
    assert found.looks == {"answered": 1, "failed": 1}


def test_a_paused_table_counts_what_waits_behind_its_mark():
    world = Recorded(reached(500, 5), stored(500, 5), 4, 10)
    found = watch(world, [100.0])
    found.look()
    assert found.progress.tables["d.a"].records == 6
    assert found.topic(TableId("d", "a")) == "p.d.a"


def test_a_table_that_the_connector_leaves_out_is_counted_and_grows_old_though_the_offset_goes_on():
    world, clock = Recorded(reached(500, 5), stored(500, 5), 10, 10), [100.0]
    found = watch(world, clock)
    found.look()
    world.left_out, clock[0] = ("d.a",), 4000.0
    found.look()
    assert (found.progress.left_out, found.progress.looked_at) == (1, 4000.0)
    assert (found.progress.caught_up, found.progress.tables["d.a"].caught_up) == (100.0, 100.0)
    world.left_out = ()
    found.look()
    assert (found.progress.left_out, found.progress.caught_up) == (0, 4000.0)


def test_what_waits_of_a_table_that_is_excluded_by_now_keeps_the_lag_of_no_other():
    """It is paused, stands still or is hidden, perhaps for good; nobody asks for it any more."""
    rows = entry(
        high_water={A: HighWater(4), B: HighWater(7)},
        tables={"d.a": TableState("/l/d/a", 1), "d.b": TableState("/l/d/b", 1)},
    )
    outside = Outside(
        lambda: reached(500, 5), lambda: stored(500, 5), lambda: rows, lambda: {A: 10, B: 7}
    )
    for patterns, caught_up_at, seen in (
        (("d.*",), None, {"d.a", "d.b"}),
        (("d.*", "!d.a"), 100.0, {"d.b"}),
    ):
        named = lambda t: f"p.{t.database}.{t.name}"  # noqa: E731 (a function of that shape)
        found = LagWatch(outside, named, "p.", patterns, clock=lambda: 100.0)
        found.look()
        assert (found.progress.caught_up, set(found.progress.tables)) == (caught_up_at, seen)


def test_what_waits_in_quarantine_is_counted_again_with_a_batch_alone():
    world = Recorded(reached(500, 5), stored(500, 5), 10, 10, quarantined=3)
    found = watch(world, [100.0])
    found.look()
    world.quarantined = 4
    found.look()
    assert found.progress.quarantined == 3
    world.applied = world.end = 11
    found.look()
    assert found.progress.quarantined == 4
