"""Named scenarios on Spark and Delta: one claim each, and the content after every batch.

Each is also what kills a mutant of the apply path (`test_mutants`), so each must be able to fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ingest.model.position import PART_DELETE, PART_WRITE, Position
from ingest.model.specification import Change, Row, row
from tests.conformance.histories import History, Record
from tests.conformance.targets import SparkTarget

SNAPSHOT = Position(0, 1, 5)


def _image(values: Any) -> Row | None:
    return None if values is None else row(id=values[0], v=values[1])


def change(
    operation: str,
    pos: int,
    before: Any = None,
    after: Any = None,
    *,
    keyed: bool = True,
    line: int = 0,
    attempt: int = 0,
) -> Change:
    part = PART_DELETE if operation in ("delete", "pinned") else PART_WRITE
    key = row(id=(after or before)[0]) if keyed and (after or before) else None
    position = Position(0, 1, pos, line, part)
    return Change(operation, position, key, _image(before), _image(after), attempt)  # type: ignore[arg-type]


def insert(pos: int, id_: int, v: str, **more: Any) -> Change:
    return change("insert", pos, None, (id_, v), **more)


def update(pos: int, id_: int, old: str, new: str, **more: Any) -> Change:
    return change("update", pos, (id_, old), (id_, new), **more)


def delete(pos: int, id_: int, v: str, **more: Any) -> Change:
    return change("delete", pos, (id_, v), None, **more)


def truncate(pos: int) -> Change:
    return change("truncate", pos)


def read(pos: int, id_: int, v: str, attempt: int = 1, **more: Any) -> Change:
    found = change("read", pos, None, (id_, v), attempt=attempt, **more)
    return Change(found.operation, Position(0, 1, pos), found.key, None, found.after, attempt)


@dataclass
class Scenario:
    """Batches of changes, the crash of some, and the rows after each."""

    batches: list[list[Change]]
    rows: list[list[tuple[int, str]]]
    keyed: bool = True
    snapshots: list[int] = field(default_factory=lambda: [5])
    crashes: dict[int, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    partition_of: Callable[[Change], int] = lambda _: 0
    partitions: int = 1
    only_final: bool = False
    dead: list[list[tuple[int, str, int]]] | None = None
    """Of a target that keeps rows which do not count: these after each batch, with their byte in the log."""

    def run(self, spark: Any, folder: Any) -> None:
        """Raises ``AssertionError`` (or the job's own error) when the claim does not hold."""
        history = History(self.keyed, self.partitions, records=[[] for _ in range(self.partitions)])
        history.snapshots = [Position(0, 1, pos) for pos in self.snapshots]
        ends = []
        for batch in self.batches:
            for each in batch:
                partition = self.partition_of(each)
                history.records[partition].append(Record(each, partition, each.position.pos))
            before = ends[-1] if ends else [0] * self.partitions
            grown = {self.partition_of(each) for each in batch}
            ends.append(
                [len(part) if p in grown else before[p] for p, part in enumerate(history.records)]
            )
        target = SparkTarget(spark, folder, history, **self.settings)
        try:
            for index, expected in enumerate(self.rows):
                target.take({0: ends[index]}, self.crashes.get(index))
                if index == len(self.rows) - 1:
                    target.settle()
                if not self.only_final or index == len(self.rows) - 1:
                    wanted = Counter(row(id=id_, v=v) for id_, v in expected)
                    assert target.content() == wanted, f"after batch {index}"
                    if self.dead is not None:
                        kept = Counter((row(id=i, v=v), pos) for i, v, pos in self.dead[index])
                        found = Counter((row, place.pos) for row, place in target.dead().elements())
                        assert found == kept, f"after batch {index}"
        finally:
            target.remove()


A, B = insert(10, 1, "a"), update(20, 1, "a", "b")
GONE = delete(30, 1, "b")

SCENARIOS: dict[str, Scenario] = {
    "a_deleted_row_does_not_come_back_when_older_changes_are_sent_again": Scenario(
        [[A, B], [GONE, insert(40, 2, "x")], [A, B]], [[(1, "b")], [(2, "x")], [(2, "x")]]
    ),
    "rows_of_files_that_are_written_anew_stay_also_when_it_dies_in_between": Scenario(
        [[insert(10 * n, n, "a")] for n in range(1, 6)],
        [[(n, "a") for n in range(1, upto + 1)] for upto in range(1, 6)],
        crashes={3: "files_rewritten"},
    ),
    "a_commit_whose_files_lie_in_the_table_when_it_dies_is_made_once": Scenario(
        [[A], [B, insert(25, 2, "x")], [GONE, insert(40, 3, "y")]],
        [[(1, "a")], [(1, "b"), (2, "x")], [(2, "x"), (3, "y")]],
        crashes={1: "files_written", 2: "files_written"},
    ),
    "a_row_that_has_gone_stays_away_when_others_of_its_file_go_after_it": Scenario(
        [
            [insert(10, 1, "a"), insert(11, 2, "b"), insert(12, 3, "c")],
            [delete(20, 1, "a")],
            [update(30, 2, "b", "d")],
            [delete(40, 3, "c"), insert(41, 4, "e")],
        ],
        [
            [(1, "a"), (2, "b"), (3, "c")],
            [(2, "b"), (3, "c")],
            [(2, "d"), (3, "c")],
            [(2, "d"), (4, "e")],
        ],
    ),
    "an_older_change_under_a_new_offset_never_overwrites_a_newer_row": Scenario(
        [[A, B], [A]], [[(1, "b")], [(1, "b")]], settings={"dedup": {"by": "watermark"}}
    ),
    "the_newest_position_wins_within_a_batch_whatever_arrives_last": Scenario(
        [[A, B, A]], [[(1, "b")]]
    ),
    "a_key_that_is_given_up_and_taken_again_at_one_position_is_there": Scenario(
        [[A], [change("delete", 50, (1, "a")), change("insert", 50, None, (1, "z"))]],
        [[(1, "a")], [(1, "z")]],
    ),
    "a_truncate_removes_what_stood_before_it_and_nothing_after": Scenario(
        [[A, insert(12, 2, "x")], [insert(13, 3, "y"), truncate(60), insert(70, 4, "n")]],
        [[(1, "a"), (2, "x")], [(4, "n")]],
    ),
    "identical_rows_without_a_key_are_kept_apart_and_counted": Scenario(
        [
            [insert(10, 1, "a", keyed=False), insert(11, 1, "a", keyed=False)],
            [delete(12, 1, "a", keyed=False)],
        ],
        [[(1, "a"), (1, "a")], [(1, "a")]],
        keyed=False,
    ),
    "a_row_without_a_key_that_is_sent_twice_in_one_batch_counts_once": Scenario(
        [[insert(10, 1, "a", keyed=False), insert(10, 1, "a", keyed=False)]],
        [[(1, "a")]],
        keyed=False,
    ),
    "an_append_only_table_keeps_what_its_source_removes_and_takes_no_update": Scenario(
        [
            [insert(10, 1, "a", keyed=False), insert(11, 1, "a", keyed=False)],
            [delete(12, 1, "a", keyed=False), insert(13, 2, "b", keyed=False), truncate(14)],
            [insert(20, 1, "a", keyed=False), update(21, 2, "b", "c", keyed=False)],
        ],
        [
            [(1, "a"), (1, "a")],
            [(1, "a"), (1, "a"), (2, "b")],
            [(1, "a"), (1, "a"), (1, "a"), (2, "b")],
        ],
        keyed=False,
        settings={"tables": {"d.t?": {"append_only": True}}},
        crashes={2: "table_committed"},
    ),
    "a_batch_torn_after_its_table_is_finished_and_not_repeated": Scenario(
        [[insert(10, 1, "a", keyed=False)], [insert(20, 1, "a", keyed=False)]],
        [[(1, "a")], [(1, "a"), (1, "a")]],
        keyed=False,
        crashes={1: "table_committed"},
    ),
    "rows_deleted_between_two_attempts_at_a_snapshot_do_not_stay": Scenario(
        [[read(5, 1, "a"), read(5, 2, "b")], [read(15, 2, "b", 2)], [insert(30, 3, "c")]],
        [[(1, "a"), (2, "b")], [(1, "a"), (2, "b")], [(2, "b"), (3, "c")]],
        snapshots=[5, 15],
    ),
    "an_attempt_at_a_snapshot_that_began_again_does_not_double_rows_without_a_key": Scenario(
        [
            [read(5, 1, "a", keyed=False)],
            [read(5, 1, "a", 2, keyed=False), read(5, 2, "b", 2, keyed=False)],
        ],
        [[(1, "a")], [(1, "a"), (2, "b")]],
        keyed=False,
    ),
    "a_change_older_than_a_truncate_from_another_partition_stays_away": Scenario(
        [
            # The second partition is no new one later, which would be read together with all of the first.
            [insert(10, 1, "a"), insert(12, 9, "p"), truncate(60)],
            [insert(20, 2, "late")],
            [insert(70, 3, "n")],
        ],
        [[], [], [(3, "n")]],
        partitions=2,
        partition_of=lambda each: 1 if each.position.pos in (12, 20) else 0,
    ),
    "a_key_that_moves_to_an_added_partition_keeps_its_order": Scenario(
        [
            [insert(10, 1, "a")],
            [insert(30, 1, "z")],
            [update(15, 1, "a", "b"), delete(20, 1, "b")],
        ],
        [[(1, "a")], [(1, "z")], [(1, "z")]],
        partitions=2,
        partition_of=lambda each: 1 if each.position.pos == 30 else 0,
    ),
    "what_follows_a_truncate_of_older_rows_in_its_batch_is_applied": Scenario(
        [[insert(10, 1, "a")], [truncate(20), insert(30, 2, "b")]], [[(1, "a")], [(2, "b")]]
    ),
    "an_empty_table_that_is_truncated_stays_empty": Scenario(
        [[truncate(60)], [truncate(61), insert(70, 1, "n")]], [[], [(1, "n")]]
    ),
}

_SOFT = {"tables": {"d.t?": {"deletes": "soft"}}}

SCENARIOS |= {
    "a_row_that_is_deleted_softly_is_kept_and_an_insert_makes_it_live": Scenario(
        [[A], [delete(30, 1, "a"), insert(31, 2, "x")], [insert(40, 1, "z")]],
        [[(1, "a")], [(2, "x")], [(1, "z"), (2, "x")]],
        dead=[[], [(1, "a", 30)], []],
        settings=_SOFT,
        crashes={1: "table_committed"},
    ),
    "a_soft_delete_of_a_row_that_is_not_there_is_kept_and_nothing_older_brings_it_back": Scenario(
        [[insert(5, 2, "x"), delete(30, 1, "b")], [A, B], [insert(31, 1, "n")]],
        [[(2, "x")], [(2, "x")], [(1, "n"), (2, "x")]],
        dead=[[(1, "b", 30)], [(1, "b", 30)], []],
        settings={**_SOFT, "dedup": {"by": "watermark"}},
    ),
    "a_change_older_than_a_soft_delete_stays_away_from_it": Scenario(
        [[A], [delete(30, 1, "b")], [A, B]],
        [[(1, "a")], [], []],
        dead=[[], [(1, "b", 30)], [(1, "b", 30)]],
        settings={**_SOFT, "dedup": {"by": "watermark"}},
    ),
    "a_truncate_deletes_softly_what_stood_before_it_also_in_its_own_batch": Scenario(
        [
            [A, insert(12, 2, "x"), delete(13, 2, "x")],
            [insert(14, 3, "y"), truncate(60), insert(61, 4, "m"), truncate(62)],
            [insert(70, 1, "n")],
        ],
        [[(1, "a")], [], [(1, "n")]],
        dead=[
            [(2, "x", 13)],
            [(1, "a", 60), (2, "x", 13), (3, "y", 60), (4, "m", 62)],
            [(2, "x", 13), (3, "y", 60), (4, "m", 62)],
        ],
        settings=_SOFT,
        crashes={1: "step_committed"},
    ),
    "rows_that_a_newer_snapshot_does_not_find_are_deleted_softly": Scenario(
        [[read(5, 1, "a"), read(5, 2, "b")], [read(15, 2, "b", 2)], [insert(30, 3, "c")]],
        [[(1, "a"), (2, "b")], [(1, "a"), (2, "b")], [(2, "b"), (3, "c")]],
        dead=[[], [], [(1, "a", 15)]],
        snapshots=[5, 15],
        settings=_SOFT,
    ),
    "a_key_that_is_given_up_is_deleted_softly_and_taken_again_is_live": Scenario(
        [
            [A],
            [delete(50, 1, "a"), insert(51, 3, "a")],
            [change("delete", 60, (3, "a")), change("insert", 60, None, (3, "z"))],
        ],
        [[(1, "a")], [(3, "a")], [(3, "z")]],
        dead=[[], [(1, "a", 50)], [(1, "a", 50)]],
        settings=_SOFT,
    ),
}
