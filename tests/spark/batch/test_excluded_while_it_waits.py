"""A table that is excluded while its changes wait, and taken in again: what had waited comes, and what it missed is read."""

from contextlib import closing
from unittest.mock import patch

import pytest

from ingest.batch.side_by_side import Failures
from ingest.batch.table_applier import Applier
from ingest.model import reasons
from ingest.source.resync import Requests
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake, pipeline_at
from ingest.testing.source import Source

PAUSE = {"tables": {"d.t": {"ddl": "pause"}}}


class PoisonError(Exception):
    """Of the part of a table."""


class Life:
    """Two tables, one of which begins to wait, and their lake. ``more``: how the pipeline file begins."""

    def __init__(self, lake, key, **more):
        self.lake, self.source, self.more = lake, Source(), more
        columns, rows = {"id": "INT", "v": "INT"}, [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
        self.table = self.source.table("d.t", columns, key, rows=rows)
        self.other = self.source.table("d.other", {"id": "INT"}, ["id"], rows=[{"id": 1}])
        self.run()
        self.follow()

    def run(self, *, without=(), **settings):
        """As another process, with another pipeline file."""
        source = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["*.*", *without]}
        self.lake.pipeline = pipeline_at(self.lake.path, source=source, **(settings or self.more))
        self.lake.failures = Failures()
        self.lake.start()

    def follow(self):
        """A batch; where its table fails, the query begins anew."""
        try:
            self.lake.follow(self.source)
        except PoisonError:
            self.lake.start()

    def settle(self):
        """The connector streams, from where the source is."""
        self.lake.batches.clean_up(self.source._at)

    @property
    def state(self):
        return self.lake.batches.newest.tables["d.t"]

    @property
    def waits_from(self):
        return self.lake.batches.newest.high_water["p.d.t", 0].offset

    @property
    def open_gaps(self):
        return [gap.reason for gap in self.lake.batches.newest.gaps if gap.is_open]

    def held(self):
        return sorted((row.id, row.v) for row in self.lake.table(self.table).collect())

    def excluded_for_a_while(self):
        """The connector sends nothing of it meanwhile; the others go on."""
        self.run(without=["!d.t"])
        log, self.source.log = self.source.log, []
        self.table.insert(id=7, v=7)
        self.source.log = log
        for number in (2, 3):
            self.other.insert(id=number)
            self.follow()
            self.settle()
        assert_rows(self.lake.table(self.other).drop("_ingest"), self.other.rows)

    def taken_in_again(self, **settings):
        """It joins, and so is read."""
        self.run(**settings)
        self.other.insert(id=9)
        self.follow()
        self.settle()
        self.table.snapshot()
        self.table.insert(id=8, v=8)
        self.follow()
        for _ in ("what was read is shown", "and older rows go"):
            self.settle()


@pytest.fixture
def asked(monkeypatch):
    """Tables that are asked for."""
    found = []
    monkeypatch.setattr(Requests, "ask", lambda _, tables, **more: found.extend(tables))
    return found


@pytest.fixture
def life(spark, tmp_path, asked):
    with closing(Lake(spark, tmp_path / "lake")) as lake:
        yield lambda key, **more: Life(lake, key, **more)


def test_one_that_was_paused_gets_what_waited_behind_the_statement_and_what_it_missed(life):
    life = life(["id"], **PAUSE)
    life.table.add_column("w", "INT", 5)
    life.table.update(1, v=3)
    life.follow()
    assert life.state.paused
    waits = life.waits_from
    life.excluded_for_a_while()
    assert (bool(life.state.paused), life.waits_from) == (True, waits), "it waits where it did"
    assert life.held() == [(1, 1), (2, 2)]
    life.run(tables={})
    life.lake.apply(life.lake.log.ends())
    assert life.held() == [(1, 3), (2, 2)], "it had waited in Kafka"
    life.taken_in_again(tables={})
    assert_rows(life.lake.table(life.table).drop("_ingest"), life.table.rows)


@pytest.mark.parametrize("key", [["id"], []], ids=["with a key", "without one"])
def test_one_that_stood_still_gets_what_waited_and_what_it_missed(life, key):
    life, real = life(key), Applier._step

    def step(self, target, table, one, *rest):
        if str(table) == "d.t":
            raise PoisonError
        return real(self, target, table, one, *rest)

    with patch.object(Applier, "_step", step):
        for number in (3, 4, 5):
            life.table.insert(id=number, v=number)
            life.follow()
        assert life.state.stopped
        life.excluded_for_a_while()
    assert life.held() == [(1, 1), (2, 2)]
    life.run()
    life.lake.apply(life.lake.log.ends())
    assert life.held() == [(n, n) for n in range(1, 6)], "it had waited in Kafka"
    life.taken_in_again()
    assert life.held() == sorted((row["id"], row["v"]) for row in life.table.rows)


@pytest.mark.parametrize("key", [["id"], []], ids=["with a key", "without one"])
def test_one_that_was_being_read_keeps_what_it_held_until_it_was_read_whole(life, asked, key):
    """The connector does not end its snapshot, and streams: which would say that the table has no other rows."""
    life = life(key)
    life.table.insert(id=3, v=3)
    life.follow()
    life.table.snapshot()
    del life.source.log[-1:]  # its last row has not come yet
    life.follow()
    assert bool(life.state.hidden) is not bool(key)
    life.excluded_for_a_while()
    assert life.held() == [(1, 1), (2, 2), (3, 3)]
    assert life.open_gaps == [reasons.EXCLUDED.says]
    life.run(without=["!d.t"])
    assert life.open_gaps == [reasons.EXCLUDED.says], "said once"
    assert asked == []
    life.taken_in_again()
    assert (life.state.hidden, life.open_gaps, {*asked}) == (None, [], {"d.t"})
    assert life.held() == sorted((row["id"], row["v"]) for row in life.table.rows)
