"""`progress.decide`: how a run begins, from facts alone."""

from dataclasses import replace

import pytest

from ingest.model.manifest import HighWater
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.start_facts import (
    CheckpointFacts,
    Foreign,
    KafkaFacts,
)
from ingest.start.start_decision import Refuse, Start, decide
from tests.support.sound_start import (
    AHEAD,
    GONE,
    IDLE,
    NOTE,
    PLACE,
    SOUND,
    TABLE,
    THERE,
    entry,
    facts,
)


def test_nothing_there_means_a_new_checkpoint_and_nothing_to_mend():
    nothing = facts(checkpoint=GONE, newest=None, history=[], lake=[], kafka={}, topic_of={})
    assert decide(nothing) == Start()


def test_checkpoint_manifest_and_tables_of_one_mind_mean_resume():
    assert decide(facts()) == Start(resume=True)


@pytest.mark.parametrize(
    ("checkpoint", "word"),
    [
        (GONE, "gone"),
        (replace(SOUND, problem="its offset log for batch 3 is torn"), "torn"),
        (replace(SOUND, id="copy"), "not the one"),
        (replace(SOUND, ends={PLACE: 5, IDLE: 4}), "older"),
        (replace(SOUND, ends={PLACE: 12, IDLE: 4}, begins={PLACE: 12, IDLE: 4}), "ahead"),
        (replace(SOUND, begins={PLACE: 9, IDLE: 4, ("p.d.new", 0): 3}), "ahead"),
        (replace(SOUND, shape="deduplicated"), "dedup"),
    ],
    ids=[
        "deleted",
        "torn",
        "another",
        "an old copy",
        "of a newer manifest",
        "of a topic that the manifest does not know",
        "another query",
    ],
)
def test_a_checkpoint_that_cannot_go_on_is_rebuilt_from_the_manifest(checkpoint, word):
    start = decide(facts(checkpoint=checkpoint))
    assert isinstance(start, Start)
    assert (start.resume, start.entry, start.finish) == (False, None, None)
    assert word in start.because[0]


@pytest.mark.parametrize("checkpoint", [SOUND, GONE])
def test_a_torn_batch_is_finished_with_its_own_ranges_whatever_became_of_the_checkpoint(checkpoint):
    start = decide(facts(checkpoint=checkpoint, lake=[AHEAD]))
    assert isinstance(start, Start)
    assert start.finish == NOTE


def test_the_very_first_batch_torn_is_finished_too():
    first = replace(
        AHEAD, markers={("abc", "mirror"): Marker(1, 1, 2)}, note=replace(NOTE, batch_id=1)
    )
    start = decide(facts(newest=None, history=[], lake=[first], checkpoint=GONE))
    assert isinstance(start, Start)
    assert start.finish == replace(NOTE, batch_id=1)


def test_a_marker_that_nothing_explains_is_refused():
    refusal = decide(facts(lake=[replace(AHEAD, note=None)]))
    assert isinstance(refusal, Refuse)
    assert "does not say what it is" in refusal.reason


def test_tables_without_their_manifest_are_refused():
    refusal = decide(facts(newest=None, history=[], checkpoint=GONE))
    assert isinstance(refusal, Refuse)
    assert "manifest is gone" in refusal.reason


@pytest.mark.parametrize(
    "checkpoint",
    [CheckpointFacts(batches=2), replace(SOUND, pipeline="other")],
    ids=["a stranger's checkpoint", "another pipeline's lake"],
)
def test_what_belongs_to_somebody_else_is_refused(checkpoint):
    assert isinstance(decide(facts(checkpoint=checkpoint)), Refuse)


def test_another_writer_is_refused_with_the_version_to_go_back_to():
    refusal = decide(facts(lake=[replace(THERE, version=8, foreign=Foreign(8, "WRITE"))]))
    assert isinstance(refusal, Refuse)
    assert "VERSION AS OF 7" in refusal.remedy


def test_a_table_made_again_by_somebody_else_is_refused():
    refusal = decide(facts(lake=[replace(THERE, id="another")]))
    assert isinstance(refusal, Refuse)
    assert "another table" in refusal.reason


def test_a_restored_table_goes_back_to_the_batch_whose_rows_it_holds():
    restored = replace(THERE, version=8, foreign=Foreign(8, "RESTORE", restored_to=5))
    start = decide(facts(lake=[restored]))
    assert isinstance(start, Start)
    assert start.entry is not None
    assert start.entry.ends == {PLACE: 5, IDLE: 4}
    assert start.entry.high_water[PLACE].offset == 5
    assert start.entry.tables["d.t"].version == 8
    assert start.entry.batch_id == 4
    assert (start.resume, start.restore) == (False, ())


def test_a_table_restored_between_two_batches_is_first_brought_to_a_published_version():
    restored = replace(THERE, version=8, foreign=Foreign(8, "RESTORE", restored_to=6))
    start = decide(facts(lake=[restored]))
    assert isinstance(start, Start)
    assert start.restore == (("/l/d/t", 5),)
    assert start.entry.tables["d.t"].version == 9, "as that commit makes it, before it is made"


def test_a_restore_in_the_middle_of_a_torn_batch_is_undone_first():
    start = decide(facts(lake=[replace(AHEAD, foreign=Foreign(9, "RESTORE", restored_to=5))]))
    assert isinstance(start, Start)
    assert (start.finish, start.restore) == (None, (("/l/d/t", 8),))
    twice = replace(AHEAD, foreign=Foreign(10, "RESTORE", restored_to=5), ours=8)
    assert decide(facts(lake=[twice])).restore == (("/l/d/t", 8),), "what it held before both"


def test_a_table_dropped_from_the_lake_is_filled_again_from_its_topic_s_beginning():
    start = decide(facts(lake=[replace(THERE, version=None, markers={})]))
    assert isinstance(start, Start)
    assert start.entry is not None
    assert start.entry.ends == {PLACE: 0, IDLE: 4}
    assert start.entry.tables == {}
    assert start.entry.high_water[PLACE] == HighWater()


def test_from_the_beginning_sets_every_topic_back_and_forgets_nothing_that_is_applied():
    start = decide(facts(from_beginning=True))
    assert isinstance(start, Start)
    assert start.entry is not None
    assert set(start.entry.ends.values()) == {0}
    assert start.entry.high_water == entry().high_water
    assert start.entry.tables == entry().tables
    assert start.resume is False


@pytest.mark.parametrize(
    ("logged", "published", "state", "resumed"),
    [
        (7, 7, False, True),  # a part of batch 7 reaches beyond it
        (8, 7, False, True),
        (6, 7, False, False),  # a checkpoint from a backup
        (7, None, False, False),  # a manifest of before: it is told by where it ends
        (7, 7, True, False),  # with state no part reaches beyond
    ],
)
def test_how_old_a_checkpoint_is_says_the_batch_of_spark_s_that_the_manifest_names(
    logged, published, state, resumed
):
    shape = "deduplicated" if state else "stateless"
    behind = replace(SOUND, ends={PLACE: 8, IDLE: 4}, begins={PLACE: 5}, newest=logged, shape=shape)
    newest = entry(spark_batch=published, part=3)
    start = decide(facts(checkpoint=behind, newest=newest, shape=shape))
    assert start.resume is resumed


def test_a_table_that_a_policy_lets_go_reads_on_where_its_changes_wait():
    paused = replace(TABLE, paused=Position(0, 1, 7), paused_by="ALTER TABLE t DROP v")
    held = entry(
        tables={"d.t": paused}, high_water={PLACE: HighWater(5, Position(0, 1, 6), "uuid:4", "T")}
    )
    still = decide(facts(newest=held, barred=frozenset({"d.t"})))
    assert isinstance(still, Start)
    assert (still.entry, still.resume) == (None, True)
    free = decide(facts(newest=held))
    assert isinstance(free, Start)
    assert free.entry.ends == {PLACE: 5, IDLE: 4}
    assert free.entry.tables["d.t"] == TABLE
    assert "DROP v" in free.because[0]
    # Kafka has lost what waited: a gap, and the table is taken again.
    lost = decide(
        facts(newest=held, kafka={PLACE: KafkaFacts(7, 20, "T"), IDLE: KafkaFacts(0, 4, "I")})
    )
    assert isinstance(lost, Start)
    assert lost.resync == ("d.t",)
    assert (lost.entry.gaps[0].start, lost.entry.gaps[0].end) == (5, 7)


def test_columns_that_a_policy_no_longer_leaves_out_are_read_from_mysql():
    held = entry(tables={"d.t": replace(TABLE, left_out=("w",), kept=("old",))})
    ignored = {"d.t": frozenset({"add_column", "drop_column"})}
    as_before = decide(facts(newest=held, ignored=ignored))
    assert isinstance(as_before, Start)
    assert as_before.entry is None
    followed = decide(facts(newest=held))
    assert isinstance(followed, Start)
    assert followed.resync == ("d.t",)
    assert "'w'" in followed.entry.gaps[0].reason
    assert followed.entry.tables["d.t"] == TABLE
