"""What of a table cannot be compared is said, with why; and when the lake is beyond what it is compared with."""

import pytest

from ingest.model.gtid import GtidSet
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.observe.audit import _beyond, _hidden
from ingest.observe.table_comparison import ComparedTable, Comparison
from ingest.observe.verdict import compared
from ingest.schema.mysql_types import Column
from ingest.source.mysql import Reached
from tests.support.sound_start import entry

COLUMNS = (
    Column("id", "INT", None, None, optional=False),
    Column("e", "VECTOR", 3, None, optional=True),
)


class Counting:
    """MySQL that knows how many rows there are, and is asked nothing else."""

    def __init__(self, rows):
        self.rows = rows

    def execute(self, sql):
        assert sql == "SELECT COUNT(*) FROM `d`.`t`"

    def fetchone(self):
        return (self.rows,)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_table_with_a_vector_is_named_with_why_and_is_different_however_many_rows_it_has(
    tmp_path, rows
):
    table = ComparedTable(
        TableId("d", "t"), COLUMNS, COLUMNS[:1], str(tmp_path), None, "true", False
    )
    (found,) = Comparison(None, Counting(rows)).results([table])
    assert (found.name, found.source_rows) == ("d.t", rows)
    assert found.note == "set aside: column 'e' has the type VECTOR"
    assert compared((found,), "").outcome == "different"


def test_a_table_that_is_excluded_while_it_is_hidden_is_not_waited_for():
    """Nothing would show it any more, and no other table would ever be compared."""
    known = {name: TableState("/l/t", 1, hidden=Position(0, 1, 9)) for name in ("d.b", "d.a")}
    row = entry(tables={**known, "d.c": TableState("/l/c", 1)})
    assert _hidden(row, ["d.*"]) == ["d.a", "d.b"]
    assert _hidden(row, ["d.*", "!d.a"]) == ["d.b"]


@pytest.mark.parametrize(
    ("at", "epoch", "beyond"),
    [
        (Position(0, 7, 100), 0, False),
        (Position(0, 7, 101), 0, True),
        # Another server's log counts its files as it likes.
        (Position(0, 120, 4), 1, False),
        (Position(1, 8, 4), 1, True),
        (None, 0, False),
    ],
)
def test_a_place_in_an_earlier_log_is_not_beyond_one_of_this_one(at, epoch, beyond):
    target = Reached(7, 100, GtidSet())
    assert _beyond(entry(position=at), target, epoch) is beyond
