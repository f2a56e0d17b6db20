"""What somebody else has committed, brought to the disk."""

import pytest
from deltalake import DeltaTable

from ingest.lake.delta import lasting_commits
from ingest.lake.delta.lasting_commits import make_lasting
from tests.support.direct_lake import DirectLake


@pytest.fixture
def lake(tmp_path):
    return DirectLake.of_batches(tmp_path, 4)


def test_what_somebody_else_has_committed_is_made_lasting_with_all_that_it_names(lake, monkeypatch):
    DeltaTable(lake.path).delete("id = 1")
    seen = []
    monkeypatch.setattr(lasting_commits.durability, "contents", seen.append)
    monkeypatch.setattr(lasting_commits.durability, "names", seen.append)
    make_lasting(lake.path, 4)
    assert {
        *lake.files_of(4),
        lake.entry(4),
        lake.entry(5),
        lake.path,
        lake.entry(5).parent,
    } <= {*seen}
    assert lake.entry(3) not in seen
