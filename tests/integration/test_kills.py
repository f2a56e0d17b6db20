"""A slice of the kill matrix and of the faults; `make soak` runs the whole of both."""

from collections import Counter

import pytest

from ingest.lake.manifest.manifest_reader import Ledger
from tests.kills.faults import FAULTS
from tests.kills.faults.act import fresh
from tests.kills.lab import Lab
from tests.kills.matrix import SHARE, Cell, run_cell

SLICE = [
    Cell("stream", "table_committed~{db}.bag", "driver"),
    Cell("ddl", "step_committed~{db}.emptied", "connect"),
]
ON_SPARK = [
    Cell("stream", SHARE, "worker"),
    Cell("ddl", "step_committed~{db}.emptied", "driver"),
]
"""With changes read in Spark's tasks and merged by Spark."""
TAKEN = ("resync_keyed",)


@pytest.fixture(scope="module")
def lab(stack, tmp_path_factory):
    made = fresh(Lab(stack, tmp_path_factory.mktemp("kills"), name="kills"))
    yield made
    made.close()


def test_whatever_is_killed_wherever_the_lake_ends_equal_and_faults_are_mended(lab):
    for cell in SLICE:
        run_cell(lab, cell)
    for name in TAKEN:
        FAULTS[name](lab)


@pytest.fixture
def on_spark(stack, tmp_path, monkeypatch):
    monkeypatch.setenv("INGEST_LANE", "spark")
    monkeypatch.setenv("INGEST_MERGE_ENGINE", "spark")
    made = fresh(Lab(stack, tmp_path, name="onspark"))
    yield made
    made.close()


def test_where_spark_reads_and_merges_a_killed_worker_and_a_killed_job_leave_the_lake_equal(
    on_spark,
):
    for cell in ON_SPARK:
        run_cell(on_spark, cell)
    read, engines = Counter(), set()
    for entry in Ledger(str(on_spark.lake)).entries(1000):
        read.update(entry.lanes)
        engines |= {one.engine.partition(":")[0] for one in entry.tables.values() if one.engine}
    assert read["tasks"] > 0
    assert read["driver"] == 0
    assert engines == {"spark"}
