"""What a predecessor commits after its successor's fence: nothing, under whichever app id."""

import pytest

from ingest.changes import quarantine_rows
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker, quarantine_path
from ingest.start.fencing import fence_every_target
from ingest.testing.lake import Lake
from ingest.testing.source import Source


@pytest.fixture
def lake(spark, tmp_path):
    """A table without a key, and one with a key."""
    made, source = Lake(spark, tmp_path / "lake"), Source()
    source.table("d.bag", {"v": "INT"}, rows=[{"v": 1}])
    source.table("d.keyed", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    made.follow(source)
    yield made
    made.close()


def set_aside(lake, committer, app_id, batch):
    """A change of the bag that removes a row which is not there, as Spark's engine sets it aside."""
    reason = "the row to remove is not in the lake"
    row = (batch, reason, "d", "bag", "p.d.bag", 0, batch, *[None] * 5)
    rows = lake.session.createDataFrame([row], quarantine_rows.SCHEMA)
    path, schema = quarantine_path(str(lake.path)), quarantine_rows.SCHEMA
    committer.append_once(sibling(lake.session), path, schema, rows, Identity(app_id, batch))


def test_a_predecessor_that_wakes_up_puts_no_row_into_quarantine_once_more(lake):
    checkpoint = lake.batches.newest.checkpoint_id
    app_id = f"ingest/p/{checkpoint}/d.bag/mirror-absent"
    predecessor = Committer(lake.term)
    set_aside(lake, predecessor, app_id, 5)
    quarantine = SparkTable(lake.session, quarantine_path(str(lake.path)))
    before = quarantine.version()
    fence_every_target(lake.session, lake.pipeline, Committer(lake.term + 1))
    assert quarantine.version() == before + 1  # all app ids in one commit
    with pytest.raises(LeaseLostError):
        set_aside(lake, predecessor, app_id, 6)
    assert [row.batch_id for row in lake.quarantined().collect()] == [5]
    assert quarantine.committed(app_id) == Marker(lake.term + 1, 5, 0).version
    successor = Committer(lake.term + 1)
    set_aside(lake, successor, app_id, 5)
    set_aside(lake, successor, app_id, 6)
    assert sorted(row.batch_id for row in lake.quarantined().collect()) == [5, 6]


def test_after_a_fence_the_lake_goes_on_where_it_was(lake):
    newest = lake.batches.newest
    held = {
        name: SparkTable(lake.session, state.path).markers()
        for name, state in newest.tables.items()
    }
    fence_every_target(lake.session, lake.pipeline, Committer(lake.term + 1))
    for name, state in newest.tables.items():
        now = SparkTable(lake.session, state.path).markers()
        for app_id, version in held[name].items():
            fenced = Marker.parse(now[app_id])
            assert (fenced.term, fenced.place) == (lake.term + 1, Marker.parse(version).place)
    fence_every_target(lake.session, lake.pipeline, Committer(lake.term + 1))  # again: no harm
    lake.start()
    assert lake.batches.newest.batch_id == newest.batch_id
