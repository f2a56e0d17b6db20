"""Tables of the lake that Spark tests begin with."""

import pytest

from ingest.lake.delta.spark_table import SparkTable
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.testing.lake import Lake
from tests.support.keyed_table import column, rows


@pytest.fixture
def table(spark, folder):
    """Makes a table of columns with expressions, the first its key, with rows 1 to 39 at position 50."""

    def made(columns, name="t"):
        target = SparkTable(spark, str(folder / name))
        version = SchemaVersion(
            TableId("d", "t"), Position(0, 1, 9), "CREATE", tuple(c for c, _ in columns), ("id",), ""
        )  # fmt: skip
        target.create(version, ("id",))
        held = rows(spark, columns, "n < 40", 50)
        for part in (held.filter("_ingest IS NOT NULL").limit(20), held.offset(20)):
            part.coalesce(1).write.format("delta").mode("append").save(target.path)
        return target

    return made


@pytest.fixture
def reopened(spark, tmp_path):
    """Makes a lake in the test's folder; again, as the next run with another pipeline file does."""
    made = []

    def open_lake(**settings):
        if made:
            made[-1].close()
            settings["log"] = made[-1].log
        found = Lake(spark, tmp_path / "lake", **settings)
        if made:
            found._followed = made[-1]._followed
        made.append(found)
        return found

    yield open_lake
    for one in made:
        one.close()


@pytest.fixture
def logged(reopened):
    """The same, of which each table has a change log."""
    return lambda **settings: reopened(
        **{"defaults": {"targets": ["mirror", "change_log"]}, **settings}
    )


@pytest.fixture
def small(table):
    return table([(column("id"), "n"), (column("v", "VARCHAR", 9), "n || ''")])
