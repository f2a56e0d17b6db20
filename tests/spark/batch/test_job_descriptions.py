"""Spark's UI, where it is switched on, says which table each job is for."""

import pytest

from ingest.batch import job_descriptions
from ingest.testing.lake import Lake
from ingest.testing.source import Source


def descriptions(spark):
    """Of all jobs that Spark knows of, as its UI shows them."""
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    found = (jobs.apply(number).description() for number in range(jobs.size()))
    return {one.get() for one in found if one.isDefined()}


@pytest.mark.parametrize("seen", [True, False])
def test_each_job_of_a_batch_is_called_by_what_it_does(spark, tmp_path, monkeypatch, seen):
    monkeypatch.setattr(job_descriptions, "_is_seen", lambda _: seen)
    settings = {"lane": "spark", "merge_engine": "spark"}
    lake, source = Lake(spark, tmp_path / "lake", spark=settings), Source()
    one = source.table(f"d.one{seen}", {"id": "INT"}, ["id"])
    loose = source.table(f"d.loose{seen}", {"id": "INT"})
    one.insert(id=1)
    loose.insert(id=1)
    spark.sparkContext.setJobDescription("mine")
    lake.follow(source)
    wanted = {
        f"batch 1: p.d.one{seen}, read by Arrow",
        f"batch 1: p.d.loose{seen}, read by Spark's columns",
        f"batch 1: d.one{seen}, merged",
        f"batch 1: d.loose{seen}, merged",
    }
    assert wanted & descriptions(spark) == (wanted if seen else set())
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext._jsc.sc().setLocalProperty("spark.job.description", None)
    lake.close()
