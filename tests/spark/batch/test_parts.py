"""One range of Spark's becomes several batches: by bytes, by records, with and without state, and through a crash between them."""

from unittest.mock import patch

import pytest

from ingest.batch.micro_batch import Batches
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Entry
from ingest.model.offset_ranges import records_of
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake, RecordLog
from ingest.testing.source import Source

COLUMNS = {"id": "INT", "v": "LONGTEXT"}
LARGE = 300_000


class Pieces(RecordLog):
    """A log that brings a few records at a time, as Kafka does, and of each partition in turn."""

    def bring(self, ranges, enough, keyed=()):
        at = {place: start for place, (start, _) in ranges.items()}
        while at and not enough.is_set():
            for place in list(at):
                end = min(at[place] + 2, ranges[place][1])
                if end > at[place]:
                    yield from super().bring({place: (at[place], end)}, enough, keyed)
                at[place] = end
                if end == ranges[place][1]:
                    del at[place]


class Flood:
    """Two tables with a key and one without: one of them gets large rows. All of it is one range of Spark's."""

    def __init__(self, session, folder, settings):
        self.source = Source()
        self.tables = [
            self.source.table(name, COLUMNS, key)
            for name, key in (("d.flood", ["id"]), ("d.quiet", ["id"]), ("d.loose", []))
        ]
        self.lake = Lake(session, folder, log=Pieces(session), **settings)
        flood, quiet, loose = self.tables
        for number in range(12):
            flood.insert(id=number, v=f"{number}" * LARGE)
        for table in (quiet, loose):
            table.insert(id=1, v="a")
            table.insert(id=2, v="b")
        flood.update(3, v="small")
        flood.delete(4)
        quiet.update(1, v="c")

    def follow(self):
        return [one.entry for one in self.lake.follow(self.source)]

    def are_equal(self):
        for table in self.tables:
            assert_rows(self.lake.live(table).drop("_ingest"), table.rows)
        return True


def published(lake) -> list[Entry]:
    """Rows of the manifest that took records."""
    ledger = Ledger(str(lake.path))
    return [one for one in reversed([*ledger.back(ledger.last().batch_id), ledger.last()]) if one]


def of(entries, topic):
    """Ranges of a topic that each took, those of nothing left out."""
    ranges = [one.offsets.get((topic, 0), (0, 0)) for one in entries]
    return [one for one in ranges if one[1] > one[0]]


ways = pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"spark": {"max_megabytes_per_batch": 1}}, id="by bytes in the driver"),
        pytest.param({"dedup": {"by": "both"}, "spark": {"max_changes_per_batch": 5}}, id="with state"),
        pytest.param(
            {"spark": {"lane": "columns", "merge_engine": "spark", "max_changes_per_batch": 5}},
            id="by records through Spark",
            marks=pytest.mark.long,  # a minute; how a part is read and merged is what differs
        ),
    ],
)  # fmt: skip


@ways
def test_a_range_of_spark_s_is_applied_in_parts_each_a_row_of_the_manifest(
    spark, tmp_path, settings
):
    flood = Flood(spark, tmp_path / "lake", settings)
    entries = flood.follow()
    assert len(entries) > 2
    assert [(one.spark_batch, one.part) for one in entries] == [(0, n) for n in range(len(entries))]
    ranges = of(entries, "p.d.flood")
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == 14
    assert entries[1].ends["p.d.quiet", 0] == 3, "who has little is not made to wait"
    assert sum(one.changes for one in entries) == 19
    assert flood.are_equal()
    flood.lake.close()


@ways
def test_a_run_that_dies_between_two_parts_goes_on_with_the_next_one(spark, tmp_path, settings):
    flood = Flood(spark, tmp_path / "lake", settings)
    real, done = Batches._work, []

    def dies(self, *args, **named):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return real(self, *args, **named)

    with patch.object(Batches, "_work", dies), pytest.raises(KeyboardInterrupt):
        flood.follow()
    lake = flood.lake
    checkpoint = lake.batches.checkpoint_id
    before = lake.batches.newest
    lake.start()
    lake.batches.checkpoint_id = (
        checkpoint  # Spark's, which goes on with the range that it has logged
    )
    lake.batches.apply(lake.log.read(lake.log.batches[0]), 0)
    after = lake.batches.newest
    assert (before.part, after.spark_batch) == (1, 0)
    assert after.part > 2
    assert after.batch_id == after.part + 1, "none was done twice"
    assert flood.are_equal()
    lake.batches.apply(lake.log.read(lake.log.batches[0]), 0)
    assert lake.batches.newest == after, "only Spark's own commit was lost"
    lake.close()


def test_a_huge_record_is_a_part_of_its_own_where_it_is_more_than_a_part_may_have(spark, tmp_path):
    flood = Flood(spark, tmp_path / "lake", {"spark": {"max_megabytes_per_batch": 1}})
    flood.tables[0].insert(id=100, v="x" * 3 * 2**20)
    entries = flood.follow()
    ranges = of(entries, "p.d.flood")
    assert max(end - start for start, end in ranges) <= 4
    assert flood.are_equal()
    flood.lake.close()


def test_what_is_passed_over_is_bounded_by_its_bytes_too(spark, tmp_path):
    """Else a topic that is read again from its beginning would be on Spark's disk as a whole."""
    source = Source()
    table = source.table("d.loose", COLUMNS)
    lake = Lake(spark, tmp_path / "lake", spark={"max_megabytes_per_batch": 1})
    for number in range(12):
        table.insert(id=number, v=f"{number}" * LARGE)
    lake.follow(source)
    again = [one for one in source.log if one.topic != "p"]
    lake.start()  # so that nothing is known of how large they are
    lake.replay(again[:2])
    entries = [one.entry for one in lake.replay(again)]
    assert max(records_of(one.offsets) for one in entries) <= 3
    assert sum(one.resent for one in entries) == 12
    assert_rows(lake.live(table).drop("_ingest"), table.rows)
    lake.close()
