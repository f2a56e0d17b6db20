"""Somebody's RESTORE … TO TIMESTAMP AS OF, by a Spark whose Java has its clock in another zone: the log has no zone with the time."""

import time
from contextlib import contextmanager
from functools import partial

import pytest

from ingest.lake.delta import other_writers
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable


@contextmanager
def java_s_clock_in(spark, zone):
    zones, setting = spark._jvm.java.util.TimeZone, "spark.sql.session.timeZone"
    before, session_s = zones.getDefault(), spark.conf.get(setting)
    zones.setDefault(zones.getTimeZone(zone))
    spark.conf.set(setting, zone)
    try:
        yield
    finally:
        zones.setDefault(before)
        spark.conf.set(setting, session_s)


@pytest.fixture
def table(small):
    """Versions 0 to 3; 4 and 5 are ours, 6 is somebody's. Both of ours mark rows of the same file as deleted."""
    alter = f"ALTER TABLE delta.`{small.path}` SET TBLPROPERTIES"
    small.session.sql(f"{alter} ('delta.enableDeletionVectors' = 'true')")
    own = SparkTable(sibling(small.session), small.path)
    own.session.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", "true")
    for number in (1, 2):
        time.sleep(0.05)
        delete = partial(own.delta().delete, f"id = {number}")
        Committer().once(own, Identity("ingest/p/c/d.t/mirror", number), delete)
    small.session.sql(f"{alter} ('a' = 'b')")
    return small


def handles(table, folder):
    return table, DeltaRsTable(SparkTable(table.session, table.path), folder / "scratch")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_both_handles_know_which_version_it_went_back_to(spark, table, folder, zone, version):
    history = table.delta().history().selectExpr("version", "timestamp").collect()
    (at,) = (row.timestamp for row in history if row.version == version)
    with java_s_clock_in(spark, zone):
        shown = spark._jvm.java.sql.Timestamp(int(at.timestamp() * 1000)).toString()
        table.delta().restoreToTimestamp(shown)
    for handle in handles(table, folder):
        foreign = other_writers.since(handle, 5).foreign
        assert (foreign and foreign.restored_to) == (None if version == 5 else version)
    committer = Committer()
    committer.begin_anew({table.path: 5})
    if version < 5:
        with pytest.raises(ForeignCommitError, match="RESTORE, version 7"):
            committer.continued(table)
    else:
        assert committer.continued(table) == 7
