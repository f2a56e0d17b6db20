"""Totals while a table is being read again: its change log holds what the table does not yet."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from ingest.flows import flow_runs, published_batch
from ingest.model.errors import IngestError
from tests.support.totals_shop import JOINED, SUMS, Shop


def test_totals_wait_for_a_table_that_is_being_read_again(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    for id_ in range(10, 30):
        shop.customers.insert(id=id_, region="far")
    shop.lake.follow(shop.source)
    shop.flow.run()
    shop.lake.close()
    shop.lake._held(shop.customers).restore(0)
    shop.lake.start()
    shop.orders.insert(id=900, customer=28, status="new", amount=7)
    new = shop.source.log[shop.lake._followed[shop.source] :]
    shop.lake._followed[shop.source] += len(new)
    for record in new:
        shop.lake.log.add(record)
    ends = shop.lake.log.ends()
    half = {place: end - 5 if "customers" in place[0] else end for place, end in ends.items()}
    shop.lake.apply(half)
    with (
        patch.object(published_batch, "WAITS", 0.0),
        patch.object(flow_runs, "_TRIES", 1),
        pytest.raises(IngestError, match="is being read again"),
    ):
        shop.flow.run()
    shop.lake.apply(ends)
    shop.flow.run()
    assert shop.audit() == 0
    assert any(row["region"] == "far" for row in shop.flow.rows())


@pytest.mark.long
def test_a_table_that_has_come_to_the_same_version_once_more_is_not_taken_for_what_it_was(
    spark, tmp_path, logged
):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS, inputs=("customers", "orders"))
    folder = Path(shop.lake._held(shop.customers).path)
    shutil.copytree(folder, tmp_path / "copy")
    for ids in ((10, 11), (12, 13)):
        for id_ in ids:
            shop.customers.insert(id=id_, region="far")
            shop.orders.insert(id=800 + id_, customer=id_, status="new", amount=1)
        shop.lake.follow(shop.source)
    shop.flow.run()
    shop.lake.close()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    shop.lake.start()
    ends = shop.lake.log.ends()
    for left in (3, 2, 1, 0):  # one change in each version, where it were two
        shop.lake.apply({at: end - left * ("customers" in at[0]) for at, end in ends.items()})
    for id_ in (812, 813):
        shop.orders.update(id_, amount=5)
    shop.lake.follow(shop.source)
    shop.flow.run()
    assert shop.audit() == 0
