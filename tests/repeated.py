"""Cases that repeat in another lane, engine or type what their file shows in one, and so are of the long suite alone.

The suite that runs at each landing has half an hour on two cores. Here stands what of it was taken out for that, by file: how a case's
name begins, or all of it. ``tests/unit/test_repeated.py`` holds that each is still of a test that is there.
"""

from __future__ import annotations

REPEATED: dict[str, tuple[str, ...]] = {
    "tests/conformance/test_barriers.py": (
        "test_thousands_of_truncates_with_rows_between_them_are_one_batch[True]",
        "test_a_batch_of_which_every_step_was_applied_is_finished_where_later_ones_make_them_void[5-",
    ),
    "tests/conformance/test_spark.py": (
        "test_what_counts_is_what_the_source_holds_and_the_rest_is_what_the_target_keeps[delta-rs-soft_deletes]",
    ),
    "tests/spark/batch/test_carried_over_ddl.py": (
        "test_rows_of_before_and_changes_of_the_batch_get_each_kind_of_default[tasks",
        "test_a_wider_type_leaves_a_small_table_plain_and_its_values_as_they_are[tasks",
        "test_a_batch_that_dies_between_its_commits_is_finished_as_it_was_begun[tasks, rows kept in Spark-behind the rows]",
        "test_who_finishes_a_batch_and_carries_nothing_takes_its_table_back_and_begins_anew[{'lane': 'columns'}]",
    ),
    "tests/spark/batch/test_change_log.py": (
        "test_every_change_stands_in_it_once_with_both_images_whichever_lane_read_it[tasks, rows kept in Spark]",
        "test_ddl_and_truncate_are_rows_and_columns_only_come[kept in Spark]",
    ),
    "tests/spark/batch/test_change_log_filled_rightly.py": (
        "test_of_a_table_without_a_key_that_was_read_again_it_begins_with_that[filled]",
        "test_a_change_of_which_the_row_of_before_was_absent_is_in_it[logs1]",
    ),
    "tests/spark/batch/test_lanes.py": (
        "test_columns_come_go_and_come_again_in_one_batch_and_no_change_is_read_another_way[tasks",
        "test_rows_of_any_kind_are_appended_to_an_empty_table_and_behind_a_full_one[tasks",
        "test_a_truncate_between_two_changes_of_one_key_removes_only_what_stands_before_it[tasks",
    ),
    "tests/spark/batch/test_odd_records.py": (
        "test_while_a_key_waits_in_quarantine_only_its_own_changes_leave_the_lane[tasks",
        "test_only_few_records_beside_an_odd_one_are_read_by_spark_s_columns[tasks",
        "test_a_topic_of_odd_records_alone_is_read_by_columns_in_few_batches[tasks",
    ),
    "tests/spark/batch/test_parts.py": (
        "test_a_range_of_spark_s_is_applied_in_parts_each_a_row_of_the_manifest[by bytes in the driver]",
        "test_a_run_that_dies_between_two_parts_goes_on_with_the_next_one[by bytes in the driver]",
    ),
    "tests/spark/batch/test_state.py": (
        "test_what_the_state_knows_is_counted_as_its_and_applied_by_nobody[watermark]",
        "test_behind_the_horizon_of_the_state_only_positions_tell_and_a_table_without_a_key_needs_them[watermark]",
    ),
    "tests/spark/batch/test_table_stands_still.py": (
        "test_what_was_committed_of_its_part_before_it_failed_is_taken_back[without a key]",
        "test_one_that_another_program_has_changed_stands_still_and_a_batch_torn_beside_it_is_finished[without a key]",
        "test_the_others_go_on_and_what_it_misses_comes_in_order_when_it_is_mended[without a key]",
    ),
    "tests/spark/changes/test_position_ties.py": (
        "test_what_is_sent_again_opens_none_wherever_a_batch_ends[from the middle of a statement on-in the driver]",
        "test_what_is_sent_again_opens_none_wherever_a_batch_ends[at once-by Spark]",
    ),
    "tests/spark/lake/test_delta_rs_table.py": (
        "test_it_leaves_the_rows_that_spark_s_merge_leaves[VARCHAR]",
        "test_it_leaves_the_rows_that_spark_s_merge_leaves[BIGINT]",
        "test_rows_of_keys_that_no_file_holds_are_added_as_spark_s_merge_inserts_them[VARCHAR]",
        "test_rows_of_keys_that_no_file_holds_are_added_as_spark_s_merge_inserts_them[DATETIME]",
    ),
    "tests/spark/lake/test_held_back.py": (
        "test_two_records_that_waited_at_one_place_are_told_apart[True]",
        "test_a_record_that_is_set_aside_twice_as_its_table_went_back_is_taken_in_once",
        "test_what_waits_behind_a_change_leaves_another_record_of_its_place_alone",
    ),
    "tests/spark/lake/test_order_and_merge.py": (
        "test_removing_a_row_that_is_not_there_is_reported_and_not_guessed[delta-rs]",
        "test_an_older_change_never_overwrites_and_an_older_delete_never_removes[delta-rs]",
    ),
    "tests/spark/maintenance/test_compaction.py": (
        "test_every_type_comes_through_and_versions_before_stay_readable[DECIMAL]",
    ),
    "tests/spark/observe/test_log_audit.py": ("test_a_row_that_somebody_has_touched_is_named[t-",),
    "tests/spark/start/test_upgrade.py": (
        "test_a_table_that_is_restored_to_what_it_was_before_is_brought_over_again",
        "test_a_start_that_dies_in_the_middle_is_followed_by_the_rest[_statistics]",
    ),
    "tests/spark/targets/test_soft_deletes.py": (
        "test_deleted_rows_stay_through_ddl_and_a_truncate_and_live_rows_are_the_source_s[deletion-vectors]",
        "test_under_another_key_a_deleted_row_does_not_come_back_with_a_live_one_that_has_it[deletion-vectors]",
    ),
}


def is_repeated(file: str, name: str) -> bool:
    """Whether a case of this name, in a file below the project's root, is of the long suite alone."""
    return any(name.startswith(one) for one in REPEATED.get(file, ()))
