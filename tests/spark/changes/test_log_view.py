"""A change log as its table is called today: values of every type that a column had, and none makes the reading fail."""

import json
from decimal import Decimal

import pytest

from ingest.changes import log_view
from ingest.changes.change_log_frames import schema
from ingest.model.position import Position
from ingest.schema.change_log import LogColumns, LogField

KINDS = {
    "string": "12", "binary": bytearray(b"12"), "integer": 12, "long": 12, "double": 12.0, "boolean": True,
    "decimal(5,1)": Decimal("12.0"), "date": None, "timestamp": None, "timestamp_ntz": None,
}  # fmt: skip
POINT = json.loads(
    '{"type": "struct", "fields": [{"name": "wkb", "type": "binary", "nullable": true, "metadata": {}}]}'
)


def columns(*kinds):
    """A column ``v`` that had these types, one after the other."""
    names = [f"v__{number}" for number in range(len(kinds))]
    fields = [
        LogField(name, "v", kind, Position(0, 1, number), before)
        for number, (name, kind, before) in enumerate(zip(names, kinds, ["", *names], strict=False))
    ]
    return LogColumns(tuple(fields), {"v": names[-1]}, Position(0, 1, len(kinds)))


def log(spark, found, image):
    rows = [{"operation": "insert", "after": image}, {"operation": "truncate"}]
    kinds = schema(found)
    filled = [{one.name: row.get(one.name) for one in kinds.fields} for row in rows]
    return spark.createDataFrame(filled, kinds)


@pytest.mark.parametrize("was", [*KINDS, POINT], ids=str)
def test_a_value_of_another_type_is_cast_or_null_and_never_an_error(spark, was):
    for now in (*KINDS, POINT):
        if now == was:
            continue
        found = columns(was, now)
        image = {"v__0": None if was == POINT else KINDS[was], "v__1": None}
        rows = log_view.today(log(spark, found, image), found).collect()
        assert rows[1].after is None
        if was in ("integer", "long") and now in ("integer", "long", "double"):
            assert rows[0].after.v == 12


def test_what_stands_in_the_newest_field_counts(spark):
    found = columns("integer", "string", "long")
    image = {"v__0": None, "v__1": None, "v__2": 7}
    assert log_view.today(log(spark, found, image), found).first().after.v == 7
    older = {"v__0": None, "v__1": "8", "v__2": None}
    assert log_view.today(log(spark, found, older), found).first().after.v == 8
