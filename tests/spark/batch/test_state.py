"""`dedup: both | watermark`: Spark's state says what has come before; who reads is decided by the records all the same."""

import json

import pytest

from ingest.model import offset_ranges
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

COLUMNS = {"id": "INT NOT NULL", "v": "VARCHAR(20)"}


class Remembering:
    """A lake behind a state that knows the changes it is told to. ``table``: with a key; ``loose``: without."""

    def __init__(self, spark, folder, by):
        self.source = Source()
        self.table = self.source.table("d.t", COLUMNS, key=["id"])
        self.loose = self.source.table("d.loose", COLUMNS)
        self.lake = Lake(spark, folder, dedup={"by": by})
        self._seen = 0

    def written(self):
        """The newest data records, which nobody has brought yet."""
        new, self._seen = self.source.log[self._seen :], len(self.source.log)
        for record in new:
            if record.topic == "p":
                self.lake.log.define(json.loads(record.value))
        return [one for one in new if one.topic != "p"]

    def batch(self, records, known=()):
        """Apply these; ``known``: which of them, by number, the state leaves out. Returns the manifest's row."""
        log, before = self.lake.log, self.lake.log.ends()
        places = []
        for record in records:
            log.add(record)
            place = record.topic, record.partition
            places.append((*place, log.ends()[place] - 1))
        log.batches.append(offset_ranges.ranges(before, log.ends()))
        new = [place for number, place in enumerate(places) if number not in known]
        frame = self.lake.session.createDataFrame(new, "topic string, partition int, offset bigint")
        self.lake.batches.apply(frame, len(log.batches) - 1)
        return self.lake.batches.newest

    def are_equal(self):
        for table in (self.table, self.loose):
            assert_rows(self.lake.live(table).drop("_ingest"), table.rows)
        return True


@pytest.fixture(params=["both", "watermark"])
def remembering(spark, tmp_path, request):
    made = Remembering(spark, tmp_path / "lake", request.param)
    yield made, request.param
    made.lake.close()


def test_what_comes_in_order_is_read_in_spark_s_tasks(remembering):
    made, _ = remembering
    for number in range(3):
        made.table.insert(id=number, v="a")
    entry = made.batch(made.written())
    assert entry.lanes == {"tasks": 3}
    assert (entry.resent, entry.remembered) == (0, 0)
    assert_rows(made.lake.live(made.table).drop("_ingest"), made.table.rows)


def test_what_the_state_knows_is_counted_as_its_and_applied_by_nobody(remembering):
    made, _ = remembering
    for table in (made.table, made.loose):
        table.insert(id=1, v="a")
    again = made.written()
    made.batch(again)
    made.table.update(1, v="b")
    made.loose.insert(id=2, v="b")
    entry = made.batch([*again, *made.written()], known={0, 1})
    assert (entry.changes, entry.resent, entry.remembered) == (2, 2, 2)
    assert entry.lanes == {"columns": 2}
    assert made.are_equal()


def test_behind_the_horizon_of_the_state_only_positions_tell_and_a_table_without_a_key_needs_them(
    remembering,
):
    """`watermark` alone applies it twice, which the row's own position undoes where there is a key."""
    made, by = remembering
    for table in (made.table, made.loose):
        table.insert(id=1, v="a")
    again = made.written()
    made.batch(again)
    entry = made.batch(again)
    assert (entry.resent, entry.remembered) == ((2, 0) if by == "both" else (0, 0))
    assert_rows(made.lake.live(made.table).drop("_ingest"), made.table.rows)
    copies = made.lake.live(made.loose).count()
    assert copies == (1 if by == "both" else 2)
