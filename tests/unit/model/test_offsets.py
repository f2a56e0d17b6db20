"""What Spark and the manifest say of offsets."""

from ingest.model.offset_log import is_behind_its_watermark
from ingest.model.offset_ranges import filled, left
from tests.support.sound_start import IDLE, PLACE, entry


def test_of_a_range_that_is_left_is_what_is_not_published_and_one_behind_a_hole_does_not_go_on():
    newest = entry()
    assert filled(left(newest, {PLACE: (5, 9)})) == {}
    assert filled(left(newest, {PLACE: (5, 10)})) == {PLACE: (9, 10)}, "a part of it is published"
    assert filled(left(None, {PLACE: (0, 0)})) == {}, "a batch of nothing"
    on = {PLACE: (9, 12), ("p.d.new", 0): (0, 3)}
    assert left(newest, on) == on
    assert filled(left(newest, {PLACE: (3, 7), IDLE: (4, 6)})) == {IDLE: (4, 6)}, (
        "a part was longer"
    )
    assert left(newest, {PLACE: (10, 12)}) is None
    assert left(newest, {PLACE: (9, 12), ("p.d.new", 0): (2, 3)}) is None
    assert left(None, {PLACE: (2, 3)}) is None


def test_a_batch_is_late_only_when_its_clock_is_behind_the_watermark():
    log = 'v1\n{"batchWatermarkMs":%d,"batchTimestampMs":%d}\n{}'
    assert not is_behind_its_watermark(log % (0, 5))
    assert not is_behind_its_watermark(log % (4, 5))
    assert is_behind_its_watermark(log % (5, 5))
