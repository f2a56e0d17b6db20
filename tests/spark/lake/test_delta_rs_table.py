"""A MERGE by delta-rs: the same rows as Spark's, the same identity, and the fence holds."""

import errno
import shutil

import pytest
from chispa import assert_df_equality

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import CHECKPOINT_EVERY
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.delta_rs_limits import WRITABLE, may_prune
from ingest.lake.engines.spark_engine import spark_merge
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker, quoted_for_delta_rs
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import column_type
from ingest.targets import mirror
from tests.support.keyed_table import (
    APP,
    EVERY_TYPE,
    KEYS,
    adding,
    column,
    direct_merge,
    direct_of,
    rows,
    source_of,
)

OFTEN = ("BIGINT", "VARCHAR", "DATETIME")
of_each_key = pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=[] if key[0].type_name in OFTEN else [pytest.mark.long])
        for key in KEYS
    ],
    ids=lambda key: key[0].type_name,
)


@of_each_key
def test_it_leaves_the_rows_that_spark_s_merge_leaves(spark, table, key):
    others = [one for one in EVERY_TYPE if " " not in one[0].name]
    columns = [key, *(others if key is KEYS[0] else others[:2])]  # every type once is enough
    one, other = table(columns, "one"), table(columns, "other")
    # Newer and older ones, of rows that are there and that are not; and rows of which nothing is said.
    changed = [key, *((c, text.replace("n", "(n + 1)") if c.name == "tiny" else text) for c, text in columns[1:])]  # fmt: skip
    newer = rows(spark, changed, "n % 3 = 0", 60, "CASE n % 4 WHEN 0 THEN 'd' WHEN 1 THEN 'c' ELSE 'u' END")  # fmt: skip
    older = rows(spark, changed, "n % 3 = 1", 40, "IF(n % 2 = 0, 'd', 'u')")
    source = newer.unionByName(older)
    names = [c.name for c, _ in columns]
    spark_merge(one, source, mirror.mirror_plan(names, ("id",)))
    prune = may_prune((column_type(key[0]).delta,))
    assert direct_merge(other, source, 3, prune=prune)
    expected, found = (t.frame().orderBy("id") for t in (one, other))
    assert expected.count() > 40
    assert_df_equality(found, expected, ignore_nullable=True)
    assert SparkTable(spark, other.path).markers()[APP] == Marker(1, 3, 0).version


@of_each_key
def test_rows_of_keys_that_no_file_holds_are_added_as_spark_s_merge_inserts_them(spark, table, key):
    others = [one for one in EVERY_TYPE if " " not in one[0].name]
    columns = [key, *(others if key is KEYS[0] else others[:2])]
    one, other = table(columns, "one"), table(columns, "other")
    source = rows(spark, columns, "n >= 40", 60, "CASE n % 3 WHEN 0 THEN 'd' ELSE 'u' END")
    spark_merge(one, source, mirror.mirror_plan([c.name for c, _ in columns], ("id",)))
    assert adding(direct_of(other), source, 3)
    expected, found = (t.frame().orderBy("id") for t in (one, other))
    assert expected.count() > 39
    assert_df_equality(found, expected, ignore_nullable=True)
    assert SparkTable(spark, other.path).markers()[APP] == Marker(1, 3, 0).version


def test_rows_that_have_not_the_table_s_columns_are_not_added_and_deletes_make_no_version(
    spark, table
):
    columns = [(column("id"), "n"), (column("a"), "n")]
    target = table(columns)
    assert not adding(direct_of(target), rows(spark, columns[:1], "n > 50", 60), 3)
    assert adding(direct_of(target), rows(spark, columns, "n > 50", 60, "'d'"), 3)
    assert target.version() == 2


def test_a_table_with_mapped_columns_is_written_right(spark, table):
    before = [(column("id"), "n"), (column("a"), "n"), (column("b", "VARCHAR", 9), "n || 'b'")]
    target = table(before)
    after = [
        column("id"),
        column("b"),
        column("new name", "VARCHAR", 9),
    ]  # a has gone, b is another
    ddl = "ALTER TABLE t DROP a, RENAME COLUMN b TO `new name`, ADD b INT"
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 55), "ALTER", tuple(after), ("id",), ddl)  # fmt: skip
    plan = evolution.plan(
        evolution.Held(target.describe().columns), version, [c for c, _ in before], keyed=True
    )
    Committer(1).once(
        target, Identity(APP, 3), lambda: target.change_columns(plan, target.describe())
    )
    direct = direct_of(target)
    assert "columnMapping" in direct.features()
    assert direct.features() <= WRITABLE
    columns = [
        (column("id"), "n"),
        (column("b"), "-n"),
        (column("new name", "VARCHAR", 9), "'new'"),
    ]
    assert not adding(direct, rows(spark, columns, "n = 50", 60), 4)
    source = rows(spark, columns, "n IN (3, 50)", 60, "'u'")
    direct_merge(target, source, 4, direct=direct)
    found = target.frame().filter("id IN (2, 3, 50)").drop("_ingest").orderBy("id")
    expected = spark.sql(
        "SELECT * FROM VALUES (2, CAST(NULL AS INT), '2b'), (3, -3, 'new'), (50, -50, 'new') "
        "AS t(id, b, `new name`)"
    )
    assert_df_equality(found, expected, ignore_nullable=True)


def test_what_is_there_is_not_committed_again_and_nothing_makes_no_commit(spark, small):
    direct = direct_of(small)
    assert direct_merge(small, source_of(spark, "n = 1", 60), 3, direct=direct)
    assert not direct_merge(small, source_of(spark, "n = 2", 60), 3, direct=direct)
    version = direct.version()
    assert direct_merge(small, source_of(spark, "n = 1", 10), 4, direct=direct), "older: no change"
    assert (direct.version(), direct.committed(APP)) == (version, Marker(1, 3, 0).version)
    assert [row.v for row in small.frame().filter("id < 3").orderBy("id").collect()] == ["new", "2"]


def test_a_table_on_another_disk_than_its_lake_is_written_to(spark, small, monkeypatch):
    def another_disk(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("shutil.os.rename", another_disk)
    assert direct_merge(small, source_of(spark, "n = 1 OR n = 50", 60), 3)
    monkeypatch.undo()
    assert {row.id for row in small.frame().filter("v = 'new'").collect()} == {1, 50}


def test_the_first_commit_to_a_new_table_makes_no_checkpoint(spark, folder):
    target, columns = SparkTable(spark, str(folder / "new")), [(column("id"), "n")]
    version = SchemaVersion(
        TableId("d", "t"), Position(0, 1, 9), "CREATE", (column("id"),), ("id",), ""
    )
    target.create(version, ("id",))
    assert direct_merge(target, rows(spark, columns, "n < 3", 60), 1)
    assert list((folder / "new" / "_delta_log").glob("*.checkpoint*")) == []
    assert target.frame().count() == 2


def test_it_knows_its_size_and_that_the_table_needs_nothing_special(small, folder):
    direct = direct_of(small)
    files = [file.stat().st_size for file in (folder / "t").glob("*.parquet")]
    assert (direct.size(), direct.features()) == ((sum(files), 39), frozenset())


def test_a_successor_s_fence_stops_a_merge_that_has_not_seen_it_and_one_that_has(spark, small):
    source = source_of(spark, "n = 1", 60)
    direct = direct_of(small)
    plan = mirror.mirror_plan(["id", "v"], ("id",), quoted_for_delta_rs)

    def act():
        Committer(2).fence(small, APP)
        direct.merge(source.toArrow(), plan, prune=())

    with pytest.raises(LeaseLostError):
        Committer(1).once(direct, Identity(APP, 3), act)
    with pytest.raises(LeaseLostError):
        direct_merge(small, source, 3)
    with pytest.raises(LeaseLostError), direct.identified(APP, Marker(1, 9, 0).version, ""):
        direct.merge(source.toArrow(), plan, prune=())
    assert direct_merge(small, source, 3, term=2)


def test_anybody_s_commit_in_between_makes_it_fail_and_leaves_the_table_as_it_is(spark, small):
    source = source_of(spark, "n = 1", 60)
    direct = direct_of(small)
    plan = mirror.mirror_plan(["id", "v"], ("id",), quoted_for_delta_rs)

    def act():
        small.delta().delete("id = 39")  # another row, and another file
        direct.merge(source.toArrow(), plan, prune=())

    with pytest.raises(ForeignCommitError):
        Committer(1).once(direct, Identity(APP, 3), act)
    assert small.frame().filter("v = 'new'").isEmpty()


def test_its_checkpoints_hold_rows_and_markers_for_spark_and_for_itself(spark, small, folder):
    direct = direct_of(small)
    for batch in range(1, CHECKPOINT_EVERY + 2):
        direct_merge(small, source_of(spark, f"n = {batch}", 60), batch, direct=direct)
    log = folder / "t" / "_delta_log"
    assert list(log.glob(f"{CHECKPOINT_EVERY:020d}.checkpoint*"))
    copy = folder / "copy"
    shutil.copytree(folder / "t", copy)
    for early in range(CHECKPOINT_EVERY):
        (copy / "_delta_log" / f"{early:020d}.json").unlink()
    expected = small.frame().orderBy("id")
    assert_df_equality(SparkTable(spark, str(copy)).frame().orderBy("id"), expected)
    marker = Marker(1, CHECKPOINT_EVERY + 1, 0).version
    assert SparkTable(spark, str(copy)).markers() == {APP: marker}
    assert direct_of(SparkTable(spark, str(copy))).committed(APP) == marker
