"""Merge-on-read: rows are marked where they are, and the table holds the same rows as after Spark's MERGE."""

from pathlib import Path

import pytest
from chispa import assert_df_equality

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import CHECKPOINT_EVERY
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.delta_rs_limits import WRITABLE
from ingest.lake.engines.merge_on_read import mark
from ingest.lake.engines.spark_engine import spark_merge
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.targets import mirror
from tests.support.keyed_table import (
    APP,
    EVERY_TYPE,
    KEYS,
    by_delta_rs,
    column,
    direct_merge,
    direct_of,
    marking,
    rows,
    source_of,
)

MARKED = [
    pytest.param(key, id=key[0].type_name, marks=[pytest.mark.long] * (key is not KEYS[0]))
    for key in KEYS
    if key[0].type_name in ("BIGINT", "VARCHAR")
]


@pytest.mark.parametrize("key", MARKED)
def test_marking_rows_leaves_the_rows_that_spark_s_merge_leaves(spark, table, key):
    others = [one for one in EVERY_TYPE if " " not in one[0].name]
    columns = [key, *(others if key is KEYS[0] else others[:2])]
    one, other = table(columns, "one"), table(columns, "other")
    names, direct = [c.name for c, _ in columns], direct_of(other)
    for batch, position in ((3, 60), (4, 40), (5, 80)):  # one of them is older
        changed = [key, *((c, text.replace("n", f"(n + {batch})") if c.name == "tiny" else text) for c, text in columns[1:])]  # fmt: skip
        op = f"CASE (n + {batch}) % 4 WHEN 0 THEN 'd' WHEN 1 THEN 'c' ELSE 'u' END"
        source = rows(spark, changed, f"n % {batch - 1} = 0", position, op)
        spark_merge(one, source, mirror.mirror_plan(names, ("id",)))
        assert marking(direct, source, batch)
    expected, found = (t.frame().orderBy("id") for t in (one, other))
    assert_df_equality(found, expected, ignore_nullable=True)
    assert by_delta_rs(other, "SELECT count(*) n FROM t") == [{"n": expected.count()}]
    assert "deletionVectors" in direct.features()
    assert direct.features() <= WRITABLE
    assert SparkTable(spark, other.path).markers()[APP] == Marker(1, 5, 0).version


def test_whoever_merges_after_rows_were_marked_meets_none_of_them_again(spark, table):
    columns = [(column("id"), "n"), (column("a"), "n")]
    target = table(columns)
    direct = direct_of(target)
    marking(direct, rows(spark, columns, "n < 20", 60, "IF(n < 10, 'd', 'u')"), 3)
    newer = rows(spark, columns, "n BETWEEN 5 AND 15", 70, "'u'")
    assert direct_merge(target, newer, 4, direct=direct)
    spark_merge(target, rows(spark, columns, "n BETWEEN 8 AND 16", 80, "'d'"), mirror.mirror_plan(["id", "a"], ("id",)))  # fmt: skip
    marking(direct, rows(spark, columns, "n BETWEEN 7 AND 9", 90, "'c'"), 5)
    target.delta().delete("id = 30")
    wanted = [5, 6, 7, 8, 9, *range(17, 30), *range(31, 40)]
    assert [row.id for row in target.frame().orderBy("id").collect()] == wanted
    assert [row["id"] for row in by_delta_rs(target, "SELECT id FROM t ORDER BY id")] == wanted
    vectors = [one.get("deletionVector") for one in direct_files(target)]
    assert {one["storageType"] for one in vectors if one} == {"i"}


def test_a_key_of_several_columns_with_names_of_ours_is_sought_by_all_of_them(spark, folder):
    columns = [(column("row"), "n % 7"), (column("change", "VARCHAR", 9), "n || 'x'"), (column("place"), "n")]  # fmt: skip
    target = SparkTable(spark, str(folder / "pair"))
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 9), "CREATE", tuple(c for c, _ in columns), ("row", "change"), "")  # fmt: skip
    target.create(version, ("row", "change"))
    direct = direct_of(target)
    for batch, where, op in ((1, "n < 40", "'c'"), (2, "n BETWEEN 20 AND 50", "IF(n < 30, 'd', 'u')")):  # fmt: skip
        made = rows(spark, columns, where, 50 + batch, op).toArrow()
        Committer(1).once(
            direct,
            Identity(APP, batch),
            lambda made=made: mark(direct, mirror.Mirror(), made, ("row", "change"), always=True),
        )
    wanted = [*range(1, 20), *range(30, 51)]
    assert [row.place for row in target.frame().orderBy("place").collect()] == wanted


def test_a_file_from_before_a_column_of_the_key_holds_no_row_of_any_key(spark, table):
    before = [(column("id"), "n"), (column("a"), "n")]
    target = table(before)
    after = [column("id"), column("a"), column("k", "BIGINT")]
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 55), "ALTER", tuple(after), ("k",), "ALTER TABLE t DROP PRIMARY KEY, ADD COLUMN k BIGINT AUTO_INCREMENT PRIMARY KEY")  # fmt: skip
    plan = evolution.plan(
        evolution.Held(target.describe().columns), version, [c for c, _ in before], keyed=True
    )
    Committer(1).once(
        target, Identity(APP, 2, 1), lambda: target.change_columns(plan, target.describe())
    )
    direct, columns = direct_of(target), [*before, (column("k", "BIGINT"), "n + 100")]
    for batch, position, where in ((3, 60, "n < 5"), (4, 70, "n < 3")):
        source = rows(spark, columns, where, position, "'u'").toArrow()
        for key in (("k",), ("id", "k")):
            Committer(1).once(
                direct,
                Identity(f"{APP}{key}", batch),
                lambda source=source, key=key: mark(
                    direct, mirror.Mirror(), source, key, always=True
                ),
                may_do_nothing=True,
            )
    found = by_delta_rs(target, "SELECT k, count(*) n FROM t GROUP BY 1 ORDER BY 1 NULLS LAST")
    assert found == [{"k": 100 + n, "n": 1} for n in range(1, 5)] + [{"k": None, "n": 39}]


def test_files_with_marked_rows_outlive_the_versions_that_had_them_whole(spark, small):
    direct = direct_of(small)
    marking(direct, source_of(spark, "n BETWEEN 30 AND 45", 60), 3)
    marking(direct, source_of(spark, "n < 5 OR n = 42", 70, "'d'"), 4)
    before = small.frame().orderBy("id").localCheckpoint()
    direct.vacuum(0, lambda: None)
    assert_df_equality(small.frame().orderBy("id"), before)
    assert len(by_delta_rs(small, "SELECT id FROM t")) == before.count() == 40
    marking(direct, source_of(spark, "n = 20", 80, "'d'"), 5)
    assert small.frame().count() == 39


def direct_files(target):
    direct = direct_of(target)
    direct.version()
    return [one.add for one in direct.state.files.values()]


def test_a_table_with_marked_rows_follows_a_rename_and_is_merged_into_afterwards(spark, table):
    before = [(column("id"), "n"), (column("a"), "n")]
    target = table(before)
    direct = direct_of(target)
    marking(direct, rows(spark, before, "n < 10", 54, "IF(n < 5, 'd', 'u')"), 3)
    after = [column("id"), column("b")]
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 55), "ALTER", tuple(after), ("id",), "ALTER TABLE t RENAME COLUMN a TO b")  # fmt: skip
    plan = evolution.plan(
        evolution.Held(target.describe().columns), version, [c for c, _ in before], keyed=True
    )
    Committer(1).once(
        target, Identity(APP, 3, 1), lambda: target.change_columns(plan, target.describe())
    )
    columns = [(column("id"), "n"), (column("b"), "-n")]
    source = rows(spark, columns, "n IN (2, 7, 20)", 60, "'u'")
    assert mark_of(direct, source) is None, "its columns have other names in the files"
    direct_merge(target, source, 4, direct=direct)
    wanted = {n: -n if n in (2, 7, 20) else n for n in (2, *range(5, 40))}
    assert {row.id: row.b for row in target.frame().collect()} == wanted
    found = by_delta_rs(target, "SELECT id, b FROM t")
    assert {row["id"]: row["b"] for row in found} == wanted


def test_rows_that_keep_a_column_the_source_no_longer_has_are_not_marked(spark, table):
    columns = [(column("id"), "n"), (column("a"), "n")]
    target = table(columns)
    source = rows(spark, columns[:1], "n < 5", 60, "'u'")
    assert mark_of(direct_of(target), source) is None
    assert target.version() == 2


def mark_of(direct, source):
    direct.version()
    with direct.identified(APP, Marker(1, 4, 0).version, ""):
        return mark(direct, mirror.Mirror(), source.toArrow(), ("id",), always=True)


def test_a_batch_that_changes_no_row_makes_no_version(spark, table):
    columns = [(column("id"), "n"), (column("a"), "n")]
    target = table(columns)
    direct = direct_of(target)
    before = direct.version()
    marking(direct, rows(spark, columns, "n < 20", 40, "'u'"), 3)
    assert direct.version() == before


def test_a_table_whose_log_was_put_into_a_checkpoint_is_marked_as_before(spark, table):
    columns = [(column("id"), "n"), (column("a", "VARCHAR", 9), "n || 'x'")]
    target = table(columns)
    for batch in range(3, 3 + 2 * CHECKPOINT_EVERY):
        # By another process each time, which knows nothing but the log.
        marking(direct_of(target), rows(spark, columns, f"n = {batch}", 60 + batch, "'u'"), batch)
    found = sorted((Path(target.path) / "_delta_log").glob("*.checkpoint.parquet"))
    assert found
    direct = direct_of(target)
    direct.version()
    live = direct.state
    log = Path(target.path) / "_delta_log"
    (log / f"{int(found[-1].name[:20]):020d}.json").unlink()  # the checkpoint alone has it
    again = TableState.read(Path(target.path))
    assert again.version == direct.version()
    assert again.markers == live.markers
    assert again.files == live.files
    assert again.protocol == live.protocol
    assert again.metadata["schemaString"] == live.metadata["schemaString"]
    assert target.frame().count() == 39 + 3  # 40, 41 and 42 are new
