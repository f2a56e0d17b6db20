"""Two writers of one table in an object store, of Spark, delta-rs and our own committer: each version is made by one, and the other is told."""

from functools import cache

import pytest

from tests.object_store.commits_seen import FAULTS
from tests.object_store.two_writers import ANSWERS, PAIRS
from tests.object_store.writers import WAYS
from tests.support import own_process

WITHOUT_FAULT = {name: [] for name in FAULTS}
SHORT = ("held", "faults", "by_deltas_own", "by_plain_puts")


@cache
def came_out(scenes=SHORT, rounds=8):
    arguments = ("--rounds", str(rounds), "--scenes", *scenes)
    return own_process.came_out("tests.object_store.two_writers", *arguments, seconds=800)


def faults(found):
    return {name: found[name] for name in FAULTS}


@pytest.mark.parametrize("pair", PAIRS)
def test_each_version_is_one_writer_s_as_that_one_wrote_it_and_the_other_is_told(pair):
    is_each_by_one(came_out()["held"][pair])


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS)
def test_so_it_is_however_they_meet(pair):
    is_each_by_one(came_out(("race",), 40)["race"][pair])


def is_each_by_one(found):
    assert faults(found) == WITHOUT_FAULT
    assert found["failures"] == {}
    assert sum(found["entries"].values()) == found["confirmed"]


def test_each_of_them_was_beaten_between_its_look_and_its_write_in_each_way_of_ours():
    found = {pair: came_out()["held"][pair] for pair in PAIRS}
    assert [one["met"] for one in found.values()] == [2, 6, 6]
    assert found["delta-rs-and-spark"]["beaten"] == {"delta-rs": 1, "spark": 1}
    ours = {f"ours:{way}" for way in WAYS}
    assert {*found["ours-and-spark"]["entries"]} == {"spark", *ours}
    assert sum(found["ours-and-spark"]["beaten"].values()) == 6
    assert found["ours-and-spark"]["beaten"]["spark"] == 3
    assert sum(found["ours-and-ours"]["beaten"].values()) == 6


@pytest.mark.parametrize("answer", ANSWERS)
def test_whatever_becomes_of_answers_to_commits_of_spark_and_of_ours_none_is_lost_or_made_twice(
    answer,
):
    found = came_out()["faults"][answer]
    assert faults(found) == WITHOUT_FAULT
    denied = {"ours:append: LakeDeniedError": 1, "spark: S3Exception": 1}
    assert found["failures"] == (denied if answer == "denied" else {})
    assert found["confirmed"] == 2
    assert bool(found["met_itself"]) == (answer == "lost")


def test_a_writer_that_looks_first_and_writes_then_loses_commits_and_that_is_seen():
    """The same meetings with Delta's own log store, and with our committer's condition left out: else nothing was met above."""
    for scene in ("by_deltas_own", "by_plain_puts"):
        (found,) = came_out()[scene].values()
        for fault in ("not_by_one", "not_as_written", "lost"):
            assert found[fault], (scene, fault)
