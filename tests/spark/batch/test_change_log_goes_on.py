"""How a change log goes on: behind a kill, where it or its table went back, where something else lies in its place."""

import shutil
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from ingest.batch import change_logs, micro_batch, side_by_side, table_applier
from ingest.batch.change_logs import ChangeLogs
from ingest.batch.micro_batch import Batches
from ingest.batch.side_by_side import Failures
from ingest.lake.delta import workspace
from ingest.model.errors import IngestError
from ingest.source.resync import Requests
from ingest.testing.frames import assert_rows
from ingest.testing.source import Source
from tests.conformance.targets import Crash, dying, eager_upkeep
from tests.support.change_log import folded, frozen, log_of, place


def operations(lake, table="d.t"):
    return [(row["operation"], row["origin"]) for row in log_of(lake, table)]


PLACES = (
    *("log_started", "log_committed", "table_committed", "files_written", "tables_committed"),
    *("manifest_committed", "offsets_committed"),
)
"""Where a batch is torn that has a change log. ``files_written`` is met first in the mirror."""


@contextmanager
def torn(place):
    """The job dies there."""
    with ExitStack() as patched:
        for module in (change_logs, micro_batch, side_by_side, table_applier, workspace):
            patched.enter_context(patch.object(module, "reached", dying(place)))
        yield


@pytest.mark.parametrize("engine", ["delta-rs", pytest.param("spark", marks=pytest.mark.long)])
def test_a_batch_that_is_torn_anywhere_twice_is_there_once(logged, engine):
    lake, source = logged(spark={"merge_engine": engine}), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    with eager_upkeep():
        lake.follow(source)
        for number, at in enumerate((*PLACES, *reversed(PLACES)), 2):
            table.insert(id=number, v=number)
            table.update(1, v=number)
            bag.update({"n": number - 1}, n=number)
            if number == 6:
                table.add_column("c", "INT")
                bag.insert(n=100 + number)
            for act in (lambda: lake.follow(source), lambda: lake.apply(lake.log.ends())):
                with suppress(Crash), torn(at):
                    act()
                lake.start()
            lake.apply(lake.log.ends())
    assert_rows(lake.live(table), table.rows)
    assert_rows(lake.live(bag), bag.rows)
    assert folded(log_of(lake), ["id"]) == Counter(map(frozen, table.rows))
    assert folded(log_of(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    for name in ("d.t", "d.bag"):
        found = [(*place(row), row["operation"]) for row in log_of(lake, name)]
        assert len(found) == len(set(found)), "none is there twice"


def test_one_that_is_asked_for_later_begins_where_the_table_is(logged):
    source = Source()
    lake = logged(defaults={"targets": ["mirror"]})
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    lake = logged()
    table.insert(id=2)
    lake.follow(source)
    assert operations(lake) == [("begin", "stream"), ("insert", "stream")]


def test_what_came_while_nobody_asked_for_it_is_missing_behind_a_mark(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"])
    table.insert(id=1)
    lake.follow(source)
    lake = logged(defaults={"targets": ["mirror"]})
    table.insert(id=2)
    lake.follow(source)
    lake = logged()
    table.insert(id=3)
    table.insert(id=4)
    lake.follow(source, batches=2)
    assert [row["operation"] for row in log_of(lake)] == ["insert", "begin", "insert", "insert"]
    assert [row["after"]["id"] for row in log_of(lake) if row["after"]] == [1, 3, 4]


def test_one_that_is_gone_begins_anew_and_one_of_last_week_says_what_it_lacks(logged, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"])
    table.insert(id=1)
    lake.follow(source)
    folder = Path(lake.pipeline.change_log_path(table.name))
    shutil.copytree(folder, tmp_path / "copy")
    table.insert(id=2)
    lake.follow(source)
    lake.close()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    lake.start()
    table.insert(id=3)
    lake.follow(source)
    assert [row["operation"] for row in log_of(lake)] == ["insert", "begin", "insert"]
    lake.close()
    shutil.rmtree(folder)
    lake.start()
    table.insert(id=4)
    lake.follow(source)
    assert [row["operation"] for row in log_of(lake)] == ["begin", "insert"]
    assert_rows(lake.live(table), table.rows)


def test_a_table_that_goes_back_gets_its_changes_once_more_and_the_log_does_not(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    bag = source.table("d.bag", {"n": "INT"}, rows=[{"n": 1}])
    lake.follow(source)
    for number in range(2, 6):
        table.insert(id=number)
        bag.insert(n=number)
        lake.follow(source)
    before = {name: log_of(lake, name) for name in ("d.t", "d.bag")}
    for one in (table, bag):
        lake._held(one).restore(2)
    lake.start()
    for size in (2, 5):  # what comes once more, in other batches
        lake.apply({place: min(end, size) for place, end in lake.log.ends().items()})
    assert {name: log_of(lake, name) for name in ("d.t", "d.bag")} == before
    table.insert(id=9)
    bag.insert(n=9)
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)
    assert folded(log_of(lake), ["id"]) == Counter(map(frozen, table.rows))
    assert folded(log_of(lake, "d.bag")) == Counter(map(frozen, bag.rows))
    assert all(row["operation"] != "begin" for row in log_of(lake))


def test_what_comes_behind_an_end_that_kafka_lost_is_in_the_table_and_in_the_log(
    logged, monkeypatch
):
    monkeypatch.setattr(Requests, "ask", lambda *_: None)
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    for number in range(2, 7):
        table.insert(id=number)
    lake.follow(source)
    lake.close()
    for records in lake.log._records.values():
        del records[3:]  # as a broker that comes back without its newest records
    lake.start()
    assert "its end was lost" in " ".join(lake.said)
    table.insert(id=7)
    lake.follow(source)
    table.snapshot()
    table.insert(id=8)
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)
    told = [row["operation"] for row in log_of(lake)]
    assert told == ["read", *["insert"] * 5, "begin", "insert", *["read"] * 7, "insert"]


def test_a_table_whose_folder_is_gone_is_filled_again_and_the_log_is_not(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    table.insert(id=2)
    lake.follow(source)
    before = log_of(lake)
    lake.close()
    shutil.rmtree(lake.pipeline.path(table.name))
    with patch.object(Batches, "ensure_tables"):  # a run looks at what is there first
        lake.start()
    table.insert(id=3)
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)
    assert log_of(lake)[:-1] == before
    assert folded(log_of(lake), ["id"]) == Counter(map(frozen, table.rows))


def test_another_writer_s_rows_in_it_make_its_table_stand_still_and_no_other(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    lake.close()
    path = lake.pipeline.change_log_path(table.name)
    lake.session.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    lake.start()
    table.insert(id=2)
    other.insert(id=2)
    lake.follow(source)
    assert_rows(lake.live(other), other.rows)
    assert "the change log of d.t was changed by another writer" in lake.batches.newest.tables["d.t"].stopped  # fmt: skip


def test_a_torn_batch_that_is_finished_over_an_older_log_says_what_it_lacks(logged, tmp_path):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"])
    folder = Path(lake.pipeline.change_log_path(table.name))
    for number in range(1, 5):
        table.insert(id=number)
        lake.follow(source)
        if number == 2:
            shutil.copytree(folder, tmp_path / "copy")
    table.insert(id=5)
    with suppress(Crash), torn("table_committed"):
        lake.follow(source)
    lake.close()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    lake.start()
    assert any("finishing batch" in one for one in lake.said)
    found = [(row["operation"], row["after"] and row["after"]["id"]) for row in log_of(lake)]
    assert found == [("insert", 1), ("insert", 2), ("begin", None), ("insert", 5)]


def test_a_commit_of_a_log_that_is_cut_off_stops_its_table_alone(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    lake.close()
    newest = max(Path(lake.pipeline.change_log_path(table.name)).glob("_delta_log/*.json"))
    newest.write_bytes(newest.read_bytes()[:-40])
    lake.start()
    table.insert(id=2)
    other.insert(id=2)
    lake.follow(source)
    assert_rows(lake.live(other), other.rows)
    assert "the change log of d.t cannot be read" in lake.batches.newest.tables["d.t"].stopped
    shutil.rmtree(newest.parents[1])
    lake.start()
    lake.apply(lake.log.ends())
    assert_rows(lake.live(table), table.rows)
    assert [row["operation"] for row in log_of(lake)] == ["begin", "insert"]


def test_a_table_that_is_called_as_another_one_s_log_stands_still_and_the_log_stays(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    before = log_of(lake)
    named = source.table("d.t__changes", {"id": "INT"}, ["id"])
    named.insert(id=7)
    lake.follow(source)
    lake.start()
    table.insert(id=2)
    lake.follow(source)
    assert log_of(lake)[:-1] == before
    assert_rows(lake.live(table), table.rows)


def test_a_log_that_nobody_writes_any_more_is_nobody_s_trouble(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    path = lake.pipeline.change_log_path(table.name)
    lake = logged(defaults={"targets": ["mirror"]})
    lake.session.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    lake.start()
    table.insert(id=2)
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)


def test_a_batch_of_which_nothing_can_be_applied_is_no_gap(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"])
    table.insert(id=1, v=1)
    lake.follow(source)
    table.insert(id=2, v=7)
    bad = replace(source.log[-1], value=source.log[-1].value.replace(b'"v":7', b'"v":"x"'))
    lake._followed[source] += 1
    lake.replay([bad], quarantine=True)
    lake.start()
    table.insert(id=3, v=3)
    lake.follow(source)
    assert [row["operation"] for row in log_of(lake)] == ["insert", "insert"]


def test_a_table_that_stood_still_and_goes_on_gets_each_change_into_its_log_once(logged):
    lake, source = logged(), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    table.insert(id=2)
    other.insert(id=2)
    real = ChangeLogs._state

    def failing(self, log, *held):
        if log.path.endswith("t__changes"):
            raise ValueError("behind the log's own commit")
        return real(self, log, *held)

    with patch.object(ChangeLogs, "_state", failing):
        for _ in range(2):
            with suppress(ValueError):
                lake.apply(lake.log.ends()) if _ else lake.follow(source)
    assert lake.batches.newest.tables["d.t"].stopped
    lake.failures = Failures()
    lake.start()
    table.insert(id=3)
    lake.follow(source)
    assert_rows(lake.live(table), table.rows)
    assert [row["after"]["id"] for row in log_of(lake)] == [1, 2, 3]


def test_a_table_that_is_called_like_a_log_is_looked_at_where_nobody_has_one(logged):
    source, lake = Source(), logged(defaults={"targets": ["mirror"]})
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    named = source.table("d.t__changes", {"id": "INT"}, ["id"], rows=[{"id": 7}])
    lake.follow(source)
    lake.close()
    shutil.rmtree(lake.pipeline.path(named.name))
    with patch.object(Batches, "ensure_tables"):
        lake.start()
    lake.apply(lake.log.ends())
    assert_rows(lake.live(named), named.rows)
    assert_rows(lake.live(table), table.rows)


def test_a_stranger_s_table_in_a_log_s_place_stops_its_table_alone_and_is_not_touched(logged):
    source, lake = Source(), logged()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    path = lake.pipeline.change_log_path(table.name)
    lake.session.range(3).write.format("delta").save(path)
    for number in (2, 3, 4):
        other.insert(id=number)
        table.insert(id=number)
        with suppress(IngestError):
            lake.follow(source)
        lake.start()
    assert_rows(lake.live(other), other.rows)
    assert DeltaTable(path).version() == 0
    assert DeltaTable(path).count() == 3
