"""The specification itself, held against a dictionary that simply executed the statements."""

import os

from hypothesis import HealthCheck, given, settings

from tests.conformance.histories import histories
from tests.conformance.suite import change_log_conforms, history_conforms, mirror_conforms
from tests.conformance.targets import ModelTarget

DRAWN = int(os.environ.get("INGEST_HISTORIES", "2000"))
MANY = settings(
    max_examples=DRAWN,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MANY
@given(histories())
def test_a_mirror_is_what_the_source_holds_however_it_was_delivered(drawn):
    mirror_conforms(drawn, ModelTarget(drawn))


@MANY
@given(histories(keyed=True))
def test_a_history_shows_the_source_as_of_every_position(drawn):
    history_conforms(drawn)


@MANY
@given(histories())
def test_a_change_log_holds_every_change_once_in_order(drawn):
    change_log_conforms(drawn)
