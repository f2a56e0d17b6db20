"""When a table stands still by a failure, and when the failure is the run's: decided without Spark."""

from ingest.batch.side_by_side import AGAIN_AFTER, Failures
from ingest.lake.files.object_files import LakeDeniedError
from ingest.model.errors import IngestError
from ingest.model.topics import TableId

SICK, WELL, OTHER = (TableId("d", name) for name in ("sick", "well", "other"))
POISON = ValueError("poison")


def failures(*, goes_on=True):
    now = [0.0]
    return Failures(goes_on=goes_on, clock=lambda: now[0]), now


def test_where_others_of_the_batch_went_well_it_stands_still_at_once_and_is_tried_once_more():
    found, now = failures()
    assert found.its_own({SICK: POISON}, True, {WELL})
    assert found.tables == frozenset(), "a start tries it again"
    assert not found.try_again()
    now[0] = AGAIN_AFTER
    assert found.try_again()
    assert not found.try_again(), "once"
    assert found.its_own({SICK: POISON}, True, set())
    assert found.tables == {str(SICK)}
    now[0] *= 3
    assert not found.try_again()


def test_what_nothing_tells_from_everybody_s_trouble_ends_the_query_first():
    for failed, applied in (
        ({SICK: POISON}, set()),
        ({SICK: POISON, OTHER: POISON}, {WELL}),
    ):
        found, _ = failures()
        assert not found.its_own(failed, True, applied)
        assert found.its_own(failed, True, applied), "twice is no chance"
    found, _ = failures(goes_on=False)
    assert not found.its_own({SICK: POISON}, True, {WELL}), "nothing comes that would try it again"


def test_an_error_of_ours_is_certain_at_once():
    found, now = failures()
    assert found.its_own({SICK: IngestError("E-OURS", "no", remedy="none")}, True, {WELL})
    now[0] = AGAIN_AFTER
    assert not found.try_again()


def test_one_that_may_pass_is_no_certain_one():
    found, _ = failures()
    assert found.its_own({SICK: LakeDeniedError("s3a://b/l", "403")}, True, {WELL})
    assert found.tables == frozenset(), "a start tries it again"


def test_a_table_that_went_well_since_may_fail_by_chance_once_more():
    found, _ = failures()
    assert found.its_own({SICK: POISON}, True, {WELL})
    found.forget([SICK])
    assert found.its_own({SICK: POISON}, True, {WELL})
    assert found.tables == frozenset()


def test_everybody_s_is_no_table_s_own_however_often_it_comes():
    found = Failures(lambda _: True, goes_on=True)
    for _ in range(3):
        assert not found.its_own({SICK: POISON}, True, {WELL})
