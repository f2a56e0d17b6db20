"""`commit`: what others do to a table before a commit of ours, behind it or in the middle of it is noticed.

delta-rs makes a commit at whatever version is next, as Spark does: another's append in between is no conflict to either.
"""

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from ingest.lake.delta import other_writers
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.model.errors import IngestError
from ingest.model.names import Marker
from tests.support.direct_lake import DirectLake
from tests.support.restored_by_time import restore_by_time

APP = "ingest/p/c/d.t/mirror"


@pytest.fixture
def lake(tmp_path):
    made = DirectLake(tmp_path, {"id": pa.int64()})
    made.append({"id": [1, 2]})
    return made


def by_another(lake):
    write_deltalake(str(lake.path), lake.rows({"id": [9]}), mode="append")


def ours(lake, identity, term=1):
    """A commit of ours at whatever version is next, as Spark makes it."""
    marker = Transaction(identity.app_id, Marker(term, *identity.place).version)
    properties = CommitProperties(app_transactions=[marker])
    rows = lake.rows({"id": [3]})
    write_deltalake(str(lake.path), rows, mode="append", commit_properties=properties)


def committed(lake, *acts, committer=None, batch=7, **how):
    """One commit, in the middle of which all of this happens; ``ours`` is ours."""
    identity = Identity(APP, batch)

    def act():
        for one in acts:
            one(lake, identity) if one is ours else one(lake)

    made = committer or Committer(1)
    made.once(lake.table, identity, act, **how)
    return made


def optimize(lake):
    DeltaTable(lake.path).optimize.compact()


def set_a_property(lake):
    DeltaTable(lake.path).alter.set_table_properties({"delta.appendOnly": "false"})


@pytest.mark.parametrize("acts", [(by_another, ours), (ours, by_another)], ids=["before", "after"])
def test_what_another_adds_in_the_middle_of_our_commit_is_not_taken_for_known(lake, acts):
    with pytest.raises(ForeignCommitError, match="WRITE"):
        committed(lake, *acts)


@pytest.mark.parametrize("harmless", [optimize, set_a_property])
def test_what_changes_no_row_may_come_in_the_middle_of_our_commit(lake, harmless):
    lake.append({"id": [4]})
    committer = committed(lake, harmless, ours, harmless)
    assert committer.continued(lake.table) == DeltaTable(lake.path).version()


def test_a_restore_to_before_our_commit_is_noticed_and_one_that_keeps_it_is_none(lake):
    at = lake.table.version()
    committed(lake, ours, set_a_property, back(at + 1))
    with pytest.raises(ForeignCommitError, match="RESTORE, version"):
        committed(lake, ours, back(at + 3), batch=8)


def test_a_restore_by_time_to_before_our_commit_is_noticed_wherever_it_was_made(lake):
    """Its time stands in the log by the clock of whoever made it: to the east of us it looked as if it held our commit."""
    at = lake.table.version()
    with pytest.raises(ForeignCommitError, match="RESTORE, version"):
        committed(lake, ours, lambda lake: restore_by_time(lake.path, at, "Asia/Tokyo"))


def test_a_restore_by_time_to_our_commit_undoes_nothing_wherever_it_was_made(lake):
    def to_ours(lake):
        restore_by_time(lake.path, DeltaTable(lake.path).version() - 1, "America/New_York")

    committed(lake, ours, lambda lake: DeltaTable(lake.path).restore(0), to_ours)


def back(to):
    return lambda lake: DeltaTable(lake.path).restore(to)


def test_a_restore_of_a_restore_to_before_our_commit_undoes_no_more_than_that(lake):
    at = lake.table.version()
    with pytest.raises(ForeignCommitError, match="RESTORE, version"):
        committed(lake, ours, back(at), set_a_property, back(at + 2))
    found = other_writers.since(lake.table, at)
    assert found.foreign.restored_to == at
    back(at + 1)(lake)
    assert other_writers.since(lake.table, at).foreign is None


def test_a_restore_that_brings_back_what_another_has_written_makes_nothing_good(lake):
    at = lake.table.version()
    with pytest.raises(ForeignCommitError, match=f"WRITE, version {at + 2}"):
        committed(lake, ours, by_another, back(at + 1), back(at + 2))


def test_a_commit_that_changes_nothing_hides_nobody_else_s(lake):
    assert committed(lake, may_do_nothing=True)
    committed(lake, set_a_property, may_do_nothing=True)
    with pytest.raises(ForeignCommitError, match="WRITE"):
        committed(lake, by_another, may_do_nothing=True)


def test_a_command_without_its_marker_is_an_error_whatever_others_did_meanwhile(lake):
    for acts in ((), (by_another,)):
        with pytest.raises(IngestError, match="without its marker"):
            committed(lake, *acts)


def test_what_another_does_between_a_start_s_look_and_our_first_commit_is_noticed(lake):
    committer = Committer(1)
    committer.begin_anew({lake.table.path: lake.table.version()})
    by_another(lake)
    with pytest.raises(ForeignCommitError, match="WRITE"):
        committed(lake, ours, committer=committer)


def test_what_another_does_behind_our_commit_is_no_version_that_a_batch_publishes(lake):
    committer = committed(lake, ours)
    by_another(lake)
    for _ in range(2):
        with pytest.raises(ForeignCommitError, match="WRITE"):
            committer.continued(lake.table)


def test_once_it_was_decided_upon_another_s_commit_is_known(lake):
    committer = committed(lake, ours)
    by_another(lake)
    committer.begin_anew({lake.table.path: lake.table.version()})
    committed(lake, ours, committer=committer, batch=8)


@pytest.fixture
def lasting(lake, monkeypatch):
    """From which version on the table was brought to the disk, each time."""
    found, real = [], lake.table.make_lasting
    monkeypatch.setattr(
        lake.table, "make_lasting", lambda start: (found.append(start), real(start))
    )
    return found


def test_all_that_a_version_rests_upon_is_lasting_before_it_is_published(lake, lasting):
    committer = Committer(1)
    committer.begin_anew({lake.table.path: 1}, {lake.table.path: 1})
    set_a_property(lake)  # as an ALTER of ours, which has no marker
    committed(lake, ours, committer=committer)
    assert lasting == [2]
    set_a_property(lake)
    optimize(lake)
    now = committer.to_publish(lake.table)
    assert lasting == [2, 4]
    assert now == lake.table.version()
    assert committer.to_publish(lake.table) == now
    assert lasting == [2, 4], "it is by now"


def test_a_table_of_which_nothing_is_known_is_lasting_from_its_first_version_on(lake, lasting):
    Committer(1).to_publish(lake.table)
    assert lasting == [0]


def test_a_commit_that_was_made_and_not_brought_to_the_disk_is_not_made_twice(lake, monkeypatch):
    committer, real = Committer(1), lake.table.make_lasting

    def broken(start):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(lake.table, "make_lasting", broken)
    with pytest.raises(OSError, match="Input/output"):
        committed(lake, ours, committer=committer)
    monkeypatch.setattr(lake.table, "make_lasting", real)
    committer.begin_anew()
    before = lake.count("true")
    assert not committer.once(lake.table, Identity(APP, 7), lambda: pytest.fail("made twice"))
    assert lake.count("true") == before


def test_what_another_job_of_ours_has_committed_is_read_back_though_it_was_seen_before(
    lake, monkeypatch
):
    identity, seen = Identity(APP, 7), []
    committed(lake, ours)
    monkeypatch.setattr(lake.table, "read_back", lambda *which: seen.append(which))
    later = Committer(1)
    assert later.holds(lake.table, identity)
    assert not later.once(lake.table, identity, lambda: pytest.fail("made twice"))
    assert len(seen) == 1
    assert not later.once(lake.table, identity, lambda: pytest.fail("made twice"))
    assert len(seen) == 1
