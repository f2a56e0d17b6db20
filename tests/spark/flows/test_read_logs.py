"""A flow and a change log that goes back, or is made again, under it: what it does not bring is never passed over in silence."""

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from ingest.flows import flow_query
from ingest.model.errors import IngestError
from ingest.testing.source import Source
from tests.support.flows import OneFlow, dying
from tests.support.totals_shop import JOINED, SUMS, Shop

TEXT = "SELECT after.id id FROM words WHERE after IS NOT NULL"


class Read:
    """A flow that reads the change log of `d.t`, and has read it as far as it goes; a copy of the log's folder of before its last two batches."""

    def __init__(self, spark, folder, logged, *, upkeep=False):
        self.spark, self.copy = spark, folder / "copy"
        self.source, self.lake = Source(), logged()
        self.table = self.source.table("d.t", {"id": "INT"}, ["id"])
        self.log = Path(self.lake.pipeline.change_log_path(self.table.name))
        self.put(1)
        shutil.copytree(self.log, self.copy)
        self.put(2)
        self.put(3)
        self.flow = OneFlow(spark, folder, TEXT)
        self.begins()
        if upkeep:
            spark.sql(f"OPTIMIZE delta.`{self.log}`")
        self.flow.run()

    def begins(self, **settings):
        given = {"inputs": {"words": {"change_log": "d.t"}}, **settings}
        self.flow.change(TEXT, **given)
        self.flow.pipeline = self.lake.pipeline.model_copy(
            update={"flows": self.flow.pipeline.flows}
        )

    def put(self, id_):
        self.table.insert(id=id_)
        self.lake.follow(self.source)

    def replaced(self, by=None):
        """The log's folder, by another or by none, while the job stands."""
        self.lake.close()
        shutil.rmtree(self.log)
        if by is not None:
            shutil.copytree(by, self.log)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.lake.start()

    def ids(self):
        rows = self.spark.read.format("delta").load(str(self.lake.path / "out")).collect()
        return sorted(row.id for row in rows)


def test_an_older_copy_and_one_that_was_made_again_are_refused_or_begun_anew(
    spark, tmp_path, logged
):
    one = Read(spark, tmp_path, logged)
    assert one.ids() == [1, 2, 3]
    one.replaced(one.copy)
    with pytest.raises(IngestError, match="log of d.t is older than what was read of it"):
        one.flow.run()
    one.put(4)
    one.begins(on_change="restart")
    one.flow.run()
    assert one.ids() == [1, 4], "all that the log has"
    one.replaced()
    one.put(5)
    one.begins()
    with pytest.raises(IngestError, match="the change log of d.t was made again"):
        one.flow.run()
    one.begins(on_change="restart")
    one.flow.run()
    assert one.ids() == [5]


def test_an_older_copy_that_has_grown_beyond_what_was_read_is_told_by_its_batches(
    spark, tmp_path, logged
):
    one = Read(spark, tmp_path, logged, upkeep=True)
    one.replaced(one.copy)
    for id_ in (4, 5, 6, 7):
        one.put(id_)
    with pytest.raises(IngestError, match="went back, and has other changes"):
        one.flow.run()
    note = next(Path(one.flow.kept.path).glob("noted-*/logs"))
    note.unlink()  # as of an earlier version
    one.flow.run()
    assert 7 in one.ids()
    assert note.exists()


def test_one_that_goes_on_is_gone_on_with_whatever_dies(spark, tmp_path, logged):
    one = Read(spark, tmp_path, logged)
    one.lake.start()
    one.put(4)
    with patch.object(flow_query, "reached", dying("flow_written")):
        one.flow.run()
    one.flow.run()
    assert one.ids() == [1, 2, 3, 4]


@pytest.mark.long
def test_what_a_power_cut_took_back_is_waited_for(spark, tmp_path, logged):
    one = Read(spark, tmp_path, logged)
    (note,) = Path(one.flow.kept.path).glob("noted-*/logs")
    ((id_, (version, batch)),) = json.loads(note.read_text()).items()
    note.write_text(json.dumps({id_: [version, batch + 1]}))
    one.lake.close()
    for name in one.log.glob(f"_delta_log/{version:020}.*"):
        name.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(IngestError, match="waits for the mirrors"):
        one.flow.run()


@pytest.mark.long
def test_of_totals_over_several_logs_the_one_that_was_made_again_is_named(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    shop.lake.close()
    shutil.rmtree(shop.lake.pipeline.change_log_path(shop.customers.name))
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    shop.lake.start()
    shop.customers.insert(id=10, region="far")
    shop.orders.insert(id=900, customer=10, status="new", amount=7)
    shop.lake.follow(shop.source)
    with pytest.raises(IngestError, match=r"the change log of d\.customers was made again"):
        shop.flow.run()
    shop.again(JOINED, on_change="restart")
    shop.flow.run()
    assert shop.audit() == 0
