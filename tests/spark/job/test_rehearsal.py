"""Spark's reading is rehearsed on records that were applied, and nothing comes of it."""

import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.job import rehearsal
from ingest.job.rehearsal import Rehearsal, newest_records
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.manifest import HighWater
from ingest.model.position import Position
from ingest.testing.lake import Lake
from ingest.testing.source import Source
from tests.support.sound_start import entry

QUIET, BUSY, NEW = (("p.d.quiet", 0), ("p.d.busy", 0), ("p.d.new", 0))


@pytest.fixture
def lake(spark, tmp_path):
    found, source = Lake(spark, tmp_path / "lake"), Source()
    table = source.table("d.one", {"id": "INT", "v": "VARCHAR(20)"}, key=["id"])
    for key in range(30):
        table.insert(id=key, v="a")
    found.follow(source)
    yield found
    found.close()


def held(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def begun(lake):
    def records(session, ranges):
        log = copy(lake.log)
        log.session = session
        return log.read(ranges)

    made = Rehearsal(lake.log.session, lake.pipeline, lake.log, records, (), Committer(1))
    newest = lake.batches.newest
    note = replace(lake.batches.note(), ranges=newest_records(newest))
    return made, lake.batches.definitions.in_force(note, newest)


def noting(identified, sessions):
    def noted(table, *identity):
        sessions.append(table.session)
        return identified(table, *identity)

    return noted


def test_what_was_applied_is_read_by_spark_once_more_and_leaves_nothing(lake, monkeypatch):
    made, seen = begun(lake)
    before, newest = held(lake.path), lake.batches.newest
    identities = []
    monkeypatch.setattr(SparkTable, "identified", noting(SparkTable.identified, identities))
    with ThreadPoolExecutor(1) as pool:
        assert made.read(seen, pool) == 20
    assert held(lake.path) == before
    assert lake.batches.newest == newest
    (session,) = identities
    assert session is not lake.log.session, "in which batches commit"


def test_it_is_due_once_after_a_while_and_a_failure_of_it_is_nobody_s(lake, monkeypatch):
    made, seen = begun(lake)
    assert not made.is_due(idle=True)
    monkeypatch.setattr(rehearsal, "AFTER", 0)
    assert made.is_due(idle=True)
    assert not made.is_due(idle=False), "while one batch follows the other it may wait"
    made.begin(replace(seen, note=replace(seen.note, ranges={("p.d.nobody", 0): (0, 9)})))
    assert not made.is_due(idle=True)
    until = time.monotonic() + 60
    while made._thread.is_alive() and time.monotonic() < until:
        time.sleep(0.1)
    assert not made._thread.is_alive()
    made.close()


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({QUIET: 9, BUSY: 90, NEW: 900}, {BUSY: (70, 90)}),
        ({QUIET: 9, NEW: 900}, {QUIET: (0, 9)}),
        ({NEW: 900}, {}),
        ({}, {}),
    ],
)
def test_the_newest_records_are_those_of_the_longest_topic_with_changes(ends, found):
    at = Position(0, 1, 7)
    marks = {QUIET: HighWater(9, at), BUSY: HighWater(90, at), NEW: HighWater(900)}
    offsets = {place: (0, end) for place, end in ends.items()}
    high_water = {place: mark for place, mark in marks.items() if place in ends}
    assert newest_records(entry(high_water=high_water, offsets=offsets)) == found
