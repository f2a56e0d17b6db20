"""`progress.decide`: how a run begins, from facts alone."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.names import Marker, Role, app_id, app_id_parts
from ingest.model.offset_log import is_behind_its_watermark
from ingest.model.offset_ranges import filled, left
from ingest.model.position import Position
from ingest.model.start_facts import (
    CheckpointFacts,
    Foreign,
    KafkaFacts,
    LakeFacts,
    Note,
    StartFacts,
)
from ingest.start.start_decision import Refuse, Start, decide

PLACE, IDLE = ("p.d.t", 0), ("p.d.idle", 0)
TABLE = TableState("/l/d/t", 7, position=Position(0, 1, 7), id="t-id")


def entry(batch_id=3, ends=(9, 4), version=7, **more):
    fields = {
        "batch_id": batch_id,
        "checkpoint_id": "abc",
        "offsets": {PLACE: (ends[0] - 4, ends[0]), IDLE: (ends[1], ends[1])},
        "high_water": {PLACE: HighWater(ends[0], Position(0, 1, 7), "uuid:5", "T")},
        "tables": {"d.t": replace(TABLE, version=version)},
        "changes": 4,
        "rejects": 0,
        "position": Position(0, 1, 7),
        "source_time": None,
        "schema_offset": 2,
        "started_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "seconds": 1.0,
    }
    return Entry(**(fields | more))


SOUND = CheckpointFacts("abc", "p", "stateless", 3, {PLACE: 9, IDLE: 4})
GONE = CheckpointFacts()
THERE = LakeFacts("d.t", "/l/d/t", 7, "t-id", {("abc", "mirror"): Marker(1, 3, 2)})


def facts(**more):
    fields = {
        "pipeline": "p",
        "shape": "stateless",
        "checkpoint": SOUND,
        "newest": entry(),
        "history": [entry(), entry(2, (5, 4), 5)],
        "lake": [THERE],
        "kafka": {PLACE: KafkaFacts(0, 20, "T"), IDLE: KafkaFacts(0, 4, "I")},
        "topic_of": {"d.t": "p.d.t"},
    }
    return StartFacts(**(fields | more))


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


NOTE = Note(4, "abc", {PLACE: (9, 12)}, 2)
AHEAD = replace(THERE, version=8, markers={("abc", "mirror"): Marker(1, 4, 2)}, note=NOTE)


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


@pytest.mark.parametrize(
    ("now", "word", "onward"),
    [
        (KafkaFacts(15, 20, "T"), "retention", 15),
        (KafkaFacts(0, 3, "other"), "made again", 0),
        (KafkaFacts(0, 3, "T"), "its end was lost", 3),
        (None, "deleted", 0),
    ],
    ids=["retention", "made again", "cut short", "deleted"],
)
def test_records_that_kafka_lost_are_a_recorded_gap_and_a_resync_never_skipped(now, word, onward):
    kafka = {IDLE: KafkaFacts(0, 4, "I")} | ({PLACE: now} if now else {})
    start = decide(facts(kafka=kafka))
    assert isinstance(start, Start)
    assert start.resync == ("d.t",)
    assert start.entry is not None
    (gap,) = start.entry.gaps
    assert (gap.table, gap.start, gap.end, gap.since, gap.is_open) == ("d.t", 9, onward, 4, True)
    assert word in gap.reason
    assert start.entry.ends[PLACE] == onward


DELETED = {IDLE: KafkaFacts(0, 4, "I")}
"""Kafka without the topic of `d.t`."""


def after_the_deletion(**more):
    """Decided once; what a second start finds, which goes on with the checkpoint that the first one made."""
    first = decide(facts(kafka=DELETED, **more))
    assert [gap.reason for gap in first.entry.gaps] == [reasons.TOPIC_DELETED.says]
    checkpoint = replace(SOUND, ends={IDLE: 4}, begins={IDLE: 4})
    return facts(newest=first.entry, history=[first.entry], kafka=DELETED, checkpoint=checkpoint)


def test_a_topic_that_stays_deleted_is_one_gap_and_the_next_start_goes_on_as_ever():
    assert decide(after_the_deletion()) == Start(resume=True)


@pytest.mark.parametrize("read", [0, 3])
def test_a_topic_that_is_made_again_later_is_read_from_its_first_record(read):
    back = KafkaFacts(read, 5, "new")
    start = decide(replace(after_the_deletion(), kafka={PLACE: back, **DELETED}))
    if not read:
        assert start == Start(resume=True), "there is the manifest's offset 0"
        return
    (_, gap) = start.entry.gaps
    assert (gap.reason, gap.start, gap.end) == (reasons.RETENTION.says, 0, 3)
    assert start.entry.ends[PLACE] == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"offsets": {PLACE: (0, 2), IDLE: (4, 4)}},
        {"high_water": {PLACE: HighWater(0, None, "", "new")}},
    ],
    ids=["records of it were read", "another topic was seen"],
)
def test_one_that_was_read_since_and_is_deleted_once_more_is_another_gap(changed):
    again = after_the_deletion()
    newest = replace(again.newest, batch_id=5, **changed)
    start = decide(replace(again, newest=newest, history=[newest]))
    assert [(gap.since, gap.is_open) for gap in start.entry.gaps] == [(4, True), (6, True)]
    assert start.resync == ("d.t",)


def test_one_that_stays_deleted_after_its_table_was_taken_again_is_another_gap():
    """What came and went meanwhile nobody has seen."""
    again = after_the_deletion()
    closed = tuple(replace(gap, resync=Position(0, 1, 9)) for gap in again.newest.gaps)
    newest = replace(again.newest, gaps=closed)
    start = decide(replace(again, newest=newest, history=[newest]))
    assert [gap.is_open for gap in start.entry.gaps] == [False, True]


def test_of_a_table_that_is_not_taken_any_more_nothing_is_said_to_be_taken_again():
    start = decide(facts(kafka=DELETED, untaken=frozenset({"d.t"})))
    assert start.because == (
        "d.t: the topic was deleted; `source.tables` does not take the table, which stays as it is",
    )


def test_a_connector_is_to_make_the_topics_again_of_tables_that_it_still_reads():
    """Of one that is excluded or dropped nothing comes, and of one that has brought no record there was no topic."""
    taken = {"d.t": "p.d.t", "d.new": "p.d.new"}
    topic_of = {"d.t": "p.d.t", "d.new": "p.d.new", "d.idle": "p.d.idle"}
    assert facts(kafka=DELETED, taken=taken, topic_of=topic_of).deleted == {"d.t"}
    assert facts(kafka={}, taken=taken, topic_of=topic_of).deleted == {"d.t"}
    assert facts(kafka=DELETED, topic_of=topic_of).deleted == set()
    assert facts(taken=taken, topic_of=topic_of).deleted == set()
    assert facts(newest=None, kafka={}, taken=taken).deleted == set()


def test_what_gets_an_offset_anew_behind_an_end_that_kafka_lost_is_not_taken_for_applied():
    start = decide(facts(kafka={PLACE: KafkaFacts(0, 3, "T"), IDLE: KafkaFacts(0, 4, "I")}))
    assert isinstance(start, Start)
    assert start.entry is not None
    mark = start.entry.high_water[PLACE]
    assert (mark.offset, mark.position) == (3, entry().high_water[PLACE].position)


def test_an_end_is_missed_also_where_changes_wait_before_it():
    stopped = replace(entry().tables["d.t"], stopped="why")
    waits = replace(
        entry(),
        tables={"d.t": stopped},
        high_water={PLACE: replace(entry().high_water[PLACE], offset=5)},
    )
    start = decide(
        facts(newest=waits, kafka={PLACE: KafkaFacts(0, 7, "T"), IDLE: KafkaFacts(0, 4, "I")})
    )
    assert isinstance(start, Start)
    assert start.entry is not None
    (gap,) = start.entry.gaps
    assert (gap.end, "its end was lost" in gap.reason) == (7, True)
    assert (start.entry.ends[PLACE], start.entry.high_water[PLACE].offset) == (5, 5)
    assert start.resync == ("d.t",)


def test_from_the_beginning_sets_every_topic_back_and_forgets_nothing_that_is_applied():
    start = decide(facts(from_beginning=True))
    assert isinstance(start, Start)
    assert start.entry is not None
    assert set(start.entry.ends.values()) == {0}
    assert start.entry.high_water == entry().high_water
    assert start.entry.tables == entry().tables
    assert start.resume is False


def test_of_a_range_that_is_left_is_what_is_not_published_and_one_behind_a_hole_does_not_go_on():
    newest = entry()
    assert filled(left(newest, {PLACE: (5, 9)})) == {}
    assert filled(left(newest, {PLACE: (5, 10)})) == {PLACE: (9, 10)}, "a part of it is published"
    assert filled(left(None, {PLACE: (0, 0)})) == {}, "a batch of nothing"
    on = {PLACE: (9, 12), ("p.d.new", 0): (0, 3)}
    assert left(newest, on) == on
    assert filled(left(newest, {PLACE: (3, 7), IDLE: (4, 6)})) == {IDLE: (4, 6)}, (
        "a part was longer"
    )
    assert left(newest, {PLACE: (10, 12)}) is None
    assert left(newest, {PLACE: (9, 12), ("p.d.new", 0): (2, 3)}) is None
    assert left(None, {PLACE: (2, 3)}) is None


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


def test_commit_versions_order_by_term_then_batch_then_step_and_never_collide():
    markers = [Marker(t, b, s) for t in (0, 1, 9) for b in (0, 1, 2**30 - 1) for s in (0, 8191)]
    versions = [marker.version for marker in markers]
    assert versions == sorted(set(versions))
    assert [Marker.parse(version) for version in versions] == markers
    assert max(versions) < 2**63
    for beyond in (Marker(2**20, 0, 0), Marker(0, 2**30, 0), Marker(0, 0, 8192)):
        with pytest.raises(ValueError):
            _ = beyond.version


def test_app_ids_of_tables_with_slashes_in_their_names_do_not_collide():
    assert app_id("p", "c", "a/b", Role.MIRROR) != app_id("p", "c/a", "b", Role.MIRROR)
    assert app_id_parts(app_id("p", "c", "a/b", Role.MIRROR)) == ("p", "c", "a/b", "mirror")
    assert app_id_parts("somebody/else") is None


def test_a_batch_is_late_only_when_its_clock_is_behind_the_watermark():
    log = 'v1\n{"batchWatermarkMs":%d,"batchTimestampMs":%d}\n{}'
    assert not is_behind_its_watermark(log % (0, 5))
    assert not is_behind_its_watermark(log % (4, 5))
    assert is_behind_its_watermark(log % (5, 5))
