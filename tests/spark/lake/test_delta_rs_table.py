"""A MERGE by delta-rs: the same rows as Spark's, the same identity, and the fence holds."""

import errno
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable, QueryBuilder

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import CHECKPOINT_EVERY, DeltaRsTable
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.delta_rs_limits import WRITABLE, may_prune
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.lake.engines.merge_on_read import mark
from ingest.lake.engines.spark_engine import spark_merge
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker, quoted_for_delta_rs
from ingest.model.position import SQL_TYPE, Position
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column, column_type
from ingest.targets import mirror, mirror_rows

APP = "ingest/p/c/d.t/mirror"


def column(name, type_name="INT", length=None, scale=None):
    return Column(name, type_name, length, scale, optional=True)


# Each with an expression over the number n of a row.
EVERY_TYPE = (
    (column("tiny", "TINYINT"), "n % 127"),
    (column("big unsigned", "BIGINT UNSIGNED"), "18446744073709551615 - n"),
    (column("exact", "DECIMAL", 38, 10), "-9999999999999999999999999999.9999999999 + n"),
    (column("text of 65", "DECIMAL", 65, 30), "n || '.0'"),
    (column("float", "FLOAT"), "n / 3"),
    (column("_op", "DOUBLE"), "IF(n % 3 = 0, -0.0D, n / 7)"),
    (column("a.b", "VARCHAR", 99), "IF(n % 4 = 0, NULL, repeat('\U0001f600 é ', n % 5))"),
    (column('sel"ect`', "VARCHAR", 99), "concat('x', n, '  ')"),
    (column("Ünïcode", "LONGTEXT"), "repeat('y', n * 9)"),
    (column("bytes", "VARBINARY", 9), "unhex('00FF00')"),
    (column("bit", "BIT", 1), "n % 2 = 0"),
    (column("bits", "BIT", 9), "unhex('01FF')"),
    (column("day", "DATE"), "date_add('0001-01-01', n * 99)"),
    (column("wall", "DATETIME", 6), "timestamp_ntz'0001-01-01 00:00:00.000001' + make_dt_interval(n)"),
    (column("instant", "TIMESTAMP", 6), "timestamp'1970-01-01 00:00:01.999999' + make_dt_interval(n)"),
    (column("place", "GEOMETRY"), "named_struct('srid', 4326, 'wkb', unhex('0101'))"),
    (column("json", "JSON"), "'{\"a\": 1.0}'"),
)  # fmt: skip

KEYS = (
    (column("id", "BIGINT"), "n * 1000"),
    (column("id", "VARCHAR", 200), "repeat('long ', 30) || chr(n) || ' '"),
    (column("id", "VARBINARY", 200), "concat(unhex(repeat('FF', 70)), unhex(hex(n)))"),
    (column("id", "DECIMAL", 20, 5), "n / 8"),
    (column("id", "DATE"), "date_add('0001-01-01', n)"),
    (column("id", "DATETIME", 6), "timestamp_ntz'2026-01-01' + make_dt_interval(0, 0, 0, n / 1e6)"),
    (column("id", "TIMESTAMP", 6), "timestamp'2026-01-01' + make_dt_interval(0, 0, 0, n / 1e6)"),
)


def direct_of(target):
    return DeltaRsTable(target, Path(target.path).with_name("scratch"))


def rows(spark, columns, where, position, op="'c'"):
    """Rows of these numbers as a MERGE's source has them, all of them at one byte position."""
    values = ", ".join(
        f"CAST({text} AS {column_type(one).delta}) AS `{one.name.replace('`', '``')}`"
        for one, text in columns
    )
    place = f"named_struct('epoch', 0, 'file', 1, 'pos', {position}, 'row', 0, 'part', 1)"
    ours = f"named_struct('position', {place}, 'op', {op}, 'committed_at', timestamp'2026-01-01')"
    sql = f"SELECT {values}, CAST({ours} AS {mirror.META_TYPE}) AS _ingest"
    return spark.sql(f"{sql} FROM (SELECT CAST(id AS INT) n FROM range(1, 60)) WHERE {where}")


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


def direct_merge(target, source, batch, *, term=1, prune=False, direct=None):
    direct = direct or direct_of(target)
    names = [name for name in source.columns if name != "_ingest"]
    plan = mirror.mirror_plan(names, ("id",), quoted_for_delta_rs)
    return Committer(term).once(
        direct,
        Identity(APP, batch, 0, "a note"),
        lambda: direct.merge(source.toArrow(), plan, prune=("id",) if prune else ()),
        may_do_nothing=True,
    )


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[0].type_name)
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


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[0].type_name)
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


def adding(direct, source, batch):
    """What a MERGE of these rows inserts, where none of their keys is there."""
    rows = mirror_rows.inserted(source.toArrow(), mirror.Mirror())
    direct.version()
    with direct.identified(APP, Marker(1, batch, 0).version, ""):
        return direct.add(rows)


def test_rows_that_have_not_the_table_s_columns_are_not_added_and_deletes_make_no_version(
    spark, table
):
    columns = [(column("id"), "n"), (column("a"), "n")]
    target = table(columns)
    assert not adding(direct_of(target), rows(spark, columns[:1], "n > 50", 60), 3)
    assert adding(direct_of(target), rows(spark, columns, "n > 50", 60, "'d'"), 3)
    assert target.version() == 2


def test_a_table_is_merged_into_only_where_its_files_may_hold_a_key(spark, folder, small):
    merging = Merging(EngineJob(spark, Committer(1), str(folder), "delta-rs", "standard"))
    for batch, where in enumerate(["n = 1", "n > 50", "n IN (2, 55)", "n = 59"], 3):
        some = rows(
            spark, [(column("id"), "n"), (column("v", "VARCHAR", 9), "'new'")], where, 60 + batch
        )
        source = MergeSource(lambda: None, some.toArrow(), 100)
        merging.merge(
            Merge(small, mirror.Mirror(), source, ["id", "v"], {"id": "int"}, Identity(APP, batch))
        )
    made = [one["operation"] for one in DeltaTable(small.path).history(4)][::-1]
    assert made == ["MERGE", "WRITE", "MERGE", "MERGE"]
    held = {row.id: row.v for row in small.frame().collect()}
    assert held == {
        n: "new" if n in (1, 2) or n > 50 else str(n) for n in (*range(1, 40), *range(51, 60))
    }


def marking(direct, source, batch):
    """One batch's source rows, marked where they are; returns whether it was done."""
    rows = source.toArrow()
    return Committer(1).once(
        direct,
        Identity(APP, batch, 0, "a note"),
        lambda: mark(direct, mirror.Mirror(), rows, ("id",), always=True),
        may_do_nothing=True,
    )


def by_delta_rs(table, sql):
    found = QueryBuilder().register("t", DeltaTable(table.path)).execute(sql).read_all()
    return pa.table(found).to_pylist()


MARKED = [key for key in KEYS if key[0].type_name in ("BIGINT", "VARCHAR")]


@pytest.mark.parametrize("key", MARKED, ids=lambda key: key[0].type_name)
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
    direct.vacuum(0)
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


@pytest.fixture
def small(table):
    return table([(column("id"), "n"), (column("v", "VARCHAR", 9), "n || ''")])


def source_of(spark, where, position, op="'u'"):
    return rows(
        spark, [(column("id"), "n"), (column("v", "VARCHAR", 9), "'new'")], where, position, op
    )


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
