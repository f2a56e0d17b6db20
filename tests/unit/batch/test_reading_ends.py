"""A reader that has enough ends a part: what has come of every partition is in it, and one of which all has come is not cut."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from ingest.arrow.json_columns import Layout
from ingest.arrow.layouts import Layouts
from ingest.arrow.pieces import Before
from ingest.batch import arrow_reader
from ingest.batch.odd_records import OddRecords
from ingest.batch.plain_request import PlainRequest
from ingest.changes.row_images import RowSchema
from ingest.kafka import fetch
from ingest.kafka.fetch import Fetcher
from ingest.schema.catalog import Catalog
from ingest.testing.source import Source

FLOOD, QUIET = ("p.d.flood", 0), ("p.d.quiet", 0)
POOL = ThreadPoolExecutor(1)


def message(place, offset, value):
    said = {"topic": place[0], "partition": place[1], "offset": offset, "value": value}
    return SimpleNamespace(**{name: lambda one=one: one for name, one in {**said, "error": None, "headers": None}.items()})  # fmt: skip


class Kafka:
    """As librdkafka brings records: each in a transaction of its own, so that a marker stands behind each. ``speeds``: of each
    partition how many come at a time.
    """

    def __init__(self, values, speeds):
        self.values, self.speeds = values, speeds
        self.ends = {place: 2 * len(held) for place, held in values.items()}
        self.at, self.paused = {}, set()

    def assign(self, places):
        self.at = {(one.topic, one.partition): one.offset for one in places}
        self.paused = set()

    def consume(self, _, timeout):
        found = []
        for place in sorted(self.at.keys() - self.paused):
            for _ in range(self.speeds[place]):
                record = (self.at[place] + 1) // 2  # they have the even offsets
                if record < len(self.values[place]):
                    found.append(message(place, 2 * record, self.values[place][record]))
                self.at[place] = min(2 * record + 2, self.ends[place])
        return found

    def position(self, places):
        return [TopicPartition(*key(one), self.at[key(one)]) for one in places]

    def pause(self, places):
        self.paused |= {key(one) for one in places}

    def resume(self, _):
        """All are assigned anew with the next range."""

    def unassign(self):
        """The same."""

    def bring(self, ranges, enough=None, keyed=()):
        fetcher = Fetcher({})
        fetcher._consumer = self
        return fetcher.records(ranges, enough, keyed)


def key(one):
    return one.topic, one.partition


@pytest.fixture(scope="module")
def values():
    source = Source()
    columns = {"id": "INT", "v": "TEXT"}
    flood, quiet = (source.table(name, columns, ["id"]) for name in ("d.flood", "d.quiet"))
    for number in range(200):
        flood.insert(id=number, v="x" * 1_000)
        quiet.insert(id=number, v="y")
    return source.log


def layout_of(version):
    layout = Layout(version, RowSchema.of(version.columns, version.key))
    return Before(Layouts([version.position], [layout]), None, {})


def read(log, kafka, ranges, most):
    catalog = Catalog()
    for record in log:
        if record.topic == "p":
            catalog.add(json.loads(record.value), 0, 0)
    befores = {f"p.{one.table}": layout_of(one) for one in catalog.current()}
    asked = PlainRequest(1, ranges, befores, {}, OddRecords(), most)
    found, others = arrow_reader.read(kafka, asked, (), POOL)
    assert not others
    return found


def of(log, place, many):
    return [record.value for record in log if record.topic == place[0]][:many]


def test_a_partition_of_which_all_records_have_come_is_not_cut_before_its_last_marker(
    values, monkeypatch
):
    """Else no table would ever be at its end beside a flood of large rows, and nobody would be taken to wait."""
    monkeypatch.setattr(fetch, "_RECORDS_AT_ONCE", 10)
    held = {FLOOD: of(values, FLOOD, 200), QUIET: of(values, QUIET, 4)}
    kafka = Kafka(held, {FLOOD: 5, QUIET: 5})
    found = read(values, kafka, {FLOOD: (0, 400), QUIET: (0, 8)}, most=30_000)
    assert found.cut.keys() == {FLOOD}
    marker = read(values, kafka, {FLOOD: (0, 400), QUIET: (7, 8)}, most=30_000)
    assert marker.cut.keys() == {FLOOD}, "nor one of whose range only a marker is left"


def test_a_partition_that_comes_slower_than_another_is_brought_on_its_way_all_the_same(
    values, monkeypatch
):
    """Thrown away with each part, what has come of it would never be enough to be handed over."""
    monkeypatch.setattr(fetch, "_RECORDS_AT_ONCE", 100)
    held = {FLOOD: of(values, FLOOD, 200), QUIET: of(values, QUIET, 200)}
    kafka = Kafka(held, {FLOOD: 20, QUIET: 3})
    found = read(values, kafka, {FLOOD: (0, 400), QUIET: (0, 400)}, most=50_000)
    assert found.cut[FLOOD] < 400
    assert 0 < found.cut[QUIET] < 400
    taken = {table.name: one.changes for table, one in found.facts.items()}
    assert taken == {"flood": found.cut[FLOOD] // 2 + 1, "quiet": found.cut[QUIET] // 2 + 1}
