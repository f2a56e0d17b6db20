"""A table of the lake before and after a DDL: one commit, no value lost, earlier versions readable."""

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.targets.multiset import META_TYPE
from ingest.targets.multiset_rows import content

APP = "ingest/p/c/d.t/mirror"


def column(name, type_name="INT", length=None, scale=None):
    return Column(name, type_name, length, scale, optional=True)


def version(*columns, ddl=""):
    return SchemaVersion(TableId("d", "t"), Position(0, 1, 9), "ALTER", columns, ("id",), ddl)


@pytest.fixture
def table(spark, folder):
    """Makes the table of some columns, with rows from SQL."""

    def made(key, columns, rows, meta=None):
        target = SparkTable(spark, str(folder / "t"))
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


def evolved(target, before, after, key=("id",), profile="standard"):
    """Plan and commit; returns the plan."""
    description = target.describe()
    held = evolution.Held(description.columns, description.multiset)
    plan = evolution.plan(held, after, before, keyed=bool(key), profile=profile)
    identity = Identity(APP, 3, 1, "a note")

    def act():
        if isinstance(plan, evolution.Rewrite):
            target.rewrite(plan.columns, key, target.describe())
        else:
            target.change_columns(plan, target.describe())

    assert Committer(1).once(target, identity, act)
    assert not Committer(1).once(target, identity, lambda: pytest.fail("committed twice"))
    # A job that dies here leaves a batch that only this note explains.
    assert target.delta().history(1).first().userMetadata == "a note"
    return plan


def features(target):
    detail = target.delta().detail().select("properties", "numFiles").first()
    named = {"delta.columnMapping.mode": "mapped", "delta.enableTypeWidening": "widened"}
    return sorted(named[name] for name in detail.properties if name in named)


@pytest.mark.parametrize("profile", ["standard", "compat"])
def test_columns_go_come_change_name_and_type_in_one_commit_and_history_stays(
    spark, table, profile
):
    before = [column("id"), column("a", "DATE"), column("gone"), column("n")]
    target = table(("id",), before, "SELECT 1 id, date'2024-02-29' a, 5 gone, 7 n")
    after = version(
        column("id"),
        column("a", "DATETIME", 6),
        column("wide", "BIGINT"),
        ddl="ALTER TABLE t MODIFY a DATETIME(6), DROP gone, CHANGE n wide BIGINT",
    )
    plan = evolved(target, before, after, profile=profile)
    in_place = isinstance(plan, evolution.InPlace)
    assert in_place == (profile == "standard")
    assert features(target) == (["mapped", "widened"] if in_place else [])
    files = [action for _, actions in target.commits(2) for action in actions if "add" in action]
    assert bool(files) != in_place, "a change in place writes no data"
    expected = spark.sql("SELECT 1 id, timestamp_ntz'2024-02-29 00:00:00' a, 7L wide")
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
    hashed = found.filter(
        F.col("_ingest.content") != content(F.struct("id"), found.select("id").schema)
    )
    assert hashed.isEmpty(), "content is that of the columns there are now"


def test_a_table_gets_a_key_and_loses_it_again(table):
    before = [column("id"), column("a")]
    target = table((), before, "SELECT 1 id, 2 a UNION ALL SELECT 2 id, 3 a")
    evolved(target, before, version(*before))
    assert not target.describe().multiset
    assert isinstance(
        evolution.plan(
            evolution.Held(target.describe().columns), version(*before), before, keyed=False
        ),
        evolution.Rewrite,
    )


def test_a_datetime_added_to_a_table_that_had_none_needs_no_hand(table):
    before = [column("id")]
    target = table(("id",), before, "SELECT 1 id")
    evolved(target, before, version(*before, column("at", "DATETIME")))
    assert target.describe().columns["at"] == "timestamp_ntz"
    assert features(target) == [], "a column more is no reason for a feature"


def test_names_that_swap_take_their_values_along_and_a_name_used_again_is_another_column(
    spark, table
):
    before = [column("id"), column("a"), column("b", "VARCHAR", 5), column("c")]
    target = table(("id",), before, "SELECT 1 id, 2 a, 'x' b, 3 c")
    after = version(
        column("id"),
        column("b"),
        column("a", "VARCHAR", 5),
        column("c"),
        ddl="ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, DROP c, ADD c INT",
    )
    evolved(target, before, after)
    expected = spark.sql("SELECT 1 id, 2 b, 'x' a, CAST(NULL AS INT) c")
    assert_df_equality(target.frame().drop("_ingest"), expected, ignore_nullable=True)
    row = spark.sql("SELECT 1 id, 9 b, 'new' a, 8 c").withColumn("_ingest", F.lit(None))
    merge = target.delta().alias("t").merge(row.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={name: f"s.{name}" for name in ("b", "a", "c")}).execute()
    expected = spark.sql("SELECT 1 id, 9 b, 'new' a, 8 c")
    assert_df_equality(target.frame().drop("_ingest"), expected, ignore_nullable=True)
    assert target.markers()[APP] == Marker(1, 3, 1).version


def test_a_successor_s_fence_makes_a_change_in_place_fail(table):
    before = [column("id"), column("a")]
    target = table(("id",), before, "SELECT 1 id, 2 a")
    Committer(2).fence(target, APP)
    with pytest.raises(LeaseLostError):
        Committer(1).once(
            target,
            Identity(APP, 3, 1),
            lambda: target.change_columns(
                evolution.plan(
                    evolution.Held(target.describe().columns),
                    version(column("id"), ddl="ALTER TABLE t DROP a"),
                    before,
                ),
                target.describe(),
            ),
        )
    assert "a" in target.describe().columns
