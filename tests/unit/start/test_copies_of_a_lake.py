"""A law on a real lake: whichever of its folders an older copy takes the place of, whatever is lost and whatever dies,
nothing is lost for good and nothing is applied twice, or a gap says so.
"""

import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.lake.delta import own_commits
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.start.start_decision import Refuse
from tests.support.small_lake import Crash, SmallLake

MANIFEST = "_ingest/manifest"
TABLES = ("a", "b")


class Lake(SmallLake):
    """What may happen to it, each by a word. ``meant``: the commit that each row of the manifest was published over."""

    def __init__(self, root):
        super().__init__(root)
        self.steps, self.meant = 2, {}
        self.batch({"a": 2, "b": 2})
        self.copies = {name: [self.copy(name)] for name in (*TABLES, MANIFEST)}

    def publish(self, entry):
        super().publish(entry)
        for name, state in entry.tables.items():
            self.meant[entry.batch_id, name] = self.commit_at(name, state.version)

    def commit_at(self, name, version):
        log = self.folder(name.removeprefix("d.")) / "_delta_log" / f"{version:020d}.json"
        return log.read_bytes() if log.exists() else b""

    def stands_still(self, name):
        """A table that was made again beside a manifest that knows the one before, say: its changes wait."""
        state = self.newest.tables.get(f"d.{name}")
        return bool(state and state.stopped)

    def and_then(self, more):
        held = {name: self.newest.ends.get((f"p.d.{name}", 0), 0) for name in more}
        return {name: held[name] + n for name, n in more.items() if not self.stands_still(name)}

    def happens(self, what, of):
        """Nothing, where there is no such table any more."""
        with suppress(FileNotFoundError, DeltaError, Crash):
            getattr(self, what.replace(" ", "_"))(of)

    def is_applied(self, more):
        self.batch(self.and_then(more))

    def is_torn(self, more):
        self.apply(self.note(self.and_then(more)), crash=sum(more.values()) % 4)

    def is_copied(self, name):
        self.copies[name].append(self.copy(name))

    def is_brought_back(self, name):
        self.bring_back(name, self.copies[name][-2:][0])

    def is_put_in_order(self, name):
        DeltaTable(self.folder(name)).optimize.compact()

    def is_fenced(self, name):
        self.fence(name)

    def loses_a_commit(self, name):
        if version := DeltaTable(self.folder(name)).version():
            (self.folder(name) / "_delta_log" / f"{version:020d}.json").unlink()

    def is_restored(self, name):
        self.restore(name, max(0, DeltaTable(self.folder(name)).version() - 2))

    def is_dropped(self, name):
        shutil.rmtree(self.folder(name))

    def starts(self, _):
        self.start()

    @property
    def is_told_apart(self):
        """A version that was lost and made again is told by its commit where that is a batch's of another time, or a
        fence; where it is not, two coincidences have met, and the number alone would have to say it.
        """
        newest = self.newest
        for name, state in newest.tables.items():
            meant, here = self.meant[newest.batch_id, name], self.commit_at(name, state.version)
            if here and meant and here != meant:
                log = DeltaRsTable(self.table(name.removeprefix("d.")), self.root)
                actions = own_commits.commit(log, state.version)
                batch = own_commits.batch_of(actions)
                if not own_commits.markers(actions) or (batch and batch <= newest.batch_id):
                    return False
        return True


MORE = st.dictionaries(st.sampled_from(TABLES), st.integers(1, 3), min_size=1)
FOLDERS = st.sampled_from([*TABLES, MANIFEST])
OF_TABLES = ["is put in order", "is fenced", "loses a commit", "is restored", "is dropped"]
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["is applied", "is torn"]), MORE),
    st.tuples(st.sampled_from(["is copied", "is brought back"]), FOLDERS),
    st.tuples(st.sampled_from(OF_TABLES), st.sampled_from(TABLES)),
    st.tuples(st.just("starts"), st.just("")),
)


def holds_each_offset_once(events):
    with TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "lake")
        for what, of in events:
            if what in ("is applied", "is torn") and isinstance(lake.start(), Refuse):
                return
            lake.happens(what, of)
            if not lake.is_told_apart:
                return
        if isinstance(lake.start(), Refuse):
            return
        lake.batch(lake.and_then({"a": 1, "b": 1}))
        for name in TABLES:
            if f"d.{name}" not in lake.gaps() and not lake.stands_still(name):
                assert lake.rows(name) == [*range(lake.newest.ends[f"p.d.{name}", 0])]


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(st.lists(EVENTS, min_size=2, max_size=6))
def test_whatever_becomes_of_a_lake_s_folders_each_change_is_there_once_or_a_gap_says_so(events):
    holds_each_offset_once(events)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(st.lists(EVENTS, min_size=3, max_size=14))
def test_so_it_is_over_hundreds_of_histories(events):
    holds_each_offset_once(events)


@pytest.mark.parametrize(
    "events",
    [
        [("is applied", {"a": 3}), ("loses a commit", "a"), ("is fenced", "a")],
        [("is applied", {"a": 3}), ("is brought back", MANIFEST), ("is restored", "a")],
        [("is torn", {"a": 3, "b": 3}), ("is restored", "a"), ("is restored", "a")],
        [("is torn", {"a": 2, "b": 3}), ("is brought back", "b"), ("is torn", {"b": 1})],
        [("is restored", "a"), ("starts", ""), ("is restored", "a")],
        [("is applied", {"b": 1}), ("is dropped", "b"), ("is torn", {"a": 3, "b": 2})],
        [("is dropped", "b"), ("is applied", {"b": 1}), ("is brought back", MANIFEST)],
    ],
    ids=lambda events: "-".join(what for what, _ in events),
)
def test_of_these_histories_each_was_broken_once(events):
    holds_each_offset_once(events)
