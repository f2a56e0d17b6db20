"""What a table's own log says that it holds."""

import pytest
from deltalake import DeltaTable

from ingest.lake.delta import delta_log, own_commits
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.model.position import Position
from ingest.model.start_facts import Foreign, Held, Note
from tests.support.restored_by_time import restore_by_time
from tests.support.small_lake import SmallLake


@pytest.fixture
def lake(tmp_path):
    """Version 0 is the empty table, 1 and 2 are batch 1's, 3 and 4 batch 2's."""
    made = SmallLake(tmp_path / "lake")
    made.steps = 2
    made.batch({"a": 2})
    made.batch({"a": 4})
    return made


def log(lake):
    return DeltaRsTable(lake.table("a"), lake.root)


@pytest.mark.parametrize(
    ("version", "held"),
    [
        (0, Held(0, 0, 0)),
        (1, Held(1, 1, 1)),
        (2, Held(2, 2, 1)),
        (4, Held(4, 4, 2)),
    ],
)
def test_a_version_holds_the_batch_whose_commit_it_is(lake, version, held):
    assert own_commits.held(log(lake), version) == held


def test_what_changes_no_row_changes_nothing_of_what_it_holds(lake):
    DeltaTable(lake.folder("a")).optimize.compact()
    lake.fence("a")
    assert own_commits.held(log(lake), 6) == Held(4, 4, 2)


def test_a_restored_table_holds_what_that_version_held(lake):
    lake.restore("a", 2)
    lake.fence("a")
    lake.restore("a", 5)
    lake.fence("a")
    assert own_commits.held(log(lake), 8) == Held(2, 2, 1)
    lake.restore("a", 0)
    assert own_commits.held(log(lake), 9).is_empty


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_table_that_was_restored_by_time_holds_what_that_version_held(lake, zone):
    restore_by_time(lake.folder("a"), 2, zone)
    lake.fence("a")
    assert own_commits.held(log(lake), 6) == Held(2, 2, 1)


def test_somebody_else_s_rows_are_nobody_s_batch(lake):
    DeltaTable(lake.folder("a")).delete("id = 1")
    assert own_commits.held(log(lake), 5) == Foreign(5, "DELETE")


def test_where_the_log_is_cut_it_does_not_say(lake):
    lake.fence("a")
    (lake.folder("a") / "_delta_log" / f"{4:020d}.json").unlink()
    assert own_commits.held(NoState(lake), 5) == Held(5, 5)


class NoState:
    """The log by its files alone: what came before the last checkpoint may be gone from it."""

    def __init__(self, lake):
        self._folder = lake.folder("a")

    def commits(self, start):
        yield start, delta_log.read(self._folder, start) or []


def test_the_newest_version_of_a_published_batch_is_found_below_what_came_after(lake):
    lake.fence("a")
    assert own_commits.newest_known(log(lake), 2) == 4
    assert own_commits.newest_known(log(lake), 1) == 2
    assert own_commits.newest_known(log(lake), 0) == -1
    assert own_commits.newest_after(log(lake), 1) == 4
    assert own_commits.newest_after(log(lake), 4) == 4


def test_a_clean_up_among_later_commits_is_seen(lake):
    assert not own_commits.cleaned(log(lake), 2)
    lake.commit("a", Note(3, "abc", cleanup=("d.a", Position(0, 1, 2))), 9)
    assert own_commits.cleaned(log(lake), 4)
    assert not own_commits.cleaned(log(lake), 5)


def test_a_fence_is_of_no_batch_and_carries_its_term(lake):
    lake.fence("a")
    actions = own_commits.commit(log(lake), 5)
    assert own_commits.batch_of(actions) is None
    assert [marker.term for marker in own_commits.markers(actions)] == [2]
    assert own_commits.batch_of(own_commits.commit(log(lake), 4)) == 2
    assert own_commits.commit(log(lake), 6) == []
