"""The audit of a table that is set aside: nothing of it can be compared, and it is said why."""

import pytest

from ingest.model.topics import TableId
from ingest.observe.audit import Audit, _Table
from ingest.observe.verdict import compared
from ingest.schema.mysql_types import Column
from ingest.testing.lake import pipeline_at

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
    table = _Table(TableId("d", "t"), COLUMNS, COLUMNS[:1], str(tmp_path), None, "true", False)
    audit = Audit(pipeline_at(tmp_path), None, print)
    (found,) = audit._compare(Counting(rows), [table])
    assert (found.name, found.source_rows) == ("d.t", rows)
    assert found.note == "set aside: column 'e' has the type VECTOR"
    assert compared((found,), "").outcome == "different"
