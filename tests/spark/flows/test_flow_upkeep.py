"""A flow's tables do not grow without bound: their files are put together behind its batches, and no row changes."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from ingest.flows import flow_upkeep
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.maintenance import schedule, vacuum_times
from ingest.model.names import scratch_path
from tests.support.flows import OneFlow, at, words

EACH = "SELECT at, upper(word) word FROM words"
COUNTED = "SELECT window(at, '5 minutes') window, word, count(*) count FROM words GROUP BY window(at, '5 minutes'), word"


def table_of(flow):
    return DeltaTable(flow.folder / "lake" / "out")


def operations(flow):
    return [one["operation"] for one in table_of(flow).history()]


@pytest.mark.parametrize("mode", ["append", pytest.param("complete", marks=pytest.mark.long)])
def test_files_are_put_together_and_old_versions_go(spark, tmp_path, monkeypatch, mode):
    text, settings = (EACH, {}) if mode == "append" else (COUNTED, {"mode": "complete"})
    monkeypatch.setattr(vacuum_times, "_AT_MOST_EVERY", 0.0)
    monkeypatch.setattr(vacuum_times, "_PER_HOURS", 1e9)
    flow = OneFlow(spark, tmp_path, text, **settings)
    flow.pipeline = flow.pipeline.model_copy(
        update={"lake": flow.pipeline.lake.model_copy(update={"history_hours": 0})}
    )
    for number in range(14):
        flow.put(words((at(number), "cat")))
    flow.run()
    rows = flow.rows()
    assert (len(rows) if mode == "append" else sum(row["count"] for row in rows)) == 14
    there = {one.name for one in (flow.folder / "lake" / "out").glob("*.parquet")}
    if mode == "append":
        assert "OPTIMIZE" in operations(flow)
        assert len(table_of(flow).file_uris()) < 8
    assert len(there) < 14, "old files went"
    assert not [one for one in flow.said if "cannot be" in one]
    assert not list(Path(scratch_path(str(flow.folder / "lake"))).glob("flow-*/*"))


@pytest.mark.long
def test_a_flow_that_is_begun_again_goes_on_behind_what_was_put_in_order(spark, tmp_path):
    flow = OneFlow(spark, tmp_path, EACH)
    for number in range(14):
        flow.put(words((at(number), "cat")))
    flow.run()
    assert "OPTIMIZE" in operations(flow)
    flow.put(words((at(15), "dog")))
    flow.run()
    flow.run()
    assert sorted(row["word"] for row in flow.rows()) == ["CAT"] * 14 + ["DOG"]


@pytest.mark.long
def test_a_table_that_cannot_be_put_in_order_ends_no_batch(spark, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("no")

    monkeypatch.setattr(schedule, "compact", fails)
    flow = OneFlow(spark, tmp_path, EACH)
    for number in range(14):
        flow.put(words((at(number), "cat")))
    flow.run()
    assert len(flow.rows()) == 14
    assert [one for one in flow.said if "cannot be put in order by this job: no" in one]


@pytest.mark.long
def test_what_delta_rs_does_not_write_is_left_as_it_is(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(flow_upkeep, "WRITABLE", frozenset())
    monkeypatch.setattr(DeltaRsTable, "features", lambda _: frozenset({"columnMapping"}))
    flow = OneFlow(spark, tmp_path, EACH)
    for number in range(14):
        flow.put(words((at(number), "cat")))
    flow.run()
    assert "OPTIMIZE" not in operations(flow)
    assert len(flow.rows()) == 14
