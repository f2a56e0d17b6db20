"""The same suite, unmodified, on the job itself: Spark, Delta, crashes and restarts."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.histories import histories
from tests.conformance.suite import mirrors_conform
from tests.conformance.targets import SparkTarget

DRAWN = int(os.environ.get("INGEST_SPARK_HISTORIES", "8"))
CONFORMED: list[object] = []
TOGETHER = 8
"""Tables of one lake, a history each: a batch costs the same for all of them but for its MERGEs."""
SLOW = settings(
    max_examples=max(1, DRAWN // TOGETHER),
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("engine", ["spark", "delta-rs", "deletion-vectors"])
@SLOW
@given(drawn=st.lists(histories(), min_size=TOGETHER, max_size=TOGETHER))
def test_mirrors_on_spark_and_delta_are_what_the_source_holds(
    spark, tmp_path_factory, engine, drawn
):
    folder = tmp_path_factory.getbasetemp()
    target = SparkTarget(spark, folder, *drawn, spark={"merge_engine": engine})
    try:
        mirrors_conform(drawn, target)
        CONFORMED.extend(drawn)
        print(f"{len(CONFORMED)} histories conform", flush=True)
    finally:
        target.remove()
