"""Tables that delta-rs does not write are put in order by Spark, and rid of old versions: no row changes, and each reader finds it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from ingest.lake.delta import file_statistics
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.lease import LeaseLostError
from ingest.maintenance import by_spark, small_files, vacuum_times
from ingest.maintenance.by_spark import SparkUpkeep
from ingest.maintenance.vacuum_times import VacuumTimes
from ingest.model.names import upkeep_app_id
from ingest.schema import evolution
from ingest.start import power_cut
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

APP = upkeep_app_id("p")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(by_spark, "LOOK_EVERY", 2)
    monkeypatch.setattr(small_files, "FEWEST", 4)
    monkeypatch.setattr(evolution, "SMALL", 0)  # a small table, too, gets a feature by a DDL


@pytest.fixture
def lake(spark, tmp_path):
    made = Lake(spark, tmp_path / "lake")
    yield made
    made.close()


@pytest.fixture
def table():
    table = Source().table(
        "d.t", {"id": "INT", "v": "INT", "z": "DOUBLE", "w": "DECIMAL(38,20)"}, ["id"]
    )
    table.insert(id=0, v=1, z=-0.0, w="0.00000000001")
    return table


def widened(lake, table, batches):
    """A table that Spark alone merges into, by so many batches. Each has a value of which Spark makes bounds that some reader misreads."""
    lake.follow(table.source)
    table.modify_column("v", "BIGINT")
    for number in range(1, batches):
        table.insert(id=number, v=number, z=-0.0, w="0.00000000001")
        lake.follow(table.source)
    return Path(lake.pipeline.path(table.name))


def upkeep_of(lake, what):
    return [one for report in lake.seen for one in report.upkeep if one.what == what]


def mapped(lake, table, batches):
    """The same of a table whose columns are mapped, so that its files lie in folders."""
    lake.follow(table.source)
    table.rename_column("w", "width")
    for number in range(1, batches):
        table.insert(id=number, v=number, z=-0.0, width="0.00000000001")
        lake.follow(table.source)
    return Path(lake.pipeline.path(table.name))


def data_files(path):
    return {one.name for one in path.rglob("*.parquet") if "_delta_log" not in one.parts}


def live(path):
    held = DeltaTable(path)
    return {Path(file).name for file in held.file_uris()}


def misread(spark, path):
    """Live files whose entries some reader would miss rows by."""
    table = SparkTable(spark, str(path))
    known = file_statistics.columns(table.schema_json())
    adds = {}
    for _, actions in table.commits(0):
        adds |= {one["add"]["path"]: one["add"] for one in actions if "add" in one}
    there = live(path)
    return [
        name for name, add in adds.items() if name in there and file_statistics.misread(add, known)
    ]


def behind_optimize(spark, lake, path, monkeypatch, dies_at):
    """A job that dies when its OPTIMIZE is committed, and not yet on the disk."""
    job = SparkUpkeep(spark, Committer(1), APP, str(lake.path))
    job._looked[str(path)] = 0

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*dies_at, dies)
        with pytest.raises(KeyboardInterrupt):
            job.compact(str(path), 10_000, lambda _: None)


@pytest.mark.long  # two jobs that die do it below, too
def test_files_are_put_together_between_batches_and_no_row_changes(spark, lake, table):
    path = widened(lake, table, 9)
    (done, *_) = upkeep_of(lake, "ordered")
    assert done.path == str(path)
    assert "files put together by Spark" in str(done)
    assert upkeep_of(lake, "failed") == []
    assert len(live(path)) < 6
    assert misread(spark, path) == []
    assert_rows(lake.table(table).drop("_ingest"), table.rows)
    lake.start()  # a restart finds its own commits, and goes on
    table.insert(id=99, v=2**40, z=0.0, w="1")
    lake.follow(table.source)
    assert_rows(lake.table(table).drop("_ingest"), table.rows)


def test_a_job_that_dies_behind_optimize_leaves_to_the_next_one_what_it_has_not_put_right(
    spark, lake, table, monkeypatch
):
    monkeypatch.setattr(by_spark, "LOOK_EVERY", 1_000)
    path = widened(lake, table, 6)
    behind_optimize(spark, lake, path, monkeypatch, (SparkUpkeep, "_put_right"))
    assert misread(spark, path) != []
    assert SparkUpkeep(spark, Committer(2), APP, str(lake.path)).compact(
        str(path), 1, lambda _: None
    )
    assert misread(spark, path) == []
    assert_rows(lake.table(table).drop("_ingest"), table.rows)


@pytest.mark.long
@pytest.mark.parametrize("made", [widened, mapped])
def test_old_versions_go_once_they_are_old_enough_and_the_newest_stays(
    spark, lake, table, monkeypatch, made
):
    monkeypatch.setattr(vacuum_times, "_AT_MOST_EVERY", 0.0)
    path = made(lake, table, 6)
    table.update(1, v=7)
    lake.follow(table.source)
    job, said = SparkUpkeep(spark, Committer(1), APP, str(lake.path)), []
    times = VacuumTimes(str(lake.path / "other"))
    assert not job.vacuum(str(path), 0, times, said.append), "nothing of a table that is new is old"
    assert live(path) < data_files(path)
    assert job.vacuum(str(path), 0, times, said.append)
    assert data_files(path) == live(path)
    assert "files of old versions removed" in str(said[0])
    assert (
        SparkTable(spark, str(path)).property_of("delta.logRetentionDuration") == "interval 0 hours"
    )
    assert_rows(lake.table(table).drop("_ingest"), table.rows)
    table.update(2, v=8)
    lake.follow(table.source)
    assert_rows(lake.table(table).drop("_ingest"), table.rows)


def test_a_power_cut_behind_optimize_is_taken_back_and_no_row_is_lost(
    spark, lake, table, monkeypatch
):
    monkeypatch.setattr(by_spark, "LOOK_EVERY", 1_000)
    path = widened(lake, table, 6)
    before, version = live(path), DeltaTable(path).version()
    behind_optimize(spark, lake, path, monkeypatch, (Committer, "to_publish"))
    assert DeltaTable(path).version() > version
    lake.close()
    for name in live(path) - before:  # in part, as a disk may have it that was not told to sync
        file = path / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    (said,) = power_cut.take_back(lake.pipeline, [table.name])
    assert said.startswith("d/t version")
    assert (DeltaTable(path).version(), live(path)) == (version, before)
    assert power_cut.take_back(lake.pipeline, [table.name]) == []
    lake.start()
    assert_rows(lake.table(table).drop("_ingest"), table.rows)
    table.insert(id=60, v=2**40, z=0.0, w="1")
    lake.follow(table.source)
    assert_rows(lake.table(table).drop("_ingest"), table.rows)


@pytest.mark.long
def test_what_a_kill_has_left_of_optimize_stays(spark, lake, table, monkeypatch):
    monkeypatch.setattr(by_spark, "LOOK_EVERY", 1_000)
    path = widened(lake, table, 6)
    behind_optimize(spark, lake, path, monkeypatch, (Committer, "to_publish"))
    version = DeltaTable(path).version()
    job = SparkUpkeep(spark, Committer(2), APP, str(lake.path))
    assert job.compact(str(path), 1, lambda _: None)
    assert power_cut.take_back(lake.pipeline, [table.name]) == []
    assert DeltaTable(path).version() == version


@pytest.mark.long
def test_who_has_lost_the_lease_moves_and_removes_nothing(
    spark, lake, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(by_spark, "LOOK_EVERY", 1_000)
    path = widened(lake, table, 6)
    table.update(1, v=7)
    lake.follow(table.source)
    before = sorted(path.rglob("*"))

    def lost():
        raise LeaseLostError("another")

    job = SparkUpkeep(spark, Committer(1, lost), APP, str(lake.path))
    times = VacuumTimes(str(tmp_path / "other"))
    monkeypatch.setattr(vacuum_times, "_AT_MOST_EVERY", 0.0)
    times.note(str(path))
    with pytest.raises(LeaseLostError):
        job.compact(str(path), 1, lambda _: None)
    with pytest.raises(LeaseLostError):
        job.vacuum(str(path), 0, times, lambda _: None)
    assert sorted(path.rglob("*")) == before
    # Suspended from when Spark has named the files until another one has the lease.
    asked = iter([lambda: None, lost])
    job = SparkUpkeep(spark, Committer(1, lambda: next(asked)()), APP, str(lake.path))
    files = data_files(path)
    with pytest.raises(LeaseLostError):
        job.vacuum(str(path), 0, times, lambda _: None)
    assert data_files(path) == files
    assert live(path) < files, "there was something to be removed"
