"""What a start does beside what it decides."""

import pytest

from ingest.lake.files import durability
from ingest.start import repair
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
