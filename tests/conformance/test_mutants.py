"""Every guard of the apply path is needed: a mutant without it is killed by the scenario that names it."""

import os
from dataclasses import replace
from unittest.mock import patch

import pytest

from ingest.changes import dedup, envelope
from ingest.model.errors import IngestError
from ingest.targets import mirror
from tests.conformance.mutants import MUTANTS, no_position, plan
from tests.conformance.scenarios import SCENARIOS
from tests.conformance.targets import ENGINE

ALL = os.environ.get("INGEST_MUTANTS") == "all"
HERE = [mutant for mutant in MUTANTS if mutant.engine in ("", ENGINE)]


@pytest.mark.parametrize("mutant", HERE if ALL else HERE[:2], ids=str)
def test_mutant_is_killed(spark, tmp_path, mutant):
    envelope._envelope.cache_clear()
    try:
        with mutant.in_place(), pytest.raises((AssertionError, IngestError)):
            SCENARIOS[mutant.killed_by].run(spark, tmp_path)
    finally:
        envelope._envelope.cache_clear()


def test_with_the_row_s_position_alone_the_final_content_is_still_right(spark, tmp_path):
    """Take the high-water position away: what is sent again in full ends right all the same."""
    scenario = SCENARIOS["a_deleted_row_does_not_come_back_when_older_changes_are_sent_again"]
    everything = [each for batch in scenario.batches[:2] for each in batch]
    again = replace(scenario, batches=[everything] * 2, rows=scenario.rows[1:], only_final=True)
    with patch.object(dedup, "marked", no_position(dedup.marked)):
        again.run(spark, tmp_path)


def test_with_the_high_water_position_alone_no_version_goes_back(spark, tmp_path):
    """Take the row's own position away: what is sent again is recognised before it."""
    scenario = SCENARIOS["a_deleted_row_does_not_come_back_when_older_changes_are_sent_again"]
    with patch.object(
        mirror,
        "mirror_plan",
        plan(update_when="s._ingest.op <> 'd'", delete_when="s._ingest.op = 'd'")(
            mirror.mirror_plan
        ),
    ):
        scenario.run(spark, tmp_path)
