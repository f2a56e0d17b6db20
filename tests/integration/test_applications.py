"""A real application's tables and its upgrade from 2.1.9 to 5.2.2; `make soak` runs them all."""

import pytest

from tests.applications.applications import SPRING_BATCH
from tests.applications.drive import Drive


@pytest.mark.long
def test_a_real_application_is_equal_before_and_after_its_upgrade(stack, spark, tmp_path):
    outcome = Drive(SPRING_BATCH, stack, tmp_path, spark, seed=25, rows=4, transactions=30).run()
    assert outcome.verdicts == [
        "before: oracle equal, audit equal",
        "after: oracle equal, audit equal",
    ]
    assert outcome.killed
    assert outcome.ddl["create_table"] == 10
    assert outcome.ddl["alter_table"] == 11
    assert not [said for said in outcome.refused if not said.startswith("traffic")]
