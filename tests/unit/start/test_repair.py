"""What a start does beside what it decides."""

import pytest

from ingest.lake.files import durability
from ingest.lake.files.lease import LeaseLostError
from ingest.start import repair
from tests.support.leases import quick_leases
from tests.support.small_lake import Crash, SmallLake


def test_what_was_committed_and_not_published_is_on_the_disk_before_it_is_rested_upon(
    tmp_path, monkeypatch
):
    """The job before was killed, so nothing of it is lost yet; the power may be, once today's manifest names it."""
    synced = list[str]()
    monkeypatch.setattr(
        durability, "everything", lambda folders: synced.extend(one.name for one in folders)
    )
    lake = SmallLake(tmp_path / "lake")
    lake.batch({"a": 3, "b": 2})
    repair._make_lasting(lake.facts())
    assert synced == [], "it is, by who published it"
    with pytest.raises(Crash):
        lake.apply(lake.note({"a": 5, "b": 4}), crash=1)
    repair._make_lasting(lake.facts())
    assert synced == ["a"]


def test_a_job_suspended_in_the_middle_of_its_restores_undoes_nothing_of_its_successor_s(
    tmp_path, monkeypatch
):
    """No fence refuses a RESTORE, so the lease is asked for before each."""
    restored = list[str]()
    with quick_leases(str(tmp_path)) as leases:

        class Table:
            def __init__(self, _, path):
                self.path = path

            def version(self):
                return 5

            def restore(self, _):
                restored.append(self.path)
                leases.take()  # it is suspended right behind this

        monkeypatch.setattr(repair, "SparkTable", Table)
        tables = repair._Tables(None, leases.take().refuse_lost)
        with pytest.raises(LeaseLostError):
            tables.restore([("a", 3), ("b", 3)])
    assert restored == ["a"]
