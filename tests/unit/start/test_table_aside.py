"""A table that cannot be gone on with stands still, and the others go on."""

from dataclasses import replace

import pytest

from ingest.model.manifest import TableState
from ingest.model.names import Marker
from ingest.model.start_facts import (
    Foreign,
    LakeFacts,
)
from ingest.start.start_decision import Refuse, Start, decide
from tests.support.sound_start import AHEAD, NOTE, TABLE, THERE, entry, facts

OTHER = LakeFacts("d.o", "/l/d/o", 5, "o-id", {("abc", "mirror"): Marker(1, 3, 2)})


TWO = {
    "newest": entry(tables={"d.t": TABLE, "d.o": TableState("/l/d/o", 5, id="o-id")}),
    "topic_of": {"d.t": "p.d.t", "d.o": "p.d.o"},
}


@pytest.mark.parametrize(
    ("sick", "word"),
    [
        (replace(THERE, version=8, foreign=Foreign(8, "WRITE")), "TO VERSION AS OF 7"),
        (replace(THERE, id="another"), "move /l/d/t away"),
        (LakeFacts("d.t", "/l/d/t", 0, torn="version 7 is empty"), "move /l/d/t away"),
        (LakeFacts("d.t", "/l/d/t", 0, unreadable="a feature"), "a feature"),
    ],
    ids=["another writer", "another table", "a torn commit", "not read"],
)
def test_a_table_that_cannot_be_gone_on_with_stands_still_and_the_others_go_on(sick, word):
    start = decide(facts(**TWO, lake=[sick, OTHER]))
    assert isinstance(start, Start)
    assert word in start.aside["d.t"]
    assert start.entry.tables["d.t"] == replace(TABLE, stopped=start.aside["d.t"])
    assert start.entry.tables["d.o"] == TWO["newest"].tables["d.o"]
    assert start.entry.ends == TWO["newest"].ends
    assert "stands still" in start.because[0]
    again = decide(facts(**{**TWO, "newest": start.entry}, lake=[sick, OTHER]))
    assert (again.entry, again.because, again.aside) == (None, (), start.aside), "said once"
    mended = decide(facts(**{**TWO, "newest": start.entry}, lake=[THERE, OTHER]))
    assert not mended.aside
    assert mended.entry.tables["d.t"] == TABLE


def test_a_batch_torn_beside_a_table_that_stands_still_is_finished_without_it():
    sick = replace(THERE, version=9, foreign=Foreign(9, "WRITE"), markers=AHEAD.markers, note=NOTE)
    other = replace(OTHER, version=6, markers=AHEAD.markers, note=NOTE)
    start = decide(facts(**TWO, lake=[sick, other]))
    assert isinstance(start, Start)
    assert (start.finish, list(start.aside)) == (NOTE, ["d.t"])
    alone = decide(facts(**TWO, lake=[sick, OTHER]))
    assert alone.finish is None
    assert alone.entry.batch_id == 5, "no batch gets a number that a commit of the table has"


def test_a_commit_that_nothing_explains_would_be_hidden_by_the_others_next_batch():
    sick = replace(THERE, markers={("abc", "mirror"): Marker(1, 4, 2)}, note=None)
    assert isinstance(decide(facts(**TWO, lake=[sick, OTHER])), Refuse)


def test_what_a_table_held_of_a_batch_that_was_finished_without_it_is_undone_first():
    still = {"d.t": replace(TABLE, stopped="a feature"), "d.o": TWO["newest"].tables["d.o"]}
    newest = entry(batch_id=6, tables=still)
    start = decide(facts(**{**TWO, "newest": newest}, lake=[AHEAD, OTHER]))
    assert (start.entry, start.restore) == (None, (("/l/d/t", 7),))
    unable = facts(**{**TWO, "newest": newest}, lake=[AHEAD, OTHER])
    unable = replace(unable, unrestorable=frozenset({("/l/d/t", 7)}))
    assert decide(unable).restore == ()
