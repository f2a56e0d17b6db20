"""Columns changed and filled by commits of ours: what Spark would have made, under the same identity, and fenced."""

import json

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.sql import functions as F

from ingest.lake.delta import column_commits
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.engines.spark_engine import spark_merge
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.schema import evolution
from ingest.targets import mirror
from tests.support.keyed_table import APP, EVERY_TYPE, column, direct_of

PLAIN = [one for one in EVERY_TYPE if not set(one[0].name) & set(' ."`')]
VALUES = {
    "new": ("int", "-7"),
    "Text": ("string", 'it\'s \\ "so" \u2028 %s'),
    "much": ("decimal(20,0)", "18446744073709551615"),
    "rough": ("double", "0.1"),
}


def change_to(target, *names):
    """A plan by which these columns come, NULL, before all others."""
    held = target.describe()
    new = [evolution.Field(name, VALUES[name][0], "NULL") for name in names]
    old = [evolution.Field(n, delta, f"`{n}`", n) for n, delta in held.columns.items()]
    return evolution.InPlace((*new, *old))


def changed(direct, plan, batch=1, term=1):
    direct.version()
    assert column_commits.is_plain(direct, plan)
    identity = Identity(APP, batch, 0, "a note")
    return Committer(term).once(
        direct, identity, lambda: column_commits.change(direct, plan.columns)
    )


def test_columns_come_by_one_commit_that_names_no_file_and_both_readers_find_them(spark, table):
    target = table([(column("id"), "n"), *PLAIN])
    direct, before = direct_of(target), target.frame()
    plan = change_to(target, "new", "Text")
    assert changed(direct, plan)
    assert not changed(direct, plan), "it is there"
    nothing = [F.lit(None).cast(VALUES[name][0]).alias(name) for name in ("new", "Text")]
    assert_df_equality(
        target.frame().orderBy("id"),
        before.select(*nothing, *before.columns).orderBy("id"),
        ignore_nullable=True,
    )
    found = DeltaTable(target.path)
    assert [one.name for one in found.schema().fields][:3] == ["new", "Text", "id"]
    actions = json.loads(f"[{','.join(_entry(target, found.version()).splitlines())}]")
    assert [next(iter(one)) for one in actions] == ["commitInfo", "txn", "metaData"]
    assert target.delta().history(1).first().userMetadata == "a note"
    assert target.markers()[APP] == Marker(1, 1, 0).version


def _entry(target, version):
    return (target.folder / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "at",
    [
        Position(0, 1, 50, 0, 1),  # theirs: not before itself
        Position(0, 1, 50, 0, 2),
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in (
                Position(0, 1, 50, 1, 0),
                Position(0, 1, 51),
                Position(0, 2, 0),
                Position(1, 0, 0),
                Position(0, 1, 49, 9, 9),
            )
        ),
        Position(0, 0, 99, 9, 9),
    ],
    ids=str,
)
def test_a_default_comes_to_the_rows_of_before_as_spark_s_update_brings_it(spark, table, at):
    columns = [(column("id"), "n"), *PLAIN]
    one, other = (table(columns, name) for name in ("one", "other"))
    for target in (one, other):
        assert changed(direct_of(target), change_to(target, *VALUES))
    said = {f"`{name}`": F.lit(text).cast(delta) for name, (delta, text) in VALUES.items()}
    one.delta().update(f"_ingest.position < {at.sql()}", said)
    direct = direct_of(other)
    direct.version()
    assert column_commits.fills(direct, VALUES)
    Committer(1).once(
        direct,
        Identity(APP, 2),
        lambda: column_commits.fill(direct, VALUES, at),
        may_do_nothing=True,
    )
    assert_df_equality(other.frame().orderBy("id"), one.frame().orderBy("id"), ignore_nullable=True)
    fresh = direct_of(other)
    fresh.version()
    assert sum(file.rows for file in fresh.state.files.values()) == one.frame().count()


def test_what_needs_a_feature_is_left_to_spark(table):
    target = table([(column("id"), "n"), (column("v"), "n")])
    direct = direct_of(target)
    direct.version()
    same = tuple(evolution.Field(name, "int", f"`{name}`", name) for name in ("id", "v"))
    new = evolution.Field("new", "int", "NULL")
    assert column_commits.is_plain(direct, evolution.InPlace((*same, new)))
    for change in (
        evolution.InPlace((*same, new), mapped=True),
        evolution.InPlace((*same, new), widened=True),
        evolution.InPlace((*same, evolution.Field("a b", "int", "NULL"))),
    ):
        assert not column_commits.is_plain(direct, change)
    assert not column_commits.fills(direct, {"new": ("date", "2026-01-01")})
    target._set({"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"})  # fmt: skip
    direct.version()
    assert not column_commits.is_plain(direct, evolution.InPlace((*same, new)))
    assert not column_commits.fills(direct, {"new": ("int", "1")})


def test_a_successor_s_fence_and_a_commit_at_the_same_time_are_noticed(spark, small):
    direct = direct_of(small)
    plan = change_to(small, "new")
    direct.version()
    small.append(small.frame().limit(1))
    with direct.identified(APP, Marker(1, 1, 0).version, ""), pytest.raises(ForeignCommitError):
        column_commits.change(direct, plan.columns)
    Committer(9).fence(small, APP)
    direct.version()
    with direct.identified(APP, Marker(1, 1, 0).version, ""), pytest.raises(LeaseLostError):
        column_commits.change(direct, plan.columns)
    assert small.frame().columns == ["id", "v", "_ingest"]


def test_spark_merges_into_what_was_changed_by_such_a_commit(spark, small):
    changed(direct_of(small), change_to(small, "new"))
    source = small.frame().filter("id = 1").withColumn("new", F.lit(5))
    later = F.struct(
        F.struct(
            F.lit(0).alias("epoch"),
            F.lit(1).cast("bigint").alias("file"),
            F.lit(60).cast("bigint").alias("pos"),
            F.lit(0).alias("row"),
            F.lit(1).alias("part"),
        ).alias("position"),
        F.lit("u").alias("op"),
        F.col("_ingest.committed_at"),
    )
    spark_merge(small, source.withColumn("_ingest", later), mirror.mirror_plan(["new", "id", "v"], ("id",)))  # fmt: skip
    found = {row.id: row.new for row in small.frame().collect()}
    assert found.pop(1) == 5
    assert set(found.values()) == {None}
