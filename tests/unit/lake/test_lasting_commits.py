"""What somebody else has committed, brought to the disk."""

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.lake.delta import lasting_commits
from ingest.lake.delta.lasting_commits import make_lasting
from tests.support.direct_lake import DirectLake


@pytest.fixture
def lake(tmp_path):
    found = DirectLake(tmp_path, {"id": pa.int32(), "v": pa.string()})
    for number in range(1, 5):
        found.append({"id": [number], "v": ["x"]})
    return found


def entry(lake, version):
    return lake.path / "_delta_log" / f"{version:020d}.json"


def files_of(lake, version):
    lines = map(json.loads, entry(lake, version).read_text().splitlines())
    return [lake.path / line["add"]["path"] for line in lines if "add" in line]


def test_what_somebody_else_has_committed_is_made_lasting_with_all_that_it_names(lake, monkeypatch):
    DeltaTable(lake.path).delete("id = 1")
    seen = []
    monkeypatch.setattr(lasting_commits.durability, "contents", seen.append)
    monkeypatch.setattr(lasting_commits.durability, "names", seen.append)
    make_lasting(lake.path, 4)
    assert {
        *files_of(lake, 4),
        entry(lake, 4),
        entry(lake, 5),
        lake.path,
        entry(lake, 5).parent,
    } <= {*seen}
    assert entry(lake, 3) not in seen
