"""Whoever merges a table, and the quarantine too: it is put in order, and versions that are too old go."""

from dataclasses import replace

import pytest

from ingest.maintenance import schedule
from ingest.model.names import quarantine_path
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

BATCHES = 14


@pytest.fixture
def lake(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "LOOK_EVERY", 2)
    made = Lake(spark, tmp_path / "lake", spark={"lane": "spark", "merge_engine": "spark"})
    yield made
    made.close()


def ordered(lake):
    return {one.path for report in lake.seen for one in report.upkeep if one.what == "ordered"}


def files(lake, path):
    return len(lake.session.read.format("delta").load(path).inputFiles())


@pytest.mark.long
def test_what_spark_merges_is_put_in_order_and_the_quarantine_too(lake):
    source = Source()
    table = source.table("d.t", {"id": "INT", "v": "VARCHAR(9)"}, ["id"])
    seen = 0
    for number in range(BATCHES):
        table.insert(id=number, v="a")
        new, seen = source.log[seen:], len(source.log)
        # Without a key, so that nothing waits behind it.
        lake.replay([*new, replace(new[-1], value=b"no JSON", key=None)], quarantine=True)
    path = lake.pipeline.path(table.name)
    assert {path, quarantine_path(str(lake.path))} <= ordered(lake)
    assert not [one for report in lake.seen for one in report.upkeep if one.what == "failed"]
    assert files(lake, path) < BATCHES
    assert files(lake, quarantine_path(str(lake.path))) < BATCHES
    assert_rows(lake.table(table), table.rows)
    assert lake.quarantined().count() == BATCHES
