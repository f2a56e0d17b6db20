"""Which gaps a batch leaves of changes that nothing in the lake could hold."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ingest.batch.doubtful_tables import Retaking
from ingest.batch.table_definitions import InForce
from ingest.changes.batch_facts import Counts
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.schema.catalog import Catalog
from ingest.schema.set_aside import Span
from tests.support.binlog import PlainLog
from tests.support.declared_tables import T
from tests.support.sound_start import TABLE, entry
from tests.unit.source.wire import pipeline_of_d

AT = Position(0, 3, 405)
FORGOTTEN = Span(AT, None, reasons.UNKNOWN_COLUMNS.of(table="d._t_new"), mends=True)
NO_PLACE = Span(AT, None, "column 'e' has the type VECTOR")


@pytest.mark.parametrize("span", [FORGOTTEN, NO_PLACE])
@pytest.mark.parametrize(
    ("open_gap", "told"),
    [
        (None, False),
        (reasons.FIRST_ROWS.says, True),
        (reasons.RETENTION.says, True),
        (reasons.JOINED.says, "with its definition"),
        (reasons.DROPPED.of(on="2026-01-31", changes=3), False),
    ],
)
def test_a_gap_is_left_unless_one_that_is_open_has_the_table_read_as_it_has_to_be(
    tmp_path, span, open_gap, told
):
    """A table whose columns nobody told is read with its definition only where a gap says that this is what is missing."""
    gaps = [Gap("d.t", "p.d.t", 0, 9, 9, open_gap, 3)] if open_gap else []
    read = SimpleNamespace(ties=(), facts={}, counts=Counts(unreadable={T: AT}))
    retaking = Retaking(pipeline_of_d(tmp_path), None, PlainLog())
    seen = InForce(Note(9, "c"), Catalog(), {T: [span]})
    found = retaking.doubts(read, seen, entry(gaps=tuple(gaps)))
    is_told = bool(told) if span is NO_PLACE else told == "with its definition"
    assert [one.reason for one in found.values()] == ([] if is_told else [span.why])


LOST = Gap("d.t", "p.d.t", 0, 9, 9, reasons.RETENTION.says, 3)


def asked(tmp_path, goes_on=(), *, outlives=True, **state):
    """Which tables are asked for, and what is said, where Kafka has lost records of one."""
    found = list[str]()
    requests = SimpleNamespace(ask=found.extend, say=found.append)
    retaking = Retaking(pipeline_of_d(tmp_path), requests, PlainLog(), lambda _: outlives)
    row = entry(gaps=(LOST,), tables={"d.t": replace(TABLE, **state)})
    retaking.ask(row, {}, goes_on)
    retaking.say(row, {})
    return found


def test_a_table_that_keeps_what_the_source_has_no_more_is_not_taken_again_by_itself(tmp_path):
    (said,) = asked(tmp_path)
    assert said.startswith(f"d.t: {LOST.reason}; it is not taken again by itself")
    assert asked(tmp_path, outlives=False) == ["d.t", f"d.t: {LOST.reason}; taking the table again"]


def test_what_a_person_asked_for_and_came_to_nothing_is_asked_anew(tmp_path):
    assert asked(tmp_path, {"d.t"})[0] == "d.t"
    assert asked(tmp_path, hidden=AT)[0] == "d.t", "all that changes waits for the reading"
