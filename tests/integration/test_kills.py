"""A slice of the kill matrix and of the faults; `make soak` runs the whole of both."""

import pytest

from tests.kills.faults import FAULTS
from tests.kills.faults.act import fresh
from tests.kills.lab import Lab
from tests.kills.matrix import Cell, run_cell

SLICE = [
    Cell("stream", "table_committed~{db}.bag", "driver"),
    Cell("ddl", "step_committed~{db}.emptied", "connect"),
]
TAKEN = ("resync_keyed",)


@pytest.fixture(scope="module")
def lab(stack, tmp_path_factory):
    made = fresh(Lab(stack, tmp_path_factory.mktemp("kills"), name="kills"))
    yield made
    made.close()


def test_whatever_is_killed_wherever_the_lake_ends_equal_and_faults_are_mended(lab):
    for cell in SLICE:
        run_cell(lab, cell)
    for name in TAKEN:
        FAULTS[name](lab)
