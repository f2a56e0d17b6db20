"""The manifest's rows by their numbers, of which some may be left out."""

from dataclasses import replace

import pytest

from ingest.lake.manifest import next_entry
from ingest.lake.manifest.manifest_reader import Ledger
from tests.support.small_lake import SmallLake

NUMBERS = (1, 2, 3, 500, 501, 9000)
"""A batch of thousands of DDLs takes several numbers, and a start takes none that a commit has."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    lake = SmallLake(tmp_path_factory.mktemp("numbers") / "lake")
    for number in NUMBERS:
        lake.publish(replace(next_entry.before_the_first("abc"), batch_id=number))
    return Ledger(str(lake.root))


@pytest.mark.parametrize(
    ("newest", "below", "found"),
    [
        (1, None, (9000,)),
        (3, None, (9000, 501, 500)),
        (100, None, (9000, 501, 500, 3, 2, 1)),
        (1, 9000, (501,)),
        (2, 500, (3, 2)),
        (1, 400, (3,)),
        (5, 2, (1,)),
        (1, 1, ()),
    ],
)
def test_the_newest_rows_below_a_number_are_found_over_numbers_that_are_left_out(
    ledger, newest, below, found
):
    assert tuple(one.batch_id for one in ledger.entries(newest, below=below)) == found
