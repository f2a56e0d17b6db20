"""Which tables only a person has taken again, and what the manifest keeps of their gaps."""

from dataclasses import replace

import pytest

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.only_by_hand import only_by_hand, told_once
from ingest.model.position import Position
from tests.support.sound_start import TABLE, entry

AT = Position(0, 3, 70)
GAP = Gap("d.t", "p.d.t", 0, 3, 6, reasons.RETENTION.says, 8, position=AT)


def left(*gaps, state=TABLE, outlives=True):
    found = only_by_hand(entry(gaps=gaps, tables={"d.t": state}), lambda _: outlives)
    return found == {"d.t"}


def test_a_table_that_keeps_what_the_source_has_no_more_is_left_to_a_person_while_a_gap_is_open():
    assert left(GAP)
    assert not left(GAP, outlives=False)
    assert not left(replace(GAP, resync=AT))
    assert not left()


def test_of_one_whose_first_rows_are_still_to_come_nothing_can_be_lost():
    assert not left(GAP, replace(GAP, reason=reasons.FIRST_ROWS.says))


def test_one_that_is_hidden_is_read_until_a_reading_is_whole_as_all_its_changes_wait_for_that():
    assert not left(GAP, state=replace(TABLE, hidden=AT))


def test_a_topic_that_nobody_knows_the_table_of_is_no_table():
    assert not only_by_hand(entry(gaps=(replace(GAP, table="p.d.t!"),)), lambda _: True)


COMPRESSED = (reasons.COMPRESSED.of(where=f"bin.000007:{at}") for at in range(100))


def test_what_a_session_does_in_each_of_its_transactions_is_one_open_gap_however_many_batches_tell_it():
    row = entry(tables={"d.t": TABLE})
    for number, reason in enumerate(COMPRESSED):
        at = replace(AT, pos=70 + number)
        new = replace(GAP, start=number, end=number, reason=reason, since=number, position=at)
        row = told_once(replace(row, gaps=(*row.gaps, new)), {"d.t"})
    (gap,) = row.gaps
    assert (gap.start, gap.end, gap.since, gap.position) == (0, 99, 99, replace(AT, pos=169))
    assert "bin.000007:99" in gap.reason


@pytest.mark.parametrize(
    "other",
    [
        replace(GAP, table="d.other"),
        replace(GAP, partition=1),
        replace(GAP, reason=reasons.TOPIC_DELETED.says),
        replace(GAP, resync=AT),
        replace(GAP, reason=reasons.DROPPED.of(on="2026-01-31", changes=3)),
    ],
    ids=["table", "partition", "kind", "closed", "of a person"],
)
def test_what_is_another_gap_stays_beside_it(other):
    row = entry(gaps=(other, GAP))
    assert told_once(row, {"d.t", "d.other"}) is row


def test_gaps_of_tables_that_are_taken_again_by_themselves_stay_as_they_are():
    row = entry(gaps=(GAP, replace(GAP, since=9)))
    assert told_once(row, set()) is row
    assert [gap.since for gap in told_once(row, {"d.t"}).gaps] == [9]
