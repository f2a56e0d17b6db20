"""Who merges into a table, and by what: chosen for each table, by what its files and its folder are."""

import re
from functools import reduce
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.written_by_spark import WrittenBySpark
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.model.position import SQL_TYPE, Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.targets import mirror
from tests.support.keyed_table import APP, column, rows, source_of


@pytest.mark.parametrize(
    ("engine", "change_feed"),
    [
        ("delta-rs", False),
        ("spark", False),
        pytest.param("spark", True, marks=pytest.mark.long),
    ],
)
def test_a_table_is_merged_into_only_where_its_files_may_hold_a_key(
    spark, folder, small, engine, change_feed
):
    if change_feed:  # which Delta's own MERGE makes
        properties = "SET TBLPROPERTIES (delta.enableChangeDataFeed = 'true')"
        spark.sql(f"ALTER TABLE delta.`{small.path}` {properties}")
    merging = Merging(EngineJob(spark, Committer(1), str(folder), engine, "standard"))
    for batch, where in enumerate(["n = 1", "n > 50", "n IN (2, 55)", "n = 59"], 3):
        some = rows(
            spark, [(column("id"), "n"), (column("v", "VARCHAR", 9), "'new'")], where, 60 + batch
        )
        source = MergeSource(lambda: None, some.toArrow(), 100)
        merging.merge(
            Merge(small, mirror.Mirror(), source, ["id", "v"], {"id": "int"}, Identity(APP, batch))
        )
    made = DeltaTable(small.path).history(4)[::-1]
    assert [one["operation"] for one in made] == ["MERGE", "WRITE", "MERGE", "MERGE"]
    if engine == "spark":
        assert int(made[-1]["operationMetrics"]["numTargetFilesRemoved"]) == 1
    if change_feed:  # Delta passes files over by what a condition says of the table alone
        predicate = made[-1]["operationParameters"]["predicate"]
        assert re.search(r"id#\d+ >= 59", predicate), predicate
        assert re.search(r"id#\d+ <= 59", predicate), predicate
    held = {row.id: row.v for row in small.frame().collect()}
    assert held == {
        n: "new" if n in (1, 2) or n > 50 else str(n) for n in (*range(1, 40), *range(51, 60))
    }


def test_a_table_with_checkpoints_of_another_kind_is_merged_into_by_spark(spark, small):
    for name, value in (("checkpointPolicy", "v2"), ("checkpointInterval", "1")):
        spark.sql(f"ALTER TABLE delta.`{small.path}` SET TBLPROPERTIES (delta.{name} = '{value}')")
    small.delta().delete("id = 39")
    assert list(Path(small.path).glob("_delta_log/*.checkpoint.*-*.*")), "named by an id, not plain"
    merging = Merging(
        EngineJob(spark, Committer(1), str(Path(small.path).parent), "auto", "standard")
    )
    source = source_of(spark, "n = 1", 60)
    given = MergeSource(lambda: source.selectExpr("_ingest.*", "struct(id, v) AS row"), None, 10)
    merging.merge(
        Merge(small, mirror.Mirror(), given, ["id", "v"], {"id": "int"}, Identity(APP, 1))
    )
    assert merging.choices[small.path].engine == "spark"
    assert [row.id for row in small.frame().filter("v = 'new'").collect()] == [1]


@pytest.mark.parametrize("name", ["%5Fhidden", "a\\b", "plain", "ä b'#?"])
def test_a_folder_that_delta_rs_would_take_for_another_is_left_to_spark(spark, folder, name):
    table = SparkTable(spark, str(folder / name))
    version = SchemaVersion(
        TableId("d", "t"), Position(0, 1, 9), "CREATE", (column("id"),), ("id",), ""
    )
    table.create(version, ("id",))
    assert table.describe().columns == {"id": "int"}
    merging = Merging(EngineJob(spark, Committer(1), str(folder), "auto", "standard"))
    rows_of_one = spark.sql("SELECT 'c' op, 7 id").selectExpr(
        "op",
        f"CAST(named_struct('e', 0, 'f', 1, 'p', 60, 'r', 0, 'q', 1) AS {SQL_TYPE}) AS position",
        "timestamp'2026-01-01' AS committed_at",
        "struct(id) AS row",
    )
    source = MergeSource(lambda: rows_of_one, None, 10)
    merging.merge(Merge(table, mirror.Mirror(), source, ["id"], {"id": "int"}, Identity(APP, 1)))
    assert [row.id for row in table.frame().collect()] == [7]
    expected = "spark" if {"%", "\\"} & set(name) else "delta-rs"
    assert merging.choices[table.path].engine == expected


@pytest.fixture
def by_double(spark, folder):
    """A table whose key is a DOUBLE, and what merges one row into it by Spark."""
    table = SparkTable(spark, str(folder / "t"))
    key = column("id", "DOUBLE")
    table.create(
        SchemaVersion(TableId("d", "t"), Position(0, 1, 9), "CREATE", (key,), ("id",), ""), ("id",)
    )
    merging = Merging(EngineJob(spark, Committer(1), str(folder), "spark", "standard"))

    def merge(batch, *keys):
        places = enumerate(keys, batch * 100)
        each = (rows(spark, [(key, text)], "n = 1", place) for place, text in places)
        some = reduce(DataFrame.unionByName, each).toArrow()
        changes = spark.createDataFrame(some).selectExpr("_ingest.*", "struct(id) AS row")
        source = MergeSource(lambda: changes, some, 100)
        merging.merge(
            Merge(table, mirror.Mirror(), source, ["id"], {"id": "double"}, Identity(APP, batch))
        )
        return merging.handle(table)

    return table, merge


def test_zeros_of_both_signs_are_one_key_however_they_come(by_double):
    table, merge = by_double
    merge(1, "0.0D", "-0.0D", "1.5D")
    merge(2, "-0.0D")
    merge(3, "-0.0D", "0.0D")
    assert sorted(row.id for row in table.frame().collect()) == [0.0, 1.5]


def test_what_spark_says_wrongly_of_a_file_is_put_right_by_a_commit_that_starts_no_job(by_double):
    table, merge = by_double
    handle = merge(1, "0.0D", "1.5D")
    assert isinstance(handle, WrittenBySpark)
    said = DeltaTable(table.path).history()
    assert [one["operation"] for one in said] == ["COMPUTE STATS", "WRITE", "CREATE TABLE"]
    assert "Spark" in said[1]["engineInfo"]
    assert "engineInfo" not in said[0], "Spark would have computed the table's state for it"
    (add,) = handle.log.state.files.values()
    assert str(add.range("id")[0]) == "-0.0"
    merge(2, "1.5D")
    assert sorted(row.id for row in table.frame().collect()) == [0.0, 1.5]
    assert handle.log.state.markers == table.markers()
