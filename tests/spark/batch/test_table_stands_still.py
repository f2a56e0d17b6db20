"""One table of which a part of a batch cannot be applied: it stands still, the others go on, and in the end all is equal."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException

from ingest.batch.side_by_side import Failures, SideBySide
from ingest.batch.table_applier import Applier
from ingest.job.stream_failure import is_everybodys
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.dispatch import Merging
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model import offset_ranges
from ingest.model.errors import IngestError
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.support.leases import quick_leases

SICK = "d.sick"
COLUMNS = {"id": "INT", "v": "VARCHAR(20)"}
ways = pytest.mark.parametrize(
    ("engine", "key"),
    [
        pytest.param("spark", ("id",), id="by Spark", marks=pytest.mark.long),
        pytest.param("delta-rs", ("id",), id="by delta-rs"),
        pytest.param("delta-rs", (), id="without a key"),
    ],
)


class Pair:
    """Two tables of a lake: one that is about to fail, and one that does not."""

    def __init__(self, spark, folder, engine, *, key=("id",)):
        self.source = Source()
        self.sick = self.source.table(SICK, COLUMNS, key)
        self.well = self.source.table("d.well", COLUMNS, ["id"])
        self.lake = Lake(spark, folder, spark={"merge_engine": engine})
        self.write(1)
        self.lake.follow(self.source)

    def start(self):
        """As another process."""
        self.lake.failures = Failures()
        self.lake.start()

    def start_again(self):
        """As another query of the same run."""
        self.lake.start()

    def write(self, number):
        for table in (self.sick, self.well):
            table.insert(id=number, v="new")
            if number > 1:
                row = {"id": number - 1, "v": "new"}
                table.update(table.key_of({n: table.value(n, v) for n, v in row.items()}), v="old")

    def follow(self):
        """A batch; where it fails, the query begins anew, as in a run, and finishes it."""
        try:
            self.lake.follow(self.source)
        except Exception:  # noqa: BLE001  whatever it is
            self.lake.start()

    @property
    def newest(self):
        return Ledger(str(self.lake.path)).last()

    def are_equal(self):
        for table in (self.sick, self.well):
            assert_rows(self.lake.live(table).drop("_ingest"), table.rows)
        return True


@contextmanager
def failing(failure):
    """The sick table's part fails."""
    real = Applier._step

    def step(self, target, table, one, *rest):
        if str(table) == SICK:
            raise failure
        return real(self, target, table, one, *rest)

    with patch.object(Applier, "_step", step):
        yield


@contextmanager
def failing_to_merge(failure, after):
    """The sick table's part fails at a MERGE, after so many of its own."""
    real, merges = Merging.merge, []

    def merge(self, one):
        if one.table.path.endswith("/sick"):
            if len(merges) >= after:
                raise failure
            merges.append(1)
        real(self, one)

    with patch.object(Merging, "merge", merge):
        yield


@ways
def test_the_others_go_on_and_what_it_misses_comes_in_order_when_it_is_mended(
    spark, tmp_path, engine, key
):
    pair = Pair(spark, tmp_path, engine, key=key)
    with failing(ValueError("poison")):
        for number in (2, 3, 4):
            pair.write(number)
            pair.follow()
        assert "poison" in pair.newest.tables[SICK].stopped
        assert_rows(pair.lake.live(pair.well).drop("_ingest"), pair.well.rows)
        assert pair.lake.live(pair.sick).count() == 1, "as it was before"
    pair.start()
    assert pair.newest.tables[SICK].stopped == ""
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        pytest.param("spark", ("id",), id="by Spark", marks=pytest.mark.long),
        pytest.param("delta-rs", ("id",), id="by delta-rs", marks=pytest.mark.long),
        pytest.param("delta-rs", (), id="without a key"),
    ],
)
def test_what_was_committed_of_its_part_before_it_failed_is_taken_back(
    spark, tmp_path, engine, key
):
    pair = Pair(spark, tmp_path, engine, key=key)
    pair.write(2)
    pair.sick.add_column("more", "INT")
    pair.write(3)
    held = pair.newest.tables[SICK].version
    # Both attempts change its columns, and fail at the rows behind them: the batch is finished under its own number.
    with failing_to_merge(ValueError("poison"), after=0 if key else 1):
        pair.follow()
    state = pair.newest.tables[SICK]
    assert state.stopped
    assert state.version > held, "a RESTORE is a version of its own"
    assert pair.lake.live(pair.sick).count() == 1
    pair.start()
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


@pytest.mark.parametrize("key", [("id",), ()], ids=["with a key", "without a key"])
def test_one_that_another_program_has_changed_stands_still_and_a_batch_torn_beside_it_is_finished(
    spark, tmp_path, key
):
    pair = Pair(spark, tmp_path, "delta-rs", key=key)
    pair.lake.failures.is_everybodys = is_everybodys
    folder, known = tmp_path / "d" / "sick", pair.newest.tables[SICK].version
    DeltaTable(folder).delete("id = 1")
    pair.write(2)
    pair.follow()  # the other table's part is committed; the batch is finished without this one
    assert f"VERSION AS OF {known}" in pair.newest.tables[SICK].stopped
    assert_rows(pair.lake.live(pair.well).drop("_ingest"), pair.well.rows)
    pair.write(3)
    pair.lake.follow(pair.source)
    pair.start()
    assert pair.newest.tables[SICK].stopped, "each start looks again"
    assert_rows(pair.lake.live(pair.well).drop("_ingest"), pair.well.rows)
    assert pair.lake.live(pair.sick).count() == 0, "as the other program has left it"
    DeltaTable(folder).restore(known)
    pair.start()
    assert pair.newest.tables[SICK].stopped == ""
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


def test_one_that_fails_alone_in_its_batch_stands_still_at_once(spark, tmp_path):
    pair = Pair(spark, tmp_path, "delta-rs")
    pair.lake.failures = Failures(goes_on=True)
    pair.start_again()
    pair.write(2)
    with failing(ValueError("poison")):
        pair.lake.follow(pair.source)
    assert "poison" in pair.newest.tables[SICK].stopped
    assert_rows(pair.lake.live(pair.well).drop("_ingest"), pair.well.rows)
    pair.start_again()
    assert pair.newest.tables[SICK].stopped == "", "one failure may be chance"
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


def test_a_file_that_is_gone_is_its_table_s_own_trouble(spark, tmp_path):
    pair = Pair(spark, tmp_path, "delta-rs")
    (file,) = (tmp_path / "d" / "sick").glob("*.parquet")
    hidden = file.rename(tmp_path / "hidden")
    spark.catalog.clearCache()
    pair.write(2)
    pair.lake.follow(pair.source)
    assert f"{file.name}, which the newest version of" in pair.newest.tables[SICK].stopped
    assert_rows(pair.lake.live(pair.well).drop("_ingest"), pair.well.rows)
    hidden.rename(file)
    pair.start()
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


def test_a_table_that_fails_at_its_first_change_is_filled_when_it_is_mended(spark, tmp_path):
    pair = Pair(spark, tmp_path, "delta-rs")
    new = pair.source.table("d.new", COLUMNS, ["id"])
    new.insert(id=1, v="x")
    pair.write(2)
    real = Applier.apply

    def apply(self, batch, work):
        if str(batch.facts.table) == "d.new":
            raise IngestError("E-OURS", "no", remedy="none")
        return real(self, batch, work)

    with patch.object(Applier, "apply", apply):
        pair.lake.follow(pair.source)
    assert "no" in pair.newest.tables["d.new"].stopped, "an error of ours is certain at once"
    assert pair.are_equal()
    pair.start()
    pair.lake.apply(pair.lake.log.ends())
    assert_rows(pair.lake.live(new).drop("_ingest"), new.rows)


@pytest.mark.parametrize(
    "failure", [LeaseLostError("term 9"), PySparkException("chance")], ids=["everybody's", "once"]
)
def test_what_is_everybody_s_or_may_be_chance_ends_the_batch_for_all(spark, tmp_path, failure):
    pair = Pair(spark, tmp_path, "delta-rs")
    pair.lake.failures.is_everybodys = lambda one: isinstance(one, LeaseLostError)
    before = pair.newest.batch_id
    pair.write(2)
    with failing(failure), pytest.raises(type(failure)):
        pair.lake.follow(pair.source)
    assert pair.newest.batch_id == before
    pair.start()
    assert pair.are_equal()
    assert not pair.newest.tables[SICK].stopped


def test_who_cannot_be_brought_back_and_has_no_key_stops_all(spark, tmp_path):
    pair = Pair(spark, tmp_path, "delta-rs", key=())
    pair.write(2)
    with (
        failing(ValueError("poison")),
        patch.object(Applier, "bring_back", side_effect=OSError("gone")),
    ):
        with pytest.raises(ValueError, match="poison"):
            pair.lake.follow(pair.source)
        with pytest.raises(ValueError, match="poison"):
            pair.lake.start()
    pair.start()
    assert pair.are_equal()


@pytest.mark.parametrize("key", [("id",), ()], ids=["with a key", "without a key"])
def test_a_job_suspended_where_a_table_of_its_is_about_to_stand_still_brings_nothing_back(
    spark, tmp_path, key
):
    """What it would undo is by now what its successor has committed there, and no fence refuses a RESTORE."""
    pair = Pair(spark, tmp_path, "delta-rs", key=key)
    pair.write(2)
    pair.sick.add_column("more", "INT")
    pair.write(3)
    said = pair.lake.log.batches
    with quick_leases(str(tmp_path)) as leases:
        pair.lake.batches.tables.applier.committer.refuse_lost = leases.take().refuse_lost
        real = SideBySide._stop

        def suspended(self, *args, **kwargs):
            leases.take()
            return real(self, *args, **kwargs)

        with (
            failing_to_merge(IngestError("E-OURS", "no", remedy="none"), after=0 if key else 1),
            patch.object(SideBySide, "_stop", suspended),
            pytest.raises(LeaseLostError),
        ):
            pair.lake.follow(pair.source)
    assert len(said) == 2
    operations = [one["operation"] for one in DeltaTable(tmp_path / "d" / "sick").history()]
    assert "RESTORE" not in operations
    pair.start()
    assert pair.are_equal()


def test_upkeep_since_the_published_version_is_no_reason_to_go_back_to_files_that_are_gone(
    spark, tmp_path
):
    pair = Pair(spark, tmp_path, "delta-rs", key=())
    pair.write(2)
    pair.follow()
    folder = tmp_path / "d" / "sick"
    before = set(folder.glob("*.parquet"))
    DeltaTable(folder).optimize.z_order(["id"])
    assert set(folder.glob("*.parquet")) > before, "its rows lie in another file now"
    for file in before:
        file.unlink()
    pair.lake.start()
    pair.write(3)
    with failing(ValueError("poison")):
        pair.follow()
        pair.lake.apply(pair.lake.log.ends())
    assert pair.newest.tables[SICK].stopped
    pair.start()
    pair.lake.apply(pair.lake.log.ends())
    assert pair.are_equal()


def test_of_a_table_alone_in_its_pipeline_a_failure_is_the_run_s(spark, tmp_path):
    source = Source()
    alone = source.table(SICK, COLUMNS, ["id"])
    alone.insert(id=1, v="x")
    lake = Lake(spark, tmp_path)
    lake.follow(source)
    alone.insert(id=2, v="y")
    with failing(ValueError("poison")):
        with pytest.raises(ValueError, match="poison"):
            lake.follow(source)
        with pytest.raises(ValueError, match="poison"):
            lake.apply(lake.log.ends())
    assert lake.failures.tables == {SICK}
    assert SparkTable(spark, str(tmp_path / "d" / "sick")).exists()


def test_beside_it_spark_s_state_sees_all_of_a_batch_and_what_came_again_is_applied_once(
    spark, tmp_path
):
    """Spark fails a query whose state has not seen a batch, and marks do not know what came again where it alone does."""
    source = Source()
    sick, loose = source.table(SICK, COLUMNS, ["id"]), source.table("d.loose", COLUMNS)
    lake = Lake(spark, tmp_path / "lake", dedup={"by": "watermark"})
    sick.insert(id=1, v="a")
    loose.insert(id=1, v="a")
    lake.follow(source)
    newest = lake.batches.newest
    stopped = replace(newest.tables[SICK], stopped="a disk is full")
    lake.batches.rewind(replace(newest, tables={**newest.tables, SICK: stopped}))
    for number, writes in ((2, (sick, loose)), (3, (sick,))):
        before, ends = len(source.log), lake.log.ends()
        for table in writes:
            table.insert(id=number, v="b")
        new = source.log[before:]
        for record in [*new, *(one for one in new if one.topic == "p.d.loose")]:  # it comes twice
            lake.log.add(record)
        lake.log.batches.append(offset_ranges.ranges(ends, lake.log.ends()))
        seen = spark.sparkContext.accumulator(0)
        records = lake.log.read(lake.log.batches[-1]).filter("topic != 'p.d.loose' or offset < 2")
        batch = spark.createDataFrame(
            records.rdd.map(lambda row, seen=seen: (seen.add(1), row)[1]), records.schema
        )
        lake.batches.apply(batch, len(lake.log.batches) - 1)
        assert seen.value == len(new)
    assert_rows(lake.live(loose).drop("_ingest"), loose.rows)
    lake.close()


def test_a_mirror_is_not_made_inside_a_table_and_the_others_go_on(spark, tmp_path):
    """A flow's table may be called as a database is that comes later. Its VACUUM would take the mirror's files for old ones of its own."""
    lake = Lake(spark, tmp_path)
    source = Source()
    inside = source.table("sales.orders", COLUMNS, ["id"])
    beside = source.table("d.well", COLUMNS, ["id"])
    write_deltalake(f"{lake.path}/sales", pa.table({"a": [1]}))
    for table in (inside, beside):
        table.insert(id=1, v="new")
    lake.follow(source)
    assert_rows(lake.table(beside), beside.rows)
    stopped = Ledger(str(lake.path)).last().tables["sales.orders"].stopped
    assert "would lie inside the table" in stopped
    assert not SparkTable(spark, f"{lake.path}/sales/orders").exists()
    Path(lake.path, "sales").rename(tmp_path / "elsewhere")
    inside.insert(id=2, v="new")
    lake.failures = Failures()
    lake.start()
    lake.follow(source)
    assert_rows(lake.table(inside), inside.rows)
