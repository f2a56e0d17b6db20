"""A table of the lake before and after a DDL: one commit, no value lost, earlier versions readable."""

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from ingest import evolve
from ingest.catalog import SchemaVersion
from ingest.commit import Committer, Identity
from ingest.multiset import META_TYPE, content
from ingest.mysql_types import Column
from ingest.position import Position
from ingest.table import LakeTable
from ingest.topics import TableId

APP = "ingest/p/c/d.t/mirror"


def column(name, type_name="INT", length=None, scale=None):
    return Column(name, type_name, length, scale, optional=True)


def version(*columns, ddl=""):
    return SchemaVersion(TableId("d", "t"), Position(0, 1, 9), "ALTER", columns, ("id",), ddl)


@pytest.fixture
def table(spark, folder):
    """Makes the table of some columns, with rows from SQL."""

    def made(key, columns, rows, meta=None):
        target = LakeTable(spark, str(folder / "t"))
        target.create(version(*columns), key)
        held = target.frame().schema["_ingest"].dataType
        place = "named_struct('epoch', 0, 'file', 1L, 'pos', 5L, 'row', id, 'part', 1)"
        more = ", 'content', 'old', 'ordinal', 1L" if not key else ""
        ours = f"named_struct('position', {place}, 'op', 'c', 'committed_at', timestamp'2026-01-01'{more})"
        frame = spark.sql(f"SELECT *, {ours} AS _ingest FROM ({rows})")
        frame = frame.withColumn("_ingest", F.col("_ingest").cast(held))
        frame.write.format("delta").mode("append").save(target.path)
        return target

    return made


def evolved(target, before, after, key=("id",)):
    """Plan and commit; returns the plan."""
    description = target.describe()
    held = evolve.Held(description.columns, description.multiset)
    plan = evolve.plan(held, after, before, keyed=bool(key))
    identity = Identity(APP, 3, 1)
    assert Committer(1).once(target, identity, lambda: target.rewrite(plan.columns, key))
    assert not Committer(1).once(target, identity, lambda: pytest.fail("committed twice"))
    return plan


def test_columns_go_come_change_name_and_type_in_one_commit_and_history_stays(spark, table):
    before = [column("id"), column("a", "DATE"), column("gone"), column("n")]
    target = table(("id",), before, "SELECT 1 id, date'2024-02-29' a, 5 gone, 7 n")
    after = version(
        column("id"),
        column("a", "DATETIME", 6),
        column("with blank", "BIGINT"),
        ddl="ALTER TABLE t MODIFY a DATETIME(6), DROP gone, CHANGE n `with blank` BIGINT",
    )
    evolved(target, before, after)
    expected = spark.sql("SELECT 1 id, timestamp_ntz'2024-02-29 00:00:00' a, 7L `with blank`")
    assert_df_equality(target.frame().drop("_ingest"), expected, ignore_nullable=True)
    old = spark.read.format("delta").option("versionAsOf", 1).load(target.path)
    assert old.columns == ["id", "a", "gone", "n", "_ingest"]


def test_rows_that_become_identical_in_a_table_without_a_key_are_told_apart_again(spark, table):
    before = [column("id"), column("a")]
    target = table((), before, "SELECT 1 id, 2 a UNION ALL SELECT 1 id, 3 a UNION ALL SELECT 2, 4")
    evolved(target, before, version(column("id"), ddl="ALTER TABLE t DROP a"), key=())
    found = target.frame()
    assert found.schema["_ingest"].dataType.simpleString().replace(" ", "") == META_TYPE.replace(
        ": ", ":"
    ).replace(", ", ",")
    rows = found.select("id", "_ingest.ordinal").orderBy("id", "ordinal").collect()
    assert [tuple(row) for row in rows] == [(1, 1), (1, 2), (2, 1)]
    hashed = found.filter(F.col("_ingest.content") != content(F.struct("id")))
    assert hashed.isEmpty(), "content is that of the columns there are now"


def test_a_table_gets_a_key_and_loses_it_again(table):
    before = [column("id"), column("a")]
    target = table((), before, "SELECT 1 id, 2 a UNION ALL SELECT 2 id, 3 a")
    evolved(target, before, version(*before))
    assert not target.describe().multiset
    assert isinstance(
        evolve.plan(evolve.Held(target.describe().columns), version(*before), before, keyed=False),
        evolve.Rewrite,
    )


def test_a_datetime_added_to_a_table_that_had_none_needs_no_hand(table):
    before = [column("id")]
    target = table(("id",), before, "SELECT 1 id")
    plan = evolve.plan(
        evolve.Held(target.describe().columns), version(*before, column("at", "DATETIME")), before
    )
    target.add_columns(plan)
    assert target.describe().columns["at"] == "timestamp_ntz"
