"""A table that went back is behind its change log until its topic was read again that far."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, LogState, TableState
from ingest.model.position import Position
from ingest.model.read_again import is_read_again

TOPIC = "p.d.t"


def entry(*ends, gaps=()):
    """Of a table whose log holds its topic's partitions 0 and 1 up to 5."""
    log = LogState("/l/d/t__changes", 3, "log-id", ((0, 5), (1, 5)))
    tables = {"d.t": TableState("/l/d/t", 7, log=log), "d.bare": TableState("/l/d/bare", 1)}
    offsets = {(TOPIC, partition): (0, end) for partition, end in enumerate(ends)}
    began = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Entry(4, "c", offsets, {}, tables, 0, 0, None, None, 0, began, 0.0, gaps=gaps)


@pytest.mark.parametrize(
    ("ends", "is_so"), [((5, 5), False), ((9, 5), False), ((5, 4), True), ((0, 0), True), ((5,), True)]
)  # fmt: skip
def test_it_is_until_each_partition_was_read_as_far_as_its_log_goes(ends, is_so):
    assert is_read_again(entry(*ends), "d.t", TOPIC) is is_so


def test_a_table_without_a_log_or_that_is_not_there_is_none():
    assert not is_read_again(entry(0, 0), "d.bare", "p.d.bare")
    assert not is_read_again(entry(0, 0), "d.gone", "p.d.gone")


@pytest.mark.parametrize("why", ["TOPIC_DELETED", "TOPIC_MADE_AGAIN", "END_LOST"])
def test_of_a_topic_whose_offsets_begin_anew_nothing_is_waited_for(why):
    gap = Gap("d.t", TOPIC, 1, 0, 0, getattr(reasons, why).says, 4)
    assert not is_read_again(entry(5, 0, gaps=(gap,)), "d.t", TOPIC)
    assert is_read_again(entry(0, 0, gaps=(gap,)), "d.t", TOPIC), "the other partition is"
    other = replace(gap, topic="p.d.u")
    assert is_read_again(entry(5, 0, gaps=(other,)), "d.t", TOPIC)
    closed = replace(gap, resync=Position(0, 1, 1))
    assert is_read_again(entry(5, 0, gaps=(closed,)), "d.t", TOPIC)


def test_of_records_that_retention_took_the_rest_is_waited_for():
    gap = Gap("d.t", TOPIC, 1, 0, 3, reasons.RETENTION.says, 4)
    assert is_read_again(entry(5, 3, gaps=(gap,)), "d.t", TOPIC)
