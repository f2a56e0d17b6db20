"""The specification itself, held against a dictionary that simply executed the statements."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.targets import registry
from tests.conformance.histories import histories
from tests.conformance.suite import change_log_conforms, history_conforms, mirror_conforms
from tests.conformance.targets import ModelTarget

DRAWN = int(os.environ.get("INGEST_HISTORIES", "1000"))
MANY = settings(
    max_examples=DRAWN,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(
    "target", [one for one in registry.TARGETS if not one.outlives], ids=lambda one: one.name
)
@MANY
@given(data=st.data())
def test_what_counts_of_a_target_is_what_the_source_holds_however_it_was_delivered(target, data):
    drawn = data.draw(histories(keyed=target.keyed))
    mirror_conforms(drawn, ModelTarget(drawn, target))


@MANY
@given(histories(keyed=True))
def test_a_history_shows_the_source_as_of_every_position(drawn):
    history_conforms(drawn)


@MANY
@given(histories())
def test_a_change_log_holds_every_change_once_in_order(drawn):
    change_log_conforms(drawn)
