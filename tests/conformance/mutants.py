"""The apply path, broken in one place at a time, and the scenario that must notice."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import functions as F

from ingest.arrow import change_facts
from ingest.batch import row_fates, step_cutter
from ingest.changes import dedup, envelope, restarted_snapshots
from ingest.lake.delta import commit, deletion_vector, delta_snapshot
from ingest.lake.engines import collected_changes, merge_on_read
from ingest.lake.manifest import next_entry
from ingest.maintenance import compaction
from ingest.model.manifest import HighWater
from ingest.start import start_decision
from ingest.targets import mirror, multiset_rows
from ingest.targets.soft_deletes import SoftDeletes
from tests.conformance.targets import ENGINE
from tests.support.mutants import Mutant

DRIVER = "auto" if ENGINE == "spark" else ENGINE
REWRITES = "auto" if ENGINE == "deletion-vectors" else ENGINE


def no_position(original):
    """Changes are marked without the high-water position."""

    def marked(changes, high_water, *rest):
        kept = {place: HighWater(offset=mark.offset) for place, mark in high_water.items()}
        return original(changes, kept, *rest)

    return marked


def _inclusive_offset(original):
    def marked(changes, high_water, *rest):
        kept = {p: replace(m, offset=m.offset + 1) for p, m in high_water.items()}
        return original(changes, kept, *rest)

    return marked


def plan(**changed):
    """A MERGE with other conditions."""

    def make(original):
        return lambda *given: replace(original(*given), **changed)

    return make


def _last_arrival(original):
    def winners(changes, key):
        by_offset = changes.withColumn(
            "position", F.col("position").withField("pos", F.col("offset"))
        )
        return original(by_offset, key)

    return winners


def _last_arrival_in_the_driver(original):
    def winners(rows, key):
        meta = rows.column("_ingest").combine_chunks()
        place = meta.field("position")
        arrived = pa.array(range(len(place)), pa.int64())
        fields = [
            arrived if field.name == "pos" else place.field(field.name) for field in place.type
        ]
        renumbered = pa.StructArray.from_arrays(fields, fields=list(place.type))
        parts = [
            renumbered if field.name == "position" else meta.field(field.name)
            for field in meta.type
        ]
        at = rows.schema.get_field_index("_ingest")
        noted = pa.StructArray.from_arrays(parts, fields=list(meta.type))
        return original(rows.set_column(at, "_ingest", noted), key)

    return winners


def _without_truncates(original):
    return lambda facts, catalog, applied: original(replace(facts, truncates=()), catalog, applied)


def _without_steps(original):
    class Same(original):
        def __init__(self, term, batch, step):
            super().__init__(term, batch, 0)

    return Same


MUTANTS = [
    Mutant(
        "no high-water position",
        dedup,
        "marked",
        no_position,
        "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again",
    ),
    Mutant(
        "the applied offset counts one record too many",
        dedup,
        "marked",
        _inclusive_offset,
        "identical_rows_without_a_key_are_kept_apart_and_counted",
    ),
    Mutant(
        "no guard by the row's own position",
        mirror,
        "mirror_plan",
        plan(update_when="s._ingest.op <> 'd'"),
        "an_older_change_under_a_new_offset_never_overwrites_a_newer_row",
        engine=REWRITES,
    ),
    Mutant(
        "rows are marked without a look at their own position",
        merge_on_read,
        "_decide",
        lambda original: (
            lambda rows, held, removing: original(
                rows, [replace(one, position=()) for one in held], removing
            )
        ),
        "an_older_change_under_a_new_offset_never_overwrites_a_newer_row",
        engine="deletion-vectors",
    ),
    Mutant(
        "rows that go are not marked",
        merge_on_read,
        "_decide",
        lambda original: lambda *given: ({}, original(*given)[1]),
        "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again",
        engine="deletion-vectors",
    ),
    Mutant(
        "what was marked before is forgotten",
        deletion_vector,
        "rows",
        lambda _: lambda descriptor: BitMap(),
        "a_row_that_has_gone_stays_away_when_others_of_its_file_go_after_it",
        engine="deletion-vectors",
    ),
    Mutant(
        "the last arrival wins",
        dedup,
        "winners",
        _last_arrival,
        "the_newest_position_wins_within_a_batch_whatever_arrives_last",
        engine="spark",
    ),
    Mutant(
        "the last arrival wins in the driver",
        collected_changes,
        "winners",
        _last_arrival_in_the_driver,
        "the_newest_position_wins_within_a_batch_whatever_arrives_last",
        engine=DRIVER,
    ),
    Mutant(
        "what came before is taken for new in the driver",
        change_facts,
        "refuse_old",
        lambda _: lambda *given: None,
        "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again",
        engine=DRIVER,
    ),
    Mutant(
        "a step in the driver has the whole batch's changes",
        step_cutter,
        "_rows_within",
        lambda _: lambda rows, step: rows,
        "a_truncate_removes_what_stood_before_it_and_nothing_after",
        engine=DRIVER,
    ),
    Mutant(
        "deletes do nothing",
        mirror,
        "mirror_plan",
        plan(delete_when="false"),
        "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again",
        engine=REWRITES,
    ),
    Mutant(
        "the two halves of a key change in the wrong order",
        envelope.position,
        "PART_DELETE",
        lambda _: 9,
        "a_key_that_is_given_up_and_taken_again_at_one_position_is_there",
        engine="spark",
    ),
    Mutant(
        "truncates are ignored",
        step_cutter,
        "steps",
        _without_truncates,
        "a_truncate_removes_what_stood_before_it_and_nothing_after",
    ),
    Mutant(
        "every step of a batch has one identity",
        commit,
        "Marker",
        _without_steps,
        "what_follows_a_truncate_of_older_rows_in_its_batch_is_applied",
        engine="spark",
    ),
    Mutant(
        "what a truncate makes void is what comes after it",
        row_fates.steps,
        "without_void",
        lambda original: lambda found: [replace(one, void=bool(one.wipe)) for one in found],
        "what_follows_a_truncate_of_older_rows_in_its_batch_is_applied",
    ),
    Mutant(
        "a soft delete removes its row",
        SoftDeletes,
        "plan",
        plan(delete_when="s._ingest.op = 'd'", update_when="s._ingest.op <> 'd'"),
        "a_row_that_is_deleted_softly_is_kept_and_an_insert_makes_it_live",
        engine=REWRITES,
    ),
    Mutant(
        "a soft delete of an absent row is not kept",
        SoftDeletes,
        "plan",
        plan(insert_when="s._ingest.op <> 'd'"),
        "a_soft_delete_of_a_row_that_is_not_there_is_kept_and_nothing_older_brings_it_back",
        engine="spark",
    ),
    Mutant(
        "a soft delete of a row that no file may hold is not kept",
        SoftDeletes,
        "removing",
        lambda _: frozenset("d"),
        "a_soft_delete_of_a_row_that_is_not_there_is_kept_and_nothing_older_brings_it_back",
        engine=DRIVER,
    ),
    Mutant(
        "no guard by the row's own position under soft deletes",
        SoftDeletes,
        "plan",
        plan(update_when="true"),
        "a_change_older_than_a_soft_delete_stays_away_from_it",
        engine=REWRITES,
    ),
    Mutant(
        "a truncate removes what it should mark",
        SoftDeletes,
        "truncated",
        lambda _: mirror.Mirror.truncated,
        "a_truncate_deletes_softly_what_stood_before_it_also_in_its_own_batch",
    ),
    Mutant(
        "a truncate makes void what it should mark",
        row_fates,
        "without_void",
        lambda original: lambda found, _: original(found, mirror.Mirror()),
        "a_truncate_deletes_softly_what_stood_before_it_also_in_its_own_batch",
    ),
    Mutant(
        "a truncate marks anew what was deleted before it",
        SoftDeletes,
        "truncated",
        lambda original: (
            lambda self, at: replace(original(self, at), where=f"_ingest.position < {at.sql()}")
        ),
        "a_truncate_deletes_softly_what_stood_before_it_also_in_its_own_batch",
    ),
    Mutant(
        "identical rows count once",
        multiset_rows,
        "net_changes",
        lambda original: lambda changes: original(changes.dropDuplicates(["op", "row"])),
        "identical_rows_without_a_key_are_kept_apart_and_counted",
    ),
    Mutant(
        "repetitions within a batch count",
        dedup,
        "once",
        lambda _: lambda changes: changes,
        "a_row_without_a_key_that_is_sent_twice_in_one_batch_counts_once",
    ),
    Mutant(
        "a torn batch is not finished",
        start_decision,
        "_torn",
        lambda _: lambda facts: None,
        "a_batch_torn_after_its_table_is_finished_and_not_repeated",
    ),
    Mutant(
        "a completed snapshot removes nothing",
        restarted_snapshots,
        "awaited",
        lambda _: lambda catalog, states: [],
        "rows_deleted_between_two_attempts_at_a_snapshot_do_not_stay",
    ),
    Mutant(
        "an attempt that began again is not noticed",
        restarted_snapshots,
        "begins_again",
        lambda _: lambda facts, state: None,
        "an_attempt_at_a_snapshot_that_began_again_does_not_double_rows_without_a_key",
    ),
    Mutant(
        "the newest truncate is forgotten",
        next_entry,
        "table_states",
        lambda original: (
            lambda *given, **more: {
                name: replace(state, floor=None) for name, state in original(*given, **more).items()
            }
        ),
        "a_change_older_than_a_truncate_from_another_partition_stays_away",
    ),
    Mutant(
        "a delete that removes nothing must leave a marker",
        commit.Committer,
        "once",
        lambda original: (
            lambda self, table, identity, act, **_: original(self, table, identity, act)
        ),
        "an_empty_table_that_is_truncated_stays_empty",
    ),
    Mutant(
        "files written anew without their last one",
        compaction,
        "_swap",
        lambda original: lambda gone, added, now: original(gone, added[:-1], now),
        "rows_of_files_that_are_written_anew_stay_also_when_it_dies_in_between",
        engine=DRIVER,
    ),
    Mutant(
        "a file that holds a key of the batch is passed over",
        delta_snapshot,
        "_may_hold",
        lambda _: lambda *_: False,
        "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again",
        engine=DRIVER,
    ),
]
