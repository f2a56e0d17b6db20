"""What tests of upkeep share."""

import pytest

from ingest.lake.delta import delta_rs_table
from ingest.lake.files import lease as lease_module
from ingest.maintenance import file_layout, schedule
from tests.unit.maintenance.looked_after import Lake


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(lease_module, "BEAT_EVERY", 0.1)
    monkeypatch.setattr(lease_module, "EXPIRES_AFTER", 0.4)
    monkeypatch.setattr(delta_rs_table, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(schedule, "LOOK_EVERY", 1)
    monkeypatch.setattr(file_layout, "MANY_SMALL", 2)


@pytest.fixture
def lake(tmp_path, quick):
    found = Lake(tmp_path)
    yield found
    for one in found._leases:
        one._ended.set()
