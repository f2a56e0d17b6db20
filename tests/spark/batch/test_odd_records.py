"""One odd record among many: it and few others go to Spark's columns, all else stays on its lane, and the lake is the source's."""

from collections import Counter
from dataclasses import replace

import pytest

from ingest.batch import odd_records
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

LANES = {
    "driver": ({"lane": "driver"}, "driver"),
    "tasks": ({"lane": "spark"}, "tasks"),
    "tasks, rows kept in Spark": ({"lane": "spark", "merge_engine": "spark"}, "tasks"),
}
FEW = 4


NEARLY = {"tasks": pytest.mark.long}
"""What rows kept in Spark show as well: the same tasks read them."""


@pytest.fixture(
    params=[pytest.param(one, id=n, marks=NEARLY.get(n, ())) for n, one in LANES.items()]
)
def lane(spark, tmp_path, request, monkeypatch):
    monkeypatch.setattr(odd_records, "FEW", FEW)
    settings, name = request.param
    lake = Lake(spark, tmp_path / "lake", spark=settings)
    yield lake, name
    lake.close()


def filled(many=40):
    source = Source()
    table = source.table("d.t", {"id": "INT", "v": "VARCHAR(20)"}, ["id"])
    other = source.table("d.other", {"id": "INT"}, ["id"])
    for number in range(many):
        if number < 17:
            table.insert(id=number, v="new")
        else:
            table.update(number % 17, v=f"{number}")
        other.insert(id=number)
    return source, table, other


def read(lake):
    found = Counter()
    for one in lake.seen:
        found.update(one.entry.lanes)
    return found


def spoilt(source, topic, numbers, spoil):
    """The source's records, those of a topic with these numbers as ``spoil`` has them."""
    seen, found = -1, []
    for record in source.log:
        seen += record.topic == topic
        found.append(spoil(record) if record.topic == topic and seen in numbers else record)
    return found


def spelled(record):
    """The same change, not as Debezium writes it. Spark's columns read it."""
    return replace(record, value=b"\n" + record.value)


def unreadable(record):
    return replace(record, value=b"no JSON")


@pytest.mark.parametrize(
    "at", [pytest.param(0, marks=pytest.mark.long), 20, pytest.param(39, marks=pytest.mark.long)]
)
def test_only_few_records_beside_an_odd_one_are_read_by_spark_s_columns(lane, at):
    lake, name = lane
    source, table, other = filled()
    lake.replay(spoilt(source, "p.d.t", {at}, spelled))
    assert_rows(lake.table(table), table.rows)
    assert_rows(lake.table(other), other.rows)
    assert 1 <= read(lake)["columns"] <= FEW
    assert read(lake)[name] == 80 - read(lake)["columns"]


def test_a_topic_of_odd_records_alone_is_read_by_columns_in_few_batches(lane):
    lake, name = lane
    source, table, _ = filled()
    lake.replay(spoilt(source, "p.d.t", set(range(40)), spelled))
    assert_rows(lake.table(table), table.rows)
    assert read(lake) == {"columns": 40, name: 40}
    assert len(lake.seen) <= 5


def test_while_a_key_waits_in_quarantine_only_its_own_changes_leave_the_lane(lane):
    lake, name = lane
    source, table, _ = filled(17)
    broken = spoilt(source, "p.d.t", {5}, unreadable)
    lake.replay(broken, quarantine=True)
    waits, begun = [one for one in table.rows if one["id"] != 5], len(lake.seen)
    assert_rows(lake.table(table), waits)
    before = len(source.log)
    for number in range(30):
        table.update(number % 4, v=f"{number}")
    table.update(5, v="behind")
    for number in range(30):
        table.update(6 + number % 4, v=f"{number}")
    lake.replay(source.log[before:], quarantine=True)
    found = Counter()
    for one in lake.seen[begun:]:
        found.update(one.entry.lanes)
    assert 1 <= found["columns"] <= FEW
    assert found[name] == 61 - found["columns"]
    assert_rows(lake.table(table), [one for one in table.rows if one["id"] != 5])
    assert lake.quarantined().count() == 2


def test_what_was_sent_again_in_the_middle_takes_only_few_along(lane):
    lake, _ = lane
    source, table, _ = filled()
    log, mine = list(source.log), [one for one in source.log if one.topic == "p.d.t"]
    at = log.index(mine[20]) + 1
    lake.replay([*log[:at], *mine[18:21], *log[at:]])
    assert_rows(lake.table(table), table.rows)
    assert sum(one.entry.resent for one in lake.seen) == 3
    assert read(lake)["columns"] <= 2 * FEW
    assert sum(read(lake).values()) == 80


def test_rows_that_stay_in_spark_were_read_in_a_range_that_ends_where_the_batch_does(
    spark, tmp_path, monkeypatch
):
    """Where an odd record is found to be may hang on what Kafka gave when; of a share that is read twice Spark may use either."""
    monkeypatch.setattr(odd_records, "FEW", FEW)
    settings = {"lane": "spark", "merge_engine": "spark"}
    lake, asked = Lake(spark, tmp_path / "lake", spark=settings), []
    source_of = lake.log.source

    def noted(ranges, keyed=()):
        asked.append(dict(ranges))
        return source_of(ranges, keyed)

    monkeypatch.setattr(lake.log, "source", noted)
    source, table, _ = filled()
    lake.replay(spoilt(source, "p.d.t", {20}, spelled))
    first = lake.seen[0].entry
    assert first.ends["p.d.t", 0] == 20
    assert [one["p.d.t", 0] for one in asked[:2]] == [(0, 40), (0, 20)]
    assert_rows(lake.table(table), table.rows)
    lake.close()
