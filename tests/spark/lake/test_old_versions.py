"""Versions of a table that are read, or brought back, long after they were made."""

import os
import shutil
import time

import pytest

from ingest.flows import table_versions
from ingest.lake.delta.spark_table import SparkTable

LONG_AGO = time.time() - 60 * 86_400


@pytest.fixture
def quiet(spark, tmp_path):
    """A table whose rows are of months ago, and behind them a commit of its upkeep: elsewhere than where Delta has seen them."""
    made, table = tmp_path / "made", tmp_path / "t"
    spark.range(3).write.format("delta").save(str(made))
    spark.sql(
        f"ALTER TABLE delta.`{made}` SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 7 days', "
        "'delta.deletedFileRetentionDuration' = 'interval 7 days')"
    )
    shutil.copytree(made, table)
    for entry in (table / "_delta_log").glob("*0.*"):
        os.utime(entry, (LONG_AGO, LONG_AGO))
    return table


def test_the_version_that_the_manifest_names_is_read_however_long_ago_it_was_made(spark, quiet):
    assert table_versions.at(spark, str(quiet), 0).count() == 3


def test_it_is_brought_back_too(spark, quiet):
    spark.range(3, 9).write.format("delta").mode("append").save(str(quiet))
    SparkTable(spark, str(quiet)).restore(0)
    assert spark.read.format("delta").load(str(quiet)).count() == 3
