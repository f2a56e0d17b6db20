"""The same suite, unmodified, on the job itself: Spark, Delta, crashes and restarts."""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.targets import registry
from tests.conformance.histories import histories, history
from tests.conformance.suite import kept_conforms, logs_conform, mirrors_conform
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


@pytest.mark.timeout(0)
@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.long), "delta-rs"])
@SLOW
@given(seeds=st.lists(st.integers(0, 2**32), min_size=4, max_size=4, unique=True))
def test_change_logs_hold_each_change_once_and_folded_are_the_tables(
    spark, tmp_path_factory, engine, seeds
):
    # By seed, as below: with crashes and snapshots that began again.
    drawn = [history(random.Random(seed)) for seed in seeds]
    folder, logs = tmp_path_factory.getbasetemp(), {"targets": ["mirror", "change_log"]}
    target = SparkTarget(spark, folder, *drawn, spark={"merge_engine": engine}, defaults=logs)
    try:
        mirrors_conform(drawn, target)
        logs_conform(drawn, target)
    finally:
        target.remove()


KEEPING = [one for one in registry.TARGETS if one.dead]
ASKED = {"soft_deletes": {"deletes": "soft"}}
"""How the pipeline file asks for them."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kept_as", KEEPING, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "engine", [pytest.param("spark", marks=pytest.mark.long), "delta-rs", "deletion-vectors"]
)
@SLOW
@given(seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=2, unique=True))
def test_what_counts_is_what_the_source_holds_and_the_rest_is_what_the_target_keeps(
    spark, tmp_path_factory, engine, kept_as, seeds
):
    # By seed: the first history that Hypothesis draws is the simplest one, and by default there is no second.
    drawn = [history(random.Random(seed), keyed=True) for seed in seeds]
    folder = tmp_path_factory.getbasetemp()
    tables = {"d.*": ASKED[kept_as.name]}
    target = SparkTarget(spark, folder, *drawn, spark={"merge_engine": engine}, tables=tables)
    try:
        mirrors_conform(drawn, target)
        kept_conforms(drawn, kept_as, target)
    finally:
        target.remove()
