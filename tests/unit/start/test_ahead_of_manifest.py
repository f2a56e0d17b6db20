"""Tables that hold commits which the manifest has no row of, and a manifest that is an older copy."""

from dataclasses import replace

import pytest

from ingest.model.manifest import HighWater, TableState
from ingest.model.names import Marker
from ingest.model.start_facts import Foreign, Held, KafkaFacts, LakeFacts
from ingest.start.start_decision import Refuse, Start, decide
from tests.support.small_lake import Crash, SmallLake
from tests.support.sound_start import (
    AHEAD,
    IDLE,
    NOTE,
    PLACE,
    SOUND,
    TABLE,
    THERE,
    entry,
    facts,
)

FAR = replace(
    AHEAD, version=12, markers={("abc", "mirror"): Marker(1, 9, 2)}, note=replace(NOTE, batch_id=9)
)
"""It holds batches up to 9, where the manifest's newest is 3, by which its version is 7."""
UNDONE = replace(FAR, version=13, foreign=Foreign(13, "RESTORE", 7), back=Held(7, 7, 3))
QUARANTINE = replace(FAR, name="_ingest/quarantine", path="/l/q", known=2)
NEW = replace(FAR, name="d.new", path="/l/d/new")
BESIDE = TableState("/l/d/u", 4, id="u-id")


def beside(**more):
    """The same facts with a table beside it that the manifest knows at version 4."""
    newest = entry(tables={"d.t": TABLE, "d.u": BESIDE})
    before = entry(2, (5, 2), tables={"d.t": TABLE, "d.u": replace(BESIDE, version=2)})
    topics = {"d.t": "p.d.t", "d.u": "p.d.idle"}
    return facts(newest=newest, history=[newest, before], topic_of=topics, **more)


def test_tables_that_are_more_than_one_batch_ahead_are_set_back_to_the_manifest():
    start = decide(facts(lake=[FAR, QUARANTINE, NEW]))
    assert isinstance(start, Start)
    assert start.restore == (("/l/d/t", 7), ("/l/q", 2), ("/l/d/new", 0))
    assert (start.entry, start.finish, start.resume) == (None, None, False)
    (said,) = start.because
    assert (
        "the manifest is older than the tables (its newest batch is 3, they hold some up to 9)"
        in said
    )


def test_and_then_the_topics_are_read_again_under_a_number_and_a_checkpoint_that_no_commit_has():
    """Else Delta would take the batches for those that it has seen, by their markers, and skip them without a word."""
    start = decide(facts(lake=[UNDONE]))
    assert isinstance(start, Start)
    assert (start.restore, start.resume) == ((), False)
    assert (start.entry.batch_id, start.entry.ends) == (10, {PLACE: 9, IDLE: 4})
    assert start.entry.tables["d.t"].version == 13


def test_a_quarantine_alone_that_was_ahead_takes_its_number_with_it():
    undone = replace(QUARANTINE, version=13, foreign=Foreign(13, "RESTORE", 2))
    start = decide(facts(lake=[THERE, undone]))
    assert (start.entry.batch_id, start.resume) == (10, False)


@pytest.mark.parametrize(
    ("lake", "unrestorable"),
    [(FAR, {("/l/d/t", 7)}), (replace(FAR, unlike=True), set())],
    ids=["its old version is gone", "its version of that number is another one"],
)
def test_a_table_that_cannot_be_set_back_is_taken_again(lake, unrestorable):
    start = decide(facts(lake=[lake], unrestorable=frozenset(unrestorable)))
    assert isinstance(start, Start)
    assert (start.restore, start.resync) == ((), ("d.t",))
    (gap,) = start.entry.gaps
    assert "no batch that the manifest knows" in gap.reason
    assert (gap.position, gap.since) == (TABLE.position, 10)
    assert start.entry.tables["d.t"].version == 12, "so that it is known from now on"


@pytest.mark.parametrize(
    ("lake", "remedy"), [(QUARANTINE, "from one copy"), (NEW, "move /l/d/new away")]
)
def test_what_cannot_be_set_back_nor_taken_again_is_refused_in_one_sentence(lake, remedy):
    refusal = decide(facts(lake=[lake], unrestorable=frozenset({(lake.path, max(lake.known, 0))})))
    assert isinstance(refusal, Refuse)
    assert "the manifest is older than the tables" in refusal.reason
    assert remedy in refusal.remedy


@pytest.mark.parametrize(
    ("other", "at"),
    [
        (LakeFacts("d.u", "/l/d/u", 2, "u-id", back=Held(2, 2, 2)), 2),
        (LakeFacts("d.u", "/l/d/u", None), 0),
    ],
    ids=["an older copy", "gone"],
)
def test_a_torn_batch_is_not_finished_over_a_table_that_is_not_what_it_was(other, at):
    """Finished, it would leave that table at a version of its own, and nobody would know what it lacks."""
    start = decide(beside(lake=[AHEAD, other]))
    assert isinstance(start, Start)
    assert (start.finish, start.restore) == (None, (("/l/d/t", 7),))
    undone = replace(AHEAD, version=9, foreign=Foreign(9, "RESTORE", 7), back=Held(7, 7, 3))
    then = decide(beside(lake=[undone, other]))
    assert then.entry.ends == {PLACE: 9, IDLE: at}
    assert then.entry.batch_id == 5, "4 is that of the torn batch"


def test_a_torn_batch_of_which_kafka_has_lost_a_part_is_undone():
    """Applied again under another number, it would be there twice in a table without a key."""
    lost = {PLACE: KafkaFacts(10, 20, "T"), IDLE: KafkaFacts(0, 4, "I")}
    start = decide(facts(lake=[AHEAD], kafka=lost))
    assert (start.finish, start.restore) == (None, (("/l/d/t", 7),))
    assert start.because[0].startswith("batch 4 was torn and cannot be finished")


def test_a_restore_that_cannot_be_undone_does_not_hold_a_start_up():
    restored = replace(AHEAD, foreign=Foreign(9, "RESTORE", 5), back=Held(5, 5, 2))
    start = decide(facts(lake=[restored], unrestorable=frozenset({("/l/d/t", 8)})))
    assert isinstance(start, Start)
    assert start.entry.ends[PLACE] == 5


def test_rows_that_a_batch_beyond_the_manifest_removed_are_looked_for_at_the_source():
    """The topic brings them again, and not that they are to go."""
    start = decide(facts(lake=[replace(UNDONE, cleaned=True)]))
    assert start.resync == ("d.t",)


@pytest.fixture
def lake(tmp_path):
    made = SmallLake(tmp_path / "lake")
    made.batch({"a": 2, "b": 1})
    return made


def test_a_manifest_of_before_is_gone_on_with_and_nothing_is_lost_or_there_twice(lake):
    manifest = lake.copy("_ingest/manifest")
    for ends in ({"a": 3}, {"a": 5, "b": 2}, {"new": 4}):
        lake.batch(ends)
    lake.bring_back("_ingest/manifest", manifest)
    assert isinstance(lake.start(), Start)
    assert (lake.newest.batch_id, lake.gaps()) == (5, set())
    lake.batch({"a": 6, "b": 3, "new": 5})
    assert {name: lake.rows(name) for name in lake.names} == {
        "a": [*range(6)],
        "b": [*range(3)],
        "new": [*range(5)],
    }
    assert lake.start().resume


def test_a_manifest_of_one_batch_before_is_as_after_a_crash(lake):
    manifest = lake.copy("_ingest/manifest")
    lake.batch({"a": 3, "b": 2})
    lake.bring_back("_ingest/manifest", manifest)
    assert lake.start().resume
    assert (lake.newest.batch_id, lake.newest.ends["p.d.a", 0]) == (2, 3)
    assert lake.rows("a") == [0, 1, 2]


def test_commits_that_changed_columns_alone_are_undone_too(lake):
    """By a RESTORE behind which nothing is left to undo, whether rows were changed or not."""
    manifest = lake.copy("_ingest/manifest")
    for _ in range(2):
        note = lake.note({"a": 2})
        lake.apply(note)
    lake.bring_back("_ingest/manifest", manifest)
    assert isinstance(lake.start(), Start)
    assert lake.look("a").known == lake.look("a").version
    lake.batch({"a": 3})
    assert lake.rows("a") == [0, 1, 2]


def test_a_torn_batch_and_an_older_copy_beside_it_are_both_put_right(lake):
    copy = lake.copy("b")
    lake.batch({"a": 3, "b": 2})
    with pytest.raises(Crash):
        lake.apply(lake.note({"a": 4, "b": 4}), crash=1)
    lake.bring_back("b", copy)
    assert isinstance(lake.start(), Start)
    lake.batch({"a": 5, "b": 5})
    assert (lake.rows("a"), lake.rows("b")) == ([*range(5)], [*range(5)])
    assert lake.gaps() == set()


def test_the_very_first_batch_torn_and_its_topic_lost_begins_with_an_empty_table(tmp_path):
    lake = SmallLake(tmp_path / "lake")
    with pytest.raises(Crash):
        lake.apply(lake.note({"a": 2, "b": 2}), crash=1)
    lake.kafka = {("p.d.a", 0): KafkaFacts(2, 9, "a")}
    assert isinstance(lake.start(), Start)
    assert lake.rows("a") == []
    assert lake.gaps() == {"d.a"}
    assert lake.newest.high_water.get(("p.d.a", 0), HighWater()) == HighWater()


def test_a_checkpoint_that_is_ahead_of_a_rewound_manifest_does_not_go_on():
    """As when a crash comes between the manifest's new row and the checkpoint's removal."""
    ahead = replace(SOUND, ends={PLACE: 12, IDLE: 4}, begins={PLACE: 9, IDLE: 4})
    assert decide(facts(checkpoint=ahead)).resume, "its newest batch is not over"
    over = replace(ahead, begins={PLACE: 12, IDLE: 4})
    assert not decide(facts(checkpoint=over)).resume
