"""Quarantine per key: a change that cannot be read waits, its key's later changes wait behind it in
order, others go on; a replay takes them in and nothing overtakes.
"""

import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from ingest.arrow import column_values
from ingest.batch import micro_batch, side_by_side, table_applier
from ingest.changes import quarantine_rows, row_images
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.lake.quarantine.held_back import HeldBack
from ingest.lake.quarantine.waiting_list import waiting_list
from ingest.model.names import quarantine_path
from ingest.model.position import Position
from ingest.model.reasons import QUARANTINED, WENT_BACK
from ingest.model.specification import row
from ingest.model.topics import TableId
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import delete, insert, truncate, update
from tests.conformance.targets import Crash, SparkTarget, created, dying


@contextmanager
def unreadable(text="bad"):
    """A defect of the decoder: it cannot read this text, until it is mended."""
    original = row_images._row_reason

    def reason(image, raw, schema):
        cannot = F.when(image.rlike(f'"v": ?"{text}"'), "the decoder cannot read it")
        return F.coalesce(original(image, raw, schema), cannot)

    in_driver = column_values.value

    def value(parsed, *given):
        if text in parsed.to_pylist():
            raise column_values.UnfitError("the decoder cannot read it")
        return in_driver(parsed, *given)

    # Readers are built once per schema and job; the mended one is another job's.
    row_images._reading.cache_clear()
    with (
        patch.object(row_images, "_row_reason", reason),
        patch.object(column_values, "value", value),
    ):
        yield
    row_images._reading.cache_clear()


class Lake:
    """A table of a lake, fed batch by batch."""

    def __init__(self, spark, folder, *, keyed=True, **settings):
        self.history = History(keyed, 1, records=[[]])
        self.history.snapshots = [Position(0, 1, 5)]
        self.target = SparkTarget(spark, folder, self.history, **settings)

    def take(self, *changes, crash=None):
        self.history.records[0] += [Record(each, 0, each.position.pos) for each in changes]
        self.target.take({0: [len(self.history.records[0])]}, crash)

    def make_topic_again(self):
        """Its offsets begin anew, and a start reads it from there."""
        self.history.records[0].clear()
        batches = self.target.batches
        batches.newest = replace(batches.newest, offsets={}, high_water={})

    def drop_and_create(self, pos):
        """DROP TABLE, and a CREATE TABLE of the same columns behind it."""
        made = created("t0", Position(0, 1, pos + 1), self.history)
        made["source"]["snapshot"] = "false"
        gone = {"type": "DROP", "id": made["tableChanges"][0]["id"]}
        source = {**made["source"], "pos": pos}
        self.target.log.define({**made, "source": source, "ddl": "DROP …", "tableChanges": [gone]})
        self.target.log.define(made)

    def rows(self):
        return sorted((r["id"], r["v"]) for r in map(dict, self.target.content().elements()))

    def waiting(self):
        return sum(one.changes for one in waiting_list(str(self.target.path)))

    def replay(self):
        return self.target.batches.replay()


@pytest.fixture
def lake(spark, tmp_path):
    found = Lake(spark, tmp_path)
    yield found
    found.target.remove()


def test_later_changes_of_a_key_wait_in_order_and_all_others_go_on(lake):
    with unreadable():
        lake.take(
            insert(10, 1, "a"),
            update(11, 1, "a", "bad"),
            update(12, 1, "bad", "bad"),
            update(13, 1, "bad", "c"),
        )
        assert (lake.rows(), lake.waiting()) == ([(1, "a")], 3)
        lake.take(update(20, 1, "c", "d"), insert(21, 2, "b"), delete(22, 1, "d"))
        assert (lake.rows(), lake.waiting()) == ([(1, "a"), (2, "b")], 5)
        before = lake.target.batches.newest.batch_id
        assert lake.replay() == 0
        assert lake.target.batches.newest.batch_id == before
        lake.take(insert(30, 1, "e"))
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(1, "e"), (2, "b")], 0)
    lake.take(update(40, 1, "e", "f"))
    assert lake.rows() == [(1, "f"), (2, "b")]
    assert lake.replay() == 0


def test_a_replay_that_was_torn_is_finished_and_not_repeated(lake):
    place = "tables_committed"
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
    with (
        patch.object(micro_batch, "reached", dying(place)),
        patch.object(side_by_side, "reached", dying(place)),
        patch.object(table_applier, "reached", dying(place)),
        pytest.raises(Crash),
    ):
        lake.replay()
    lake.target.start()
    assert (lake.rows(), lake.waiting()) == ([(1, "bad"), (2, "b")], 0)
    assert lake.target.batches.newest.kind == "replay"
    assert lake.replay() == 0


@contextmanager
def dying_at_its_row_of_the_manifest():
    with patch.object(Publisher, "add", side_effect=Crash), pytest.raises(Crash):
        yield


def test_a_replay_that_lacks_only_its_row_of_the_manifest_is_published_as_what_it_was(lake):
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
    with dying_at_its_row_of_the_manifest():
        lake.replay()
    lake.target.start()
    newest, table = lake.target.batches.newest, lake.target.path / "d" / "t0"
    assert (newest.kind, newest.changes, lake.waiting()) == ("replay", 1, 0)
    assert newest.tables["d.t0"].version == DeltaTable(table).version()
    assert newest.tables["d.t0"].changes == 1
    assert lake.replay() == 0


def test_a_folder_of_before_a_replay_that_a_start_finished_has_its_table_taken_again(lake):
    """What had waited does not come again from its topic."""
    table, copy = lake.target.path / "d" / "t0", lake.target.path / "copy"
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
    shutil.copytree(table, copy)
    with dying_at_its_row_of_the_manifest():
        lake.replay()
    lake.target.start()
    shutil.rmtree(table)
    copy.rename(table)
    lake.target.start()
    (gap,) = lake.target.batches.newest.gaps
    assert (gap.table, gap.reason, gap.is_open) == ("d.t0", WENT_BACK.says, True)


def test_what_can_be_read_only_since_a_replay_was_torn_is_taken_in_by_the_next_one_and_once(
    spark, tmp_path
):
    """That one has settled what it took already, so it would be taken in by both."""
    histories = [History(False, 1, records=[[]], snapshots=[Position(0, 1, 5)]) for _ in range(2)]
    target = SparkTarget(spark, tmp_path, *histories)
    for at, v in enumerate(("bad", "worse")):
        histories[at].records[0].append(Record(insert(10 + at, 1, v, keyed=False), 0, 10 + at))
    with unreadable("worse"):
        with unreadable("bad"):
            target.take({0: [1], 1: [1]})
        with dying_at_its_row_of_the_manifest():
            target.batches.replay()
    target.start()
    assert (target.content(0), target.content(1)) == (Counter([row(id=1, v="bad")]), Counter())
    assert target.batches.replay() == 1
    assert target.content(1) == Counter([row(id=1, v="worse")])
    assert target.batches.replay() == 0
    target.remove()


def test_what_waits_of_a_table_that_stands_still_goes_on_waiting(lake):
    """Were it applied now, it would be settled, and gone where the table is brought back."""
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
    batches = lake.target.batches
    moving = batches.newest
    still = {name: replace(state, stopped="why") for name, state in moving.tables.items()}
    batches.newest = replace(moving, tables=still)
    assert lake.replay() == 0
    assert lake.waiting() == 1
    batches.newest = moving
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(1, "bad"), (2, "b")], 0)


def test_a_batch_that_is_done_again_holds_back_the_same_changes(lake):
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
        lake.take(update(20, 1, "bad", "c"), update(21, 2, "b", "bb"), crash="quarantine_committed")
        assert (lake.rows(), lake.waiting()) == ([(2, "bb")], 2)
    lake.replay()
    assert lake.rows() == [(1, "c"), (2, "bb")]


def test_what_a_truncate_made_void_is_settled_and_not_applied(lake):
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
        lake.take(truncate(20), insert(30, 3, "c"))
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(3, "c")], 0)


def test_what_a_drop_made_void_is_settled_and_holds_no_row_of_the_table_that_was_made_again(lake):
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
        lake.drop_and_create(20)
        lake.take(insert(30, 1, "c"), insert(31, 3, "d"))
        assert (lake.rows(), lake.waiting()) == ([(3, "d")], 2)
        assert lake.replay() == 1
        assert (lake.rows(), lake.waiting()) == ([(1, "c"), (3, "d")], 0)


def test_a_drop_that_a_policy_ignores_makes_nothing_void(spark, tmp_path):
    ignored = {"d.t?": {"ddl": {"drop_table": "ignore"}}}
    lake = Lake(spark, tmp_path, tables=ignored)
    with unreadable():
        lake.take(insert(10, 1, "bad"), insert(11, 2, "b"))
        lake.drop_and_create(20)
        lake.take(insert(31, 3, "d"))
    assert lake.replay() == 0
    assert (lake.rows(), lake.waiting()) == ([(2, "b"), (3, "d")], 1)
    assert lake.target.batches.newest.tables["d.t0"].floor is None
    lake.target.remove()


def test_in_a_table_without_a_key_nothing_waits_for_anything(spark, tmp_path):
    lake = Lake(spark, tmp_path, keyed=False)
    with unreadable():
        lake.take(insert(10, 1, "bad", keyed=False), insert(11, 1, "a", keyed=False))
        lake.take(update(20, 1, "bad", "b", keyed=False), insert(21, 1, "a", keyed=False))
        assert (Counter(lake.rows()), lake.waiting()) == (Counter({(1, "a"): 2}), 2)
    assert lake.replay() == 1
    assert Counter(lake.rows()) == Counter({(1, "a"): 2, (1, "b"): 1})
    assert row(id=1, v="b") in lake.target.content()
    lake.target.remove()


def test_a_waiting_key_leaves_its_own_changes_to_spark_and_no_others(spark, tmp_path):
    histories = [History(True, 1, records=[[]], snapshots=[Position(0, 1, 5)]) for _ in range(2)]
    target = SparkTarget(spark, tmp_path, *histories, spark={"merge_engine": "auto"})

    def take(*changes_of_each):
        for history, changes in zip(histories, changes_of_each, strict=True):
            history.records[0] += [Record(each, 0, each.position.pos) for each in changes]
        target.take({at: [len(history.records[0])] for at, history in enumerate(histories)})
        tables = target.batches.newest.tables
        return ["read by Spark" in tables[name].engine for name in ("d.t0", "d.t1")]

    with unreadable():
        take([insert(10, 1, "bad")], [insert(11, 1, "a")])
        assert take([insert(20, 2, "b")], [update(21, 1, "a", "b")]) == [False, False]
        assert take([update(30, 1, "bad", "c")], [insert(31, 2, "c")]) == [True, False]
        assert "a key waits" in target.batches.newest.tables["d.t0"].engine
    assert sum(one.changes for one in waiting_list(str(target.path))) == 2
    assert target.batches.replay() == 1
    assert take([insert(40, 3, "d")], [insert(41, 3, "d")]) == [False, False]
    assert target.content(0) == Counter([row(id=i, v=v) for i, v in enumerate("cbd", 1)])
    assert target.content(1) == Counter([row(id=i, v=v) for i, v in enumerate("bcd", 1)])
    target.remove()


def test_a_row_that_is_not_there_to_remove_is_not_tried_again_and_every_other_is(spark, tmp_path):
    """Also where an earlier version has set it aside: by the very sentence that stands in its quarantine."""
    said = [
        "the row to remove is not in the lake",
        "value is not UTF-8",
        *(one.says for one in QUARANTINED),
    ]
    rows = [(1, why, "d", "t", "p.d.t", 0, at, *[None] * 5) for at, why in enumerate(said)]
    held = spark.createDataFrame(rows, quarantine_rows.SCHEMA)
    held.write.format("delta").save(quarantine_path(str(tmp_path)))
    records, tables = HeldBack(spark, str(tmp_path), Committer(1)).records(2)
    tried = {said[row.offset] for row in records.collect()}
    assert tried == set(said) - {said[0]}
    assert tables == [TableId("d", "t")]


def test_a_record_that_is_set_aside_twice_as_its_table_went_back_is_taken_in_once(spark, lake):
    lake.take(insert(10, 1, "v1"))
    table = SparkTable(spark, str(lake.target.path / "d" / "t0"))
    known = table.version()
    with unreadable():
        lake.take(insert(20, 2, "bad"))
        lake.take(insert(30, 3, "v3"))
        table.restore(known)
        lake.target.start()
        lake.take()
        assert (lake.rows(), lake.waiting()) == ([(1, "v1"), (3, "v3")], 2)
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(1, "v1"), (2, "bad"), (3, "v3")], 0)


@pytest.mark.parametrize("newer_comes_last", [True, pytest.param(False, marks=pytest.mark.long)])
def test_two_records_that_waited_at_one_place_are_told_apart(lake, newer_comes_last):
    """A topic that is made again gives offsets anew. What is void of the old one settles nothing of the new one."""
    of_before, of_now = insert(10, 1, "bad"), insert(30, 2, "bad")
    with unreadable():
        for one in (of_before, of_now) if newer_comes_last else (of_now, of_before):
            lake.take(one)
            lake.make_topic_again()
        newest = lake.target.batches.newest
        read_again = replace(newest.tables["d.t0"], snapshot=Position(0, 1, 20))
        lake.target.batches.newest = replace(newest, tables={"d.t0": read_again})
        assert lake.waiting() == 2
        assert lake.replay() == 1
        assert (lake.rows(), lake.waiting()) == ([], 1)
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(2, "bad")], 0)


def test_what_waits_behind_a_change_leaves_another_record_of_its_place_alone(lake):
    with unreadable("worse"):
        with unreadable("bad"):
            lake.take(insert(10, 1, "bad"), update(11, 1, "bad", "c"))
            lake.make_topic_again()
            lake.take(insert(20, 2, "worse"), update(21, 2, "worse", "d"))
            assert (lake.rows(), lake.waiting()) == ([], 4)
        assert lake.replay() == 1
        assert (lake.rows(), lake.waiting()) == ([(1, "c")], 2)
    assert lake.replay() == 1
    assert (lake.rows(), lake.waiting()) == ([(1, "c"), (2, "d")], 0)
