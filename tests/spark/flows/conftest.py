"""Flows that fail are tried again at once."""

import pytest

from ingest.flows import flow_runs


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(flow_runs, "PAUSE", 0.05)


@pytest.fixture
def stream(spark, tmp_path):
    """An empty one, of `at timestamp, word string`, with a watermark where it is asked for."""
    (tmp_path / "in").mkdir()

    def made(watermark=True):
        reader = spark.readStream.schema("at timestamp, word string")
        found = reader.json(str(tmp_path / "in"))
        return found.withWatermark("at", "10 minutes") if watermark else found

    return made
