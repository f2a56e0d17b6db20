"""Flows that fail are tried again at once."""

import pytest

from ingest.flows import flow_runs


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(flow_runs, "PAUSE", 0.05)
