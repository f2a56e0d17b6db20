"""What a start looks at: the lake's tables without Spark, and of the manifest no more than it needs."""

import shutil

import pytest

from ingest.lake.delta import spark_table
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest import manifest_reader
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.start import gather_facts
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import insert
from tests.conformance.targets import SparkTarget
from tests.support.declared_tables import ID

PLACE = ("h.d.t0", 0)


@pytest.fixture
def target(spark, tmp_path):
    """A lake of one table after seven batches of one row each."""
    history = History(True, 1, records=[[]], snapshots=[Position(0, 1, 5)])
    made = SparkTarget(spark, tmp_path, history)
    for n in range(1, 8):
        history.records[0].append(Record(insert(10 * n, n, f"v{n}"), 0, 10 * n))
        made.take({0: [n]})
    yield made
    made.remove()


def test_a_restored_table_goes_back_to_its_batch_however_far_back_that_is(
    spark, target, monkeypatch
):
    monkeypatch.setattr(manifest_reader, "_BLOCK", 2)
    known = Ledger(str(target.path)).entries(100)
    (second,) = (entry for entry in known if entry.ends[PLACE] == 2)
    table = SparkTable(spark, str(target.path / "d" / "t0"))
    table.restore(second.tables["d.t0"].version)
    found = gather_facts.gather(spark, target.pipeline, {}).history
    assert [one.batch_id for one in found] == [known[0].batch_id, second.batch_id]
    target.start()
    assert target.content().total() == 2
    target.take({0: [7]})
    assert target.content().total() == 7


def test_without_a_restore_the_newest_batch_is_all_that_is_read(spark, target):
    found = gather_facts.gather(spark, target.pipeline, {})
    assert list(found.history) == [found.newest]
    assert found.newest.ends[PLACE] == 7


def test_tables_in_a_local_folder_are_looked_at_without_spark(spark, target, monkeypatch):
    def refuse(self):
        raise AssertionError(self.path)

    monkeypatch.setattr(SparkTable, "_snapshot", refuse)
    (table,) = gather_facts.gather(spark, target.pipeline, {}).lake
    assert (table.name, table.foreign) == ("d.t0", None)
    assert table.version >= 7
    assert table.id


@pytest.mark.parametrize(
    ("said", "known"),
    [("ingest.source", True), ("ingest.kafka.record_stream", True), ("somebody.else", False)],
)
def test_a_table_that_no_batch_has_published_is_ours_by_its_own_word(
    spark, target, monkeypatch, said, known
):
    monkeypatch.setattr(spark_table, "SOURCE_PROPERTY", said)
    version = SchemaVersion(
        TableId("d", "torn"), Position(0, 1, 5), "CREATE", (ID,), ("id",), "CREATE TABLE torn …"
    )
    SparkTable(spark, str(target.path / "d" / "torn")).create(version, ("id",))
    found = {one.name for one in gather_facts.gather(spark, target.pipeline, {}).lake}
    assert found == {"d.t0", *(["d.torn"] if known else [])}


def test_the_manifest_s_batches_come_newest_first_from_the_end_or_from_below_one(target):
    ledger = Ledger(str(target.path))
    newest = ledger.last().batch_id
    assert [one.batch_id for one in ledger.entries(3)] == [newest, newest - 1, newest - 2]
    assert [one.batch_id for one in ledger.entries(2, below=newest - 2)] == [newest - 3, newest - 4]
    assert ledger.entries(2, below=1) == []
    assert len(ledger.entries(100)) == newest


def further(target, first, last):
    for n in range(first, last):
        target.log.histories[0].records[0].append(Record(insert(10 * n, n, f"v{n}"), 0, 10 * n))
        target.take({0: [n]})


def brought_back(target, name, later=lambda: None):
    """A folder of the lake as it was before three further batches."""
    folder, copy = target.path / name, target.path.parent / "copy"
    shutil.copytree(folder, copy)
    further(target, 8, 11)
    later()
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    target.start()


def gaps(target):
    return Ledger(str(target.path)).last().gaps


def test_a_table_s_folder_from_an_older_copy_is_gone_on_with_from_its_batch(target):
    brought_back(target, "d/t0")
    assert target.content().total() == 7
    further(target, 11, 12)
    assert (target.content().total(), gaps(target)) == (11, ())


def test_a_manifest_from_an_older_copy_sets_its_tables_back(spark, target):
    """By a RESTORE of Spark's, whose commit is the next version."""
    brought_back(target, "_ingest/manifest")
    assert target.content().total() == 7
    assert Ledger(str(target.path)).last().batch_id > 10, "no number is used twice"
    further(target, 11, 12)
    assert (target.content().total(), gaps(target)) == (11, ())
    target.start()
    assert gather_facts.gather(spark, target.pipeline, {}).lake[0].back is None


def test_a_version_that_is_gone_is_not_gone_back_to_and_the_table_is_taken_again(target):
    table = target.path / "d" / "t0"

    def no_files():
        for file in table.glob("*.parquet"):
            file.unlink()

    brought_back(target, "_ingest/manifest", no_files)
    (gap,) = gaps(target)
    assert (gap.table, gap.is_open) == ("d.t0", True)
