"""A slice of the random DDL histories; `make soak` runs hundreds."""

from tests.ddl.histories import WRITTEN
from tests.ddl.marathon import round_of


def test_whatever_ddl_and_traffic_do_together_the_lake_ends_equal(stack, tmp_path):
    assert set(round_of(stack, tmp_path, [7]).values()) == {"equal"}


def test_what_mysql_does_to_rows_without_an_event_of_them_ends_equal(stack, tmp_path):
    assert set(round_of(stack, tmp_path, list(WRITTEN)).values()) == {"equal"}
