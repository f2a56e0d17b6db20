"""What the manifest's rows and a batch's note hold survives being written."""

from dataclasses import replace

from ingest.model.gap import Gap
from ingest.model.manifest import Entry
from ingest.model.position import Position
from ingest.model.start_facts import (
    Note,
)
from tests.support.sound_start import IDLE, PLACE, entry


def test_a_ledger_entry_survives_its_row():
    gap = Gap("d.t", "p.d.t", 0, 9, 15, "retention", 4, Position(0, 1, 2))
    one = entry(gaps=(gap,), kind="cleanup", term=3, resent=2, late=1)
    assert Entry.from_row(one.as_row()) == one


def test_a_row_that_takes_nothing_says_so_and_keeps_where_each_topic_goes_on():
    quiet = entry(resent=2, late=1).without_changes("cleanup", 4, 2)
    assert (quiet.kind, quiet.batch_id, quiet.term) == ("cleanup", 4, 2)
    assert quiet.offsets == {PLACE: (9, 9), IDLE: (4, 4)}
    assert (quiet.changes, quiet.rejects, quiet.resent, quiet.late) == (0, 0, 0, 0)
    assert quiet.high_water == entry().high_water


def test_a_note_survives_its_text_and_leaves_out_what_did_not_move():
    note = Note(4, "abc", {PLACE: (9, 12), IDLE: (4, 4)}, 2, ("d.t", Position(1, 2, 3)))
    assert Note.from_json(note.as_json()) == replace(note, ranges={PLACE: (9, 12)})
