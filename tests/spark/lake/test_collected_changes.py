"""The changes of many tables in one SELECT: each to its own table."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from ingest.arrow.table_batch import StepBatch, TableBatch
from ingest.changes import envelope, row_images
from ingest.kafka.record_stream import SCHEMA
from ingest.lake.engines import collected_changes
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.schema.steps import Step
from tests.support.events import message

COLUMNS = (
    Column("id", "INT", None, None, optional=False),
    Column("v", "VARCHAR", 20, None, optional=True),
)


@pytest.mark.parametrize("names", [("t", "T"), ("a.b c", "a`b"), ("straße", "STRASSE")])
def test_tables_whose_names_are_nearly_one_keep_their_rows_apart(spark, names):
    rows = [
        message("c", n, after={"id": n, "v": name}, table=name, offset=n)
        for n, name in enumerate(names)
    ]
    fresh = envelope.changes(spark.createDataFrame(rows, SCHEMA))
    batches = []
    for name in names:
        version = SchemaVersion(
            TableId("d", name), Position(0, 1, 1), "CREATE", COLUMNS, ("id",), ""
        )
        schema = row_images.RowSchema.of(COLUMNS, ("id",))
        mine = F.col("table") == name
        step = StepBatch(Step(None, None, version), ("id",), fresh, mine, schema)
        batches.append(TableBatch(SimpleNamespace(bytes=100), [step]))
    with ThreadPoolExecutor(1) as pool:
        assert collected_changes.look(fresh, batches, pool, collect=True) == 0
    found = [[row["v"] for row in one.steps[0].rows.to_pylist()] for one in batches]
    assert found == [[name] for name in names]
