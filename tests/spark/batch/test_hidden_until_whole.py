"""A table without a key that is taken again: whoever reads its folder sees what was there, then all of the new, nothing else."""

import json
import os
import random
import uuid
from collections import Counter
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from ingest.batch import micro_batch, side_by_side, table_applier
from ingest.lake.delta.delta_sql import queried
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model import reasons
from ingest.source.resync import Requests
from ingest.testing.debezium import compact
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.conformance.histories import CRASHES
from tests.conformance.targets import Crash, dying

BAG = "d.bag"
COLUMNS = {"a": "INT", "b": "VARCHAR(9)"}
engines = pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.long), "auto"])


class Retaken:
    """A source with a table without a key, its lake, and what readers of the lake may see, in order.

    ``told``: the rows that the log speaks of. Statements whose changes never reach the log make them others than the
    source's, until a snapshot reads these.
    """

    def __init__(self, session, folder, rows=(), engine="auto", **more):
        self.source = Source()
        self.bag = self.source.table(BAG, COLUMNS, rows=[{"a": a, "b": b} for a, b in rows])
        self.other = self.source.table("d.other", {"id": "INT"}, ["id"])
        self.lake = Lake(session, folder, spark={"merge_engine": engine}, **more)
        self.told = Counter(rows)
        self.seen = [Counter(), Counter(self.told)]
        self.whole = True
        """Whether the connector streams: it does not while a snapshot is under way."""
        self._followed = 0

    # --- the source ------------------------------------------------------------------------------

    def insert(self, a, b="x"):
        self.bag.insert(a=a, b=b)
        self.told[a, b] += 1
        self._see()

    def delete(self, a, b="x"):
        self.bag.delete({"a": a, "b": b})
        self.told -= Counter([(a, b)])
        self._see()

    def update(self, a, b, to):
        self.bag.update({"a": a, "b": b}, b=to)
        self.told = self.told - Counter([(a, b)]) + Counter([(a, to)])
        self._see()

    def truncate(self):
        self.bag.truncate()
        self.told = Counter()
        self._see()

    def unlogged(self, *rows, gone=()):
        """What a session in STATEMENT format does: it leaves nothing that could be read."""
        log, self.source.log = self.source.log, []
        for a, b in gone:
            self.bag.delete({"a": a, "b": b})
        for a, b in rows:
            self.bag.insert(a=a, b=b)
        self.source.log = log

    def snapshot(self, upto=None, moved_at=None, by=1):
        """The table is read, from its first row up to so many; None: all of them. ``moved_at``: an event of the log comes while
        it is read, so that the rows from there on have the place of that one, which is so much further on.
        """
        before = len(self.source.log)
        self.bag.snapshot()
        moved = [] if moved_at is None else range(before + 1 + moved_at, len(self.source.log))
        for number in moved:
            one = self.source.log[number]
            said = json.loads(one.value)
            said["source"]["pos"] += by
            self.source.log[number] = replace(one, value=compact(said))
        if upto is not None:
            del self.source.log[before + 1 + upto :]
            self.whole = False
            return
        self.whole = True
        self.told = self.held
        self._see()

    @property
    def held(self):
        return Counter((row["a"], row["b"]) for row in self.bag.rows)

    def _see(self):
        self.seen.append(Counter(self.told))

    # --- the job ---------------------------------------------------------------------------------

    def follow(self, batches=1, rng=None):
        """As a job does: batch by batch, and between them what has become due."""
        begin, new = self._followed, self.source.log[self._followed :]
        if rng:
            cuts = sorted(rng.randint(0, len(new)) for _ in range(batches - 1))
        else:
            cuts = [len(new) * n // batches for n in range(1, batches)]
        for start, end in zip([0, *cuts], [*cuts, len(new)], strict=True):
            self._followed = begin + end
            self.lake.replay(new[start:end])
            self.lake.batches.clean_up(None)

    def settle(self):
        """Nothing is under way: the connector streams, from where the source is."""
        assert self.whole
        self.lake.batches.clean_up(self.source._at)

    def restart(self):
        """As another process, which reads on."""
        self.lake.start()
        if self._followed:
            self.lake.apply(self.lake.log.ends())
        self.lake.batches.clean_up(None)

    def dying(self, act, place):
        """Does it; the job dies at that place, where it comes there, and another one does the rest."""
        with (
            patch.object(micro_batch, "reached", dying(place)),
            patch.object(side_by_side, "reached", dying(place)),
            patch.object(table_applier, "reached", dying(place)),
        ):
            try:
                act()
            except Crash:
                self.lake.close()
            else:
                return
        self.restart()
        self.follow()

    # --- its readers -----------------------------------------------------------------------------

    def versions(self):
        """What readers saw, version by version."""
        path, found = self.lake.path / "d" / "bag", list[Counter]()
        if not (path / "_delta_log").exists():
            return found
        for version in range(DeltaTable(path).version() + 1):
            rows = queried(DeltaTable(path, version=version), "SELECT a, b FROM rows")
            found.append(Counter((row["a"], row["b"]) for row in rows))
        return found

    def now(self):
        return self.versions()[-1]

    def check(self):
        """Each version is what the log and whole snapshots had made of the table at some moment, and none goes back."""
        at = 0
        for number, content in enumerate(self.versions()):
            later = [place for place in range(at, len(self.seen)) if self.seen[place] == content]
            assert later, f"version {number} holds {content}, after {self.seen[at]}"
            at = later[0]

    @property
    def state(self):
        return Ledger(str(self.lake.path)).last().tables[BAG]


@engines
def test_while_a_snapshot_comes_in_over_many_batches_readers_see_the_old_rows_and_then_the_new_ones(
    spark, tmp_path, engine
):
    job = Retaken(spark, tmp_path, [(n, "x") for n in range(6)], engine)
    job.follow()
    job.insert(7)
    job.follow()
    job.unlogged((8, "y"), (8, "y"), gone=[(0, "x"), (1, "x")])
    old = job.now()
    job.snapshot()
    job.follow(4)
    assert job.now() == old
    job.insert(9)
    job.follow()
    assert job.now() == old, "what streams behind it waits, too"
    job.settle()
    assert job.now() == job.held
    job.insert(10)
    job.follow()
    assert job.now() == job.held
    job.check()


def test_a_start_in_the_middle_reads_the_snapshot_again_and_its_readers_notice_nothing(
    spark, tmp_path
):
    job = Retaken(spark, tmp_path, [(1, "x"), (2, "x")])
    job.follow()
    job.insert(3)
    job.follow()
    job.unlogged((4, "y"), gone=[(1, "x")])
    job.snapshot()
    job.insert(5)
    job.follow(3)
    hidden = job.state.hidden
    assert hidden is not None
    job.restart()
    assert job.state.hidden == hidden
    job.follow()
    assert any("its snapshot is looked at again" in one for one in job.lake.said)
    job.settle()
    assert (job.state.hidden, job.now()) == (None, job.held)
    job.check()


def test_of_a_snapshot_that_was_given_up_nothing_is_ever_seen(spark, tmp_path):
    job = Retaken(spark, tmp_path, [(1, "x"), (2, "x"), (3, "x")])
    job.follow()
    job.insert(4)
    job.follow()
    old = job.now()
    for upto in (1, 3):
        job.unlogged((5, "y"), gone=[(upto, "x")])
        job.snapshot(upto=upto)
        job.follow(2)
        assert job.now() == old
    job.snapshot()
    job.follow(2)
    assert job.now() == old
    job.settle()
    assert job.now() == job.held
    job.check()


def test_one_that_found_no_row_empties_the_table_whatever_an_earlier_attempt_had_read(
    spark, tmp_path
):
    job = Retaken(spark, tmp_path, [(1, "x"), (2, "x")])
    job.follow()
    job.insert(3)
    job.follow()
    job.unlogged(gone=[(1, "x")])
    job.snapshot(upto=1)
    job.follow()
    job.unlogged(gone=[(2, "x"), (3, "x")])
    job.snapshot()
    job.follow()
    for _ in range(
        2
    ):  # what the newest snapshot did not find goes once the other's rows are out of the way
        job.settle()
    assert job.now() == Counter()
    assert job.state.hidden is None
    job.check()


@pytest.mark.parametrize("batches", [pytest.param(1, marks=pytest.mark.long), 3])
def test_rows_of_one_reading_that_carry_two_places_are_all_there(spark, tmp_path, batches):
    """Debezium gives them the place of the last event of the log; of a quiet log that is its heartbeat."""
    job = Retaken(spark, tmp_path, [(1, "x"), (2, "x"), (3, "x")])
    job.follow()
    job.insert(4)
    job.follow()
    job.unlogged((5, "y"), (6, "y"), gone=[(1, "x")])
    job.snapshot(moved_at=2)
    job.follow(batches)
    job.insert(7)
    job.follow()
    job.settle()
    assert job.now() == job.held
    assert job.state.hidden is None
    job.check()


@pytest.mark.parametrize("batches", [1, 3])
def test_first_rows_whose_place_moves_back_are_never_lost_without_a_word(
    spark, tmp_path, monkeypatch, batches
):
    """That of a heartbeat of the log lies before that of the commit that it comes behind, and so before the table's definition."""
    asked = []
    monkeypatch.setattr(Requests, "ask", lambda _, tables, **__: asked.extend(tables))
    job = Retaken(spark, tmp_path)
    more = job.source.table("d.more", {"a": "INT"}, rows=[{"a": n} for n in range(6)])
    begin = next(n for n, one in enumerate(job.source.log) if one.topic == more.topic)
    for number in range(begin + 3, begin + 6):
        one = job.source.log[number]
        said = json.loads(one.value)
        said["source"]["pos"] -= 5
        job.source.log[number] = replace(one, value=compact(said))
    job.follow(batches)
    newest = job.lake.batches.newest
    rows = queried(DeltaTable(job.lake.path / "d" / "more"), "SELECT a FROM rows")
    said = {gap.reason for gap in newest.gaps if gap.is_open and gap.table == "d.more"}
    assert batches == 1 or len(rows) < 6, "those that come behind a batch of the others"
    assert said == {reasons.UNCERTAIN_READING.says}
    assert set(asked) == {"d.more"}


def test_what_comes_behind_it_is_applied_in_order_a_truncate_and_a_ddl_too(spark, tmp_path):
    job = Retaken(spark, tmp_path, [(1, "x"), (2, "x")])
    job.follow()
    job.insert(3)
    job.follow()
    job.unlogged((4, "y"), gone=[(1, "x")])
    job.snapshot()
    job.update(4, "y", "z")
    job.insert(5)
    job.follow(2)
    job.settle()
    assert job.now() == job.held
    job.unlogged((6, "y"))
    job.snapshot()
    job.truncate()
    job.insert(7)
    job.follow(2)
    job.settle()
    assert job.now() == job.held == Counter([(7, "x")])
    job.unlogged((8, "y"))
    job.snapshot()
    job.bag.add_column("c", "INT")
    job.bag.insert(a=9, b="x", c=1)
    job.told[9, "x"] += 1
    job._see()
    job.follow(3)
    job.settle()
    assert job.now() == job.held
    job.check()


@pytest.mark.long
def test_a_job_that_dies_anywhere_shows_it_once_and_whole(spark, tmp_path):
    job = Retaken(spark, tmp_path, [(1, "x"), (1, "x")])
    job.follow()
    for number, place in enumerate(CRASHES, 2):
        job.insert(number)
        job.follow()
        job.unlogged((number, "y"), (number, "y"), gone=[(number, "x")])
        job.snapshot()
        job.insert(number, "z")
        job.dying(job.follow, place)
        job.dying(job.settle, place)
        job.settle()
        assert job.now() == job.held, place
    job.check()


@pytest.mark.long
@pytest.mark.timeout(0)
@settings(
    max_examples=int(os.environ.get("INGEST_HIDDEN_HISTORIES", "2")),
    database=None,
    phases=[Phase.explicit, Phase.generate],  # a smaller seed is no simpler history
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_every_version_is_what_was_there_before_or_all_of_what_came_after(
    spark, tmp_path_factory, seed
):
    note(f"seed {seed}")
    rng = random.Random(seed)
    job = Retaken(
        spark,
        tmp_path_factory.getbasetemp() / f"drawn-{uuid.uuid4().hex[:8]}",
        [(rng.randint(0, 3), "x") for _ in range(rng.randint(1, 5))],
        rng.choice(["auto", "spark"]),
    )
    job.follow()  # the very first one fills it in sight of its readers
    for _ in range(14):
        _step(job, rng)
    if not job.whole:
        job.snapshot()
    job.follow(2, rng)
    for _ in range(2):
        job.settle()
    assert job.now() == job.told
    assert job.state.hidden is None
    job.check()


def _step(job, rng):
    """One thing that happens; while a snapshot is under way nothing streams."""
    both = sorted((job.told & job.held).elements())
    acts = ["unlogged", "snapshot", "attempt", "follow", "follow", "restart"]
    acts += ["insert", "insert", "delete", "update", "truncate", "settle"] if job.whole else []
    act = rng.choice(acts)
    note(f"{act}, readers may see {len(job.seen)}")
    a, place = rng.randint(0, 3), rng.choice(CRASHES)
    if act == "unlogged":
        gone = rng.sample(sorted(job.held.elements()), min(2, job.held.total()))
        job.unlogged((a, "y"), *[(a, "x")] * rng.randint(0, 2), gone=gone)
    elif act == "snapshot":
        job.snapshot(moved_at=rng.choice([None, rng.randint(0, job.held.total())]))
    elif act == "attempt":
        some = rng.randint(0, job.held.total())
        job.snapshot(upto=some, moved_at=rng.choice([None, rng.randint(0, some)]))
    elif act == "follow":
        run = partial(job.follow, rng.randint(1, 3), rng)
        job.dying(run, place) if rng.random() < 0.4 else run()
    elif act == "restart":
        job.restart()
    elif act == "insert":
        job.insert(a)
    elif act == "truncate":
        if rng.random() < 0.3:
            job.truncate()
    elif act == "settle":
        job.follow(1)
        job.dying(job.settle, place) if rng.random() < 0.4 else job.settle()
    elif both:
        row = rng.choice(both)
        job.delete(*row) if act == "delete" else job.update(*row, "z")
