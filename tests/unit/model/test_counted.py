"""How many there are, in words."""

from ingest.cli.batches import _column
from ingest.model.counted import counted


def test_one_is_one_and_all_others_are_many():
    assert [counted(many, "row") for many in (0, 1, 2, 2_000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "2,000 rows",
    ]


def test_numbers_of_lines_stand_below_each_other_and_so_does_what_comes_behind():
    lines = [f"{_column(many, 9, 'change')}|" for many in (1, 2, 1_000_000)]
    assert lines == ["        1 change |", "        2 changes|", "1,000,000 changes|"]
