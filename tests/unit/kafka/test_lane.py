"""`lane`: where a batch's plain changes are read."""

import pytest

from ingest.kafka.lane import LaneFacts, lane, stays


def facts(wanted="auto", one_machine=True, records=10_000, size=8, state=False):
    return LaneFacts(wanted, one_machine, state, records, size, 10_000, 8)


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        (facts(), "driver"),
        (facts(records=10_001), "spark"),
        (facts(size=9), "spark"),
        (facts(one_machine=False, records=1), "spark"),
        (facts(state=True, records=1), "spark"),
        (facts("spark", records=1), "spark"),
        (facts("driver", one_machine=False, records=10**9), "driver"),
    ],
)
def test_the_driver_reads_what_is_small_on_one_machine_and_sparks_tasks_all_else(found, chosen):
    assert lane(found) == chosen


def test_rows_stay_with_a_cluster_s_tasks_unless_they_are_few():
    assert stays(facts(one_machine=False, records=10_001))
    assert stays(facts(one_machine=False, size=9))
    assert not stays(facts(one_machine=False))
    assert not stays(facts(records=10**9))
