"""The job as a cluster runs it: read in Spark's tasks, merged by Spark, Spark's state in front, on the real chain."""

import shutil
from collections import Counter

import pytest

from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.names import checkpoint_path
from tests.kills.faults.act import command, expect, fresh, restart, stop
from tests.kills.faults.kafka_side import send_again
from tests.kills.lab import Lab
from tests.kills.matrix import SHARE, Cell, run_cell

KILLS = [Cell("stream", SHARE, "worker")]
"""Of many: `make soak` runs the whole matrix so (`tests.kills.matrix`)."""


@pytest.fixture
def lab(stack, tmp_path, monkeypatch):
    monkeypatch.setenv("INGEST_LANE", "spark")
    monkeypatch.setenv("INGEST_MERGE_ENGINE", "spark")
    monkeypatch.setenv("INGEST_LOGS", "1")
    # Spark makes a MERGE of each in each batch: with and without a key, and with hostile values is what there is to see.
    tables = ("keyed", "bag", "hostile")
    made = Lab(stack, tmp_path, name="onspark", tables=tables)
    taken = [f"{made.name}.{table}" for table in tables]
    fresh(made, dedup={"by": "both"}, source={"tables": taken})
    yield made
    made.close()


def sent_again(lab, table):
    """Changes come once more as a worker without transactions sends them. Returns how many were passed over, and how many of them
    the state knew.
    """
    before = lab.entry().batch_id
    lab.touch()  # something new stands behind what comes again
    assert send_again(lab, f"{lab.name}.{lab.name}.{table}", 15) > 0
    lab.touch()
    lab.until(lab._published, "all of it published", 400)
    found = [one for one in Ledger(str(lab.lake)).entries(1000) if one.batch_id > before]
    return sum(one.resent for one in found), sum(one.remembered for one in found)


def forget(lab, **settings):
    """A new job that remembers nothing: Spark's state went with its checkpoint, as its horizon passes."""
    stop(lab)
    lab.settings.update(settings)
    lab.write_pipeline()
    shutil.rmtree(checkpoint_path(str(lab.lake)))
    restart(lab)


def test_snapshot_stream_ddl_kills_and_re_sends_leave_the_lake_equal_and_no_row_passes_through_the_driver(
    lab,
):
    for cell in KILLS:
        run_cell(lab, cell)
    resent, remembered = sent_again(lab, "keyed")
    assert remembered > 0, "found by the state store"
    forget(lab)
    resent, remembered = sent_again(lab, "bag")
    assert resent - remembered > 0, "found by their positions, which know no horizon"
    lab.until_equal()
    lab.refuse_untrue()
    lab.refuse_other_logs()
    read, engines = Counter(), set()
    for entry in Ledger(str(lab.lake)).entries(1000):
        read.update(entry.lanes)
        engines |= {one.engine.partition(":")[0] for one in entry.tables.values() if one.engine}
    assert read["tasks"] > 0
    assert read["driver"] == 0
    assert engines == {"spark"}


@pytest.mark.long
def test_spark_s_state_alone_has_a_horizon_and_the_audit_finds_what_came_again_behind_it(lab):
    run_cell(lab, KILLS[0])
    command(lab, "audit", str(lab.file))
    forget(lab, dedup={"by": "watermark"})
    resent, remembered = sent_again(lab, "bag")
    assert resent == remembered, "nobody asks their positions"
    assert set(lab.differences()) == {"bag"}, (
        "the state alone has a horizon; a row's own position guards tables with a key"
    )
    expect(
        command(lab, "audit", str(lab.file), check=False).returncode, "the audit has not seen it"
    )
