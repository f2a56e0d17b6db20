"""Files written anew hold the rows they held, for every reader, and nobody's commit is lost to it."""

import json
import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_log import cut
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.maintenance import file_layout, schedule
from ingest.maintenance.compaction import compact, files
from ingest.maintenance.file_layout import Rewrite
from ingest.maintenance.schedule import Maintenance
from ingest.model.names import quoted_for_delta_rs
from ingest.targets import mirror
from tests.support.keyed_table import (
    APP,
    EVERY_TYPE,
    KEYS,
    column,
    direct_merge,
    direct_of,
    marking,
    rows,
    source_of,
)


def written_anew(target, rows_per_file=10, key=("id",)):
    """Compact all of a table; returns what `compact` says."""
    direct = direct_of(target)
    direct.version()
    rewrite = Rewrite(tuple(files(direct, key[0] if key else None)), rows_per_file, True)
    return compact(direct, rewrite, key)


def actions(target, version=-1):
    log = sorted((Path(target.path) / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in log[version].read_text().splitlines()]


@pytest.mark.parametrize("key", KEYS[1:4:2], ids=lambda key: key[0].type_name)
def test_every_type_comes_through_and_versions_before_stay_readable(spark, table, key):
    columns = [key, *(one for one in EVERY_TYPE if " " not in one[0].name)]
    target = table(columns)
    direct_merge(target, rows(spark, columns, "n % 3 = 0", 60, "'u'"), 3)
    before = target.frame().orderBy("id").localCheckpoint()
    version = target.version()
    assert written_anew(target)
    assert target.version() == version + 1
    assert_df_equality(target.frame().orderBy("id"), before)
    old = spark.read.format("delta").option("versionAsOf", version).load(target.path)
    assert_df_equality(old.orderBy("id"), before)
    assert all(
        not action[kind]["dataChange"]
        for action in actions(target)
        for kind in ("add", "remove")
        if kind in action
    )
    assert not list((Path(target.path).parent / "scratch").iterdir())


def test_rows_lie_by_key_in_files_of_the_size_that_was_asked_for(spark, table):
    target = table([(column("id"), "n * 7 % 61"), (column("v"), "n")])
    assert written_anew(target)
    found = sorted((one.low, one.high, one.rows) for one in files(direct_of(target), "id"))
    assert sum(rows for *_, rows in found) == 39
    assert max(rows for _, _, rows in found) <= 10
    assert all(a[1] < b[0] for a, b in pairwise(found))


def test_mapped_columns_and_a_table_without_a_key_come_through(spark, table):
    for name, columns in {
        "mapped": [(column("id"), "n"), (column("a b", "VARCHAR", 9), "n || 'b'")],
        "bag": [(column("id"), "n % 3"), (column("v"), "n")],
    }.items():
        target = table(columns, name)
        before = target.frame().orderBy(*(f"`{c.name}`" for c, _ in columns)).localCheckpoint()
        assert written_anew(target, key=("id",) if name == "mapped" else ())
        after = target.frame().orderBy(*(f"`{c.name}`" for c, _ in columns))
        assert_df_equality(after, before, ignore_row_order=True)
        source = rows(spark, columns, "n = 3", 60, "'u'")
        if name == "mapped":
            direct_merge(target, source, 4)
            assert target.frame().count() == before.count()


def test_rows_that_were_marked_are_not_brought_along(spark, small):
    marking(direct_of(small), source_of(spark, "n BETWEEN 30 AND 45", 60), 3)
    marking(direct_of(small), source_of(spark, "n < 5 OR n = 42", 70, "'d'"), 4)
    before = small.frame().orderBy("id").localCheckpoint()
    assert any(one.deleted for one in files(direct_of(small), "id"))
    assert written_anew(small)
    assert not any(one.deleted for one in files(direct_of(small), "id"))
    assert_df_equality(small.frame().orderBy("id"), before)
    marking(direct_of(small), source_of(spark, "n = 20", 80, "'d'"), 5)
    assert small.frame().count() == before.count() - 1


def test_rows_that_spark_marked_in_a_file_of_its_own_stay_away(spark, small):
    spark.sql(
        f"ALTER TABLE delta.`{small.path}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)"
    )
    setting = "spark.databricks.delta.delete.deletionVectors.persistent"
    spark.conf.set(setting, "true")
    try:
        small.delta().delete("id % 3 = 0")
    finally:
        spark.conf.set(setting, "false")
    held = direct_of(small).state.files.values()
    vectors = [one.add["deletionVector"] for one in held if "deletionVector" in one.add]
    assert {vector["storageType"] for vector in vectors} == {"u"}
    assert direct_merge(small, source_of(spark, "n IN (1, 3)", 60), 3)
    direct_merge(small, source_of(spark, "n = 39", 60), 4, prune=True)
    assert written_anew(small)
    wanted = {n: "new" if n in (1, 3, 39) else str(n) for n in range(40) if n % 3 or n in (3, 39)}
    assert {row.id: row.v for row in small.frame().collect()} == wanted


def test_a_commit_that_came_between_wins_and_nothing_is_left_of_ours(spark, small):
    direct = direct_of(small)
    direct.version()
    held = files(direct, "id")
    direct_merge(small, source_of(spark, "n = 1", 60), 3)  # somebody else's object
    lying = {file.name for file in Path(small.path).glob("*.parquet")}
    version = small.version()
    rewrite = Rewrite(tuple(held), 10, True)
    assert not compact(direct, rewrite, ("id",))
    assert {file.name for file in Path(small.path).glob("*.parquet")} == lying
    assert small.version() == version


def test_files_that_do_not_hold_the_rows_they_say_are_left_as_they_are(spark, small):
    direct = direct_of(small)
    version = direct.version()
    held = files(direct, "id")
    wrong = Rewrite((*held[:-1], replace(held[-1], rows=held[-1].rows + 1)), 10, True)
    with pytest.raises(OSError, match="rows became"):
        compact(direct, wrong, ("id",))
    assert small.version() == version


def test_files_that_a_table_no_longer_has_are_not_written_anew(spark, small):
    direct = direct_of(small)
    direct.version()
    gone = Rewrite((file_layout.DataFile("part-0.parquet", 1, 1),), 10, True)
    assert not compact(direct, gone, ("id",))


def test_a_job_goes_on_after_it_has_put_its_table_in_order(spark, small, monkeypatch):
    monkeypatch.setattr(schedule, "LOOK_EVERY", 2)
    monkeypatch.setattr(file_layout, "MANY_SMALL", 2)
    monkeypatch.setattr(file_layout, "WORTH", 0)
    upkeep = Maintenance(str(Path(small.path).parent), 1, 10_000, Committer(1), "p")
    direct, committer = direct_of(small), Committer(1)
    plan = mirror.mirror_plan(["id", "v"], ("id",), quoted_for_delta_rs)
    for batch in range(1, 9):
        merged = source_of(spark, f"n = {batch} OR n = {batch} + 40", 60 + batch).toArrow()
        act = partial(direct.merge, merged, plan, prune=("id",))
        assert committer.once(direct, Identity(APP, batch), act)
        upkeep.between_batches([direct])
    assert upkeep.done()
    operations = [one["operation"] for one in DeltaTable(small.path).history()]
    assert "MERGE" in operations[: operations.index("OPTIMIZE")]
    found = {row.id: row.v for row in small.frame().collect()}
    changed = {*range(1, 9), *range(41, 49)}
    assert found == {n: "new" if n in changed else str(n) for n in (*range(1, 40), *range(41, 49))}


def test_rows_deleted_where_changes_were_once_go_when_changes_come_elsewhere(
    spark, small, monkeypatch
):
    monkeypatch.setattr(schedule, "LOOK_EVERY", 1)
    monkeypatch.setattr(file_layout, "QUIET", 3)
    monkeypatch.setattr(file_layout, "SMALLEST", 1)
    upkeep = Maintenance(str(Path(small.path).parent), 1, 10_000, Committer(1), "p")
    direct = direct_of(small)
    left, right = sorted(files(direct, "id"), key=lambda one: one.low)
    held = []
    for batch, row in enumerate((left.low, right.low, right.low, right.low, right.low), start=1):
        marking(direct, source_of(spark, f"n = {row}", 60 + batch), batch)
        upkeep.between_batches([direct])
        paths = {one.path for one in files(direct, "id")}
        held.append((left.path in paths, right.path in paths))
    assert held[:4] == [(True, True)] * 3 + [(False, True)]
    found = {row.id: row.v for row in small.frame().collect()}
    assert found == {n: "new" if n in (left.low, right.low) else str(n) for n in range(1, 40)}


def test_old_versions_go_when_nothing_says_that_they_are_to_stay(spark, small):
    direct = direct_of(small)
    for batch in range(1, 4):
        direct_merge(small, source_of(spark, f"n = {batch}", 60 + batch), batch, direct=direct)
    before = small.frame().orderBy("id").localCheckpoint()
    (Path(small.path) / "orphan.parquet").write_bytes(b"of a commit that never was")
    assert direct.vacuum(0, lambda: None) > 1
    live = {one.path for one in files(direct_of(small), "id")}
    assert {file.name for file in Path(small.path).glob("*.parquet")} == live
    assert_df_equality(small.frame().orderBy("id"), before)
    assert SparkTable(spark, small.path).property_of("delta.logRetentionDuration") == "interval 0 hours"  # fmt: skip
    assert direct_merge(small, source_of(spark, "n = 9", 70), 9, direct=direct)


def test_versions_are_kept_as_long_as_was_asked_also_over_restarts(spark, small, monkeypatch):
    lake, now = Path(small.path).parent, [1_000_000.0]
    monkeypatch.setattr(schedule.time, "time", lambda: now[0])
    asked = []
    direct = direct_of(small)
    monkeypatch.setattr(
        DeltaRsTable, "vacuum", lambda self, hours, ask, first: asked.append((now[0], hours))
    )
    for hour in range(9):
        now[0] = 1_000_000.0 + hour * 3600
        Maintenance(str(lake), 48, 10_000, Committer(1), "p").between_batches([direct])
    assert asked == [(1_000_000.0 + h * 3600, 48) for h in (2, 4, 6, 8)]


def test_the_manifest_s_own_versions_go_after_an_hour(small, monkeypatch):
    lake, now, asked = Path(small.path).parent, [1_000_000.0], []
    monkeypatch.setattr(schedule.time, "time", lambda: now[0])
    monkeypatch.setattr(schedule, "manifest_path", lambda lake: small.path)
    direct = direct_of(small)
    monkeypatch.setattr(
        DeltaRsTable, "vacuum", lambda self, hours, ask, first: asked.append((now[0], hours))
    )
    upkeep = Maintenance(str(lake), 168, 10_000, Committer(1), "p")
    for minute in range(0, 25, 5):
        now[0] = 1_000_000.0 + minute * 60
        upkeep.between_batches([direct])
    assert asked == [(1_000_000.0 + minute * 60, 1) for minute in (10, 20)]


def test_what_cannot_be_done_is_said_once_and_stops_nothing(spark, small, monkeypatch):
    def fail(self, hours, ask, first):
        raise OSError("no space left")

    monkeypatch.setattr(DeltaRsTable, "vacuum", fail)
    upkeep = Maintenance(str(Path(small.path).parent), 1, 10_000, Committer(1), "p")
    direct = direct_of(small)
    upkeep.between_batches([direct])
    monkeypatch.setattr(schedule.time, "time", lambda: 9e9)
    for _ in range(3):
        upkeep.between_batches([direct])
    (said,) = upkeep.done()
    assert "no space left" in str(said)


def test_a_log_is_cut_at_a_checkpoint_and_the_newest_versions_stay_readable(spark, small):
    direct = direct_of(small)
    for batch in range(1, 30):
        direct_merge(small, source_of(spark, f"n = {batch}", 60), batch, direct=direct)
    log, newest = Path(small.path) / "_delta_log", direct.version()
    before = small.frame().orderBy("id").localCheckpoint()
    assert cut(Path(small.path), newest - 100) == 0
    assert cut(Path(small.path), newest - 5) > 15
    left = sorted(file.name for file in log.glob("*.json"))
    base = int(left[0][:20])
    assert newest - base >= 5
    assert [int(name[:20]) for name in left] == list(range(base, newest + 1))
    old = spark.read.format("delta").option("versionAsOf", newest - 5).load(small.path)
    assert old.count() == before.count()
    assert_df_equality(spark.read.format("delta").load(small.path).orderBy("id"), before)
    assert DeltaTable(small.path).version() == newest
    assert direct_merge(small, source_of(spark, "n = 9", 70), 90, direct=direct)
    assert direct_merge(small, source_of(spark, "n = 8", 70), 91), "another process"


def test_commits_of_others_and_a_table_made_again_are_seen(spark, table):
    columns = [(column("id"), "n"), (column("v", "VARCHAR", 9), "n || ''")]
    target = table(columns)
    direct = direct_of(target)
    first, id_ = direct.version(), direct.id()
    direct_merge(target, source_of(spark, "n = 1", 60), 1)  # by another object
    assert direct.version() == first + 1
    assert direct_merge(target, source_of(spark, "n = 2", 60), 2, direct=direct)
    assert direct.version() == first + 2
    shutil.rmtree(target.path)
    table(columns)
    assert (direct.version(), direct.id() == id_) == (first, False)
    shutil.rmtree(target.path)
    again = table(columns)
    for batch in (1, 2, 3):
        direct_merge(again, source_of(spark, f"n = {batch}", 60), batch)
    assert direct.version() == first + 3
