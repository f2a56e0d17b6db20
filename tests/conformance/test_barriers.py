"""Thousands of TRUNCATEs or DDLs of one table in one batch, as after a weekend in which nobody looked."""

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

from ingest.batch import parts, row_fates, table_applier
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.names import STEP_BITS, Marker
from ingest.model.position import Position
from ingest.model.specification import row
from ingest.schema.steps import without_void
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import insert, read, truncate
from tests.conformance.targets import Crash, OneTable, SparkTarget, created

MANY = 3_000


def target_of(session, folder, changes, *, keyed=True, **more):
    records = [Record(one, 0, index) for index, one in enumerate(changes)]
    history = History(keyed, 1, records=[records], snapshots=[Position(0, 1, 5)])
    return SparkTarget(session, folder, history, **more)


def filled_and_emptied(times, *, keyed):
    """A row, then (TRUNCATE, two rows) again and again."""
    yield read(5, 0, "first", keyed=keyed)
    for n in range(times):
        yield truncate(100 + 10 * n)
        yield insert(101 + 10 * n, n, "a", keyed=keyed)
        yield insert(102 + 10 * n, -1, "b", keyed=keyed)


@pytest.mark.parametrize("keyed", [True, False])
def test_thousands_of_truncates_with_rows_between_them_are_one_batch(spark, tmp_path, keyed):
    changes = list(filled_and_emptied(MANY, keyed=keyed))
    changes.append(insert(10**6, -2, "next", keyed=keyed))
    target = target_of(spark, tmp_path, changes, keyed=keyed)
    table = OneTable(target)
    # Where so much waits a batch takes what has come since, too.
    with patch.object(parts, "MUCH", 10**6):
        table.take([len(changes) - 1])
    left = {row(id=MANY - 1, v="a"): 1, row(id=-1, v="b"): 1}
    assert table.content() == left
    table.take([len(changes)])
    assert table.content() == {**left, row(id=-2, v="next"): 1}
    versions = SparkTable(spark, str(target.path / "d" / "t0")).version()
    assert versions < 10, "of what a later TRUNCATE removes, nothing is written"
    target.remove()


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "dies_at", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 4)), 5]
)
def test_a_batch_of_which_every_step_was_applied_is_finished_where_later_ones_make_them_void(
    spark, tmp_path, keyed, dies_at
):
    """As an earlier version of ingest has begun it: its steps had the same numbers, and none was left out."""
    begun_and_finished(spark, tmp_path, keyed, dies_at)


def test_steps_that_are_numbered_anew_where_others_are_left_out_are_noticed(spark, tmp_path):
    def renumbered(found):
        return [replace(one, number=number) for number, one in enumerate(without_void(found))]

    with pytest.raises(AssertionError), patch.object(row_fates.steps, "without_void", renumbered):
        begun_and_finished(spark, tmp_path, keyed=False, dies_at=5)


def begun_and_finished(spark, tmp_path, keyed, dies_at):
    changes = list(filled_and_emptied(3, keyed=keyed))
    changes.append(insert(200, 7, "c", keyed=keyed))
    target = target_of(spark, tmp_path, changes, keyed=keyed)
    seen = []

    def reached(place, batch_id, detail=""):
        seen.append(place)
        if seen.count("step_committed") == dies_at:
            raise Crash

    with (
        patch.object(row_fates.steps, "without_void", list),
        patch.object(table_applier, "reached", reached),
    ):
        try:
            target._apply({0: [len(changes)]})
        except Crash:
            assert seen.count("step_committed") == dies_at
    target.start()
    wanted = {row(id=2, v="a"): 1, row(id=-1, v="b"): 1, row(id=7, v="c"): 1}
    assert target.content() == wanted
    target.remove()


@pytest.mark.long
def test_a_batch_of_thousands_of_ddls_takes_further_numbers_and_the_next_one_goes_on(
    spark, tmp_path
):
    changes = [read(5, 0, "first")]
    changes += [insert(10 * n + 1, n, "a") for n in range(1, MANY + 2) if n % 500 == 0]
    changes += [insert(10 * MANY + 2, -1, "b"), insert(10**6, -2, "c")]
    target = target_of(spark, tmp_path, changes)
    for n in range(1, MANY + 1):
        statement = created("t0", Position(0, 1, 10 * n), target.log.histories[0])
        statement["source"]["snapshot"] = "false"
        statement["tableChanges"][0]["type"] = "ALTER"
        statement["ddl"] = f"ALTER TABLE t0 COMMENT = '{n}'"
        target.log.catalog.add(statement, 0, n)
    target.log.offset = MANY + 1
    path, seen = str(target.path / "d" / "t0"), []

    def dies_beyond_the_first_number(place, batch_id, detail=""):
        seen.append(place)
        if seen.count("step_committed") == 7:  # the rows behind the 3,000th DDL are written
            raise Crash

    with (
        patch.object(table_applier, "reached", dies_beyond_the_first_number),
        pytest.raises(Crash),
    ):
        target._apply({0: [len(changes) - 1]})
    target.start()
    last = Ledger(str(target.path)).last()
    assert last.batch_id == 2, "steps beyond 2,048 have the next number"
    table = OneTable(target)
    table.take([len(changes)])
    assert table.content() == Counter(one.after for one in changes)
    app = target.batches._applier.identity(last.checkpoint_id, table_applier.TableId("d", "t0"))
    assert Marker.parse(SparkTable(spark, path).committed(app)).place >= (2, 0)
    assert Ledger(str(target.path)).last().batch_id == 3
    assert 4 * MANY > 1 << STEP_BITS
    target.remove()


@pytest.mark.parametrize("engine", ["spark", "delta-rs"])
def test_a_ddl_of_a_step_that_is_void_is_followed_all_the_same(spark, tmp_path, engine):
    changes = [read(5, 0, "first"), insert(16, 1, "a"), truncate(20), insert(30, 2**40, "b")]
    target = target_of(spark, tmp_path, changes, spark={"merge_engine": engine})
    table = OneTable(target)
    table.take([1])
    for pos, type_ in ((15, "BIGINT"), (18, "INT"), (19, "BIGINT")):
        statement = created("t0", Position(0, 1, pos), target.log.histories[0])
        statement["source"]["snapshot"] = "false"
        statement["tableChanges"][0]["type"] = "ALTER"
        statement["tableChanges"][0]["table"]["columns"][0]["typeName"] = type_
        statement["ddl"] = f"ALTER TABLE t0 MODIFY id {type_} NOT NULL"
        target.log.catalog.add(statement, 0, pos)
    target.log.offset = 100
    table.take([4])
    held = SparkTable(
        spark, str(target.path / "d" / "t0")
    ).frame()  # of a feature that delta-rs reads not
    assert [(one.id, one.v) for one in held.collect()] == [(2**40, "b")]
    assert not target.batches.newest.gaps, "nothing of what is gone is asked of MySQL"
    target.remove()
