"""Numbers of transactions (GTIDs) compare within one tag of one server: across logs they say what was applied."""

import json
from dataclasses import replace

import pytest

from ingest.changes import batch_facts, dedup, envelope
from ingest.kafka.record_stream import SCHEMA
from ingest.model.errors import IngestError
from ingest.model.manifest import HighWater
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.testing.debezium import compact
from ingest.testing.source import Source
from tests.support.events import message
from tests.support.mutants import Mutant

T = TableId("d", "t")
MARK = HighWater(0, Position(0, 7, 99), "uuid:app:2")


@pytest.mark.parametrize(
    ("gtid", "passed", "torn"),
    [
        ("uuid:app:1", True, False),
        ("uuid:app:2", True, True),
        ("uuid:app:3", False, False),
        ("uuid:1", False, True),
        ("uuid:1000", False, True),
        ("uuid:other:1", False, True),
        ("other:app:2", False, False),
        ("other:2", False, False),
        (None, False, False),
    ],
)
def test_in_a_new_epoch_numbers_compare_within_one_tag_of_one_server(spark, gtid, passed, torn):
    one = message("c", 10, after={"id": 1}, key={"id": 1}, gtid=gtid)
    place = (
        "named_struct('epoch', 1, 'file', position.file, 'pos', position.pos, 'row', position.row, "
    )
    moved = envelope.changes(spark.createDataFrame([one], SCHEMA)).selectExpr(
        "* except (position)", f"{place} 'part', position.part) AS position"
    )
    (found,) = dedup.marked(moved, {("p.d.t", 0): MARK}, {}).collect()
    assert (found.passed_over is not None, found.torn) == (passed, torn)
    _, counts = batch_facts.gather(dedup.marked(moved, {("p.d.t", 0): MARK}, {}))
    assert counts.torn == ({T: Position(1, 1, 10, 0, 1)} if torn else {})


def test_in_the_same_log_a_tag_s_own_numbers_tell_a_regression(spark):
    rows = [
        message("c", 10, after={"id": 1}, key={"id": 1}, gtid=gtid, offset=offset)
        for offset, gtid in enumerate(["uuid:app:2", "uuid:app:3", "uuid:9"])
    ]
    changes = envelope.changes(spark.createDataFrame(rows, SCHEMA))
    marked = dedup.marked(changes, {("p.d.t", 0): MARK}, {})
    assert [one.regressed for one in marked.orderBy("offset").collect()] == [False, True, False]
    assert not marked.filter("torn").count(), "it is one log: positions say it all"


def sent_by(source, server, count, file=None):
    """The last records of a source, as if their transactions were of another server, and stood in its log."""
    sent = list[bytes]()
    for number, record in enumerate(source.log[-count:], 1):
        value = json.loads(record.value)
        value["source"]["gtid"] = f"{server}:{number}"
        value["source"]["file"] = file or value["source"]["file"]
        sent.append(compact(value))
    source.log[-count:] = [
        replace(record, value=value)
        for record, value in zip(source.log[-count:], sent, strict=True)
    ]


def test_a_server_that_took_over_without_our_knowing_is_refused(reopened):
    """Its files count from where they like: by position its changes look like ones that were sent again."""
    source, lake = Source(), reopened()
    source.rotate()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    table.update(1, v=2)
    lake.follow(source)
    table.update(1, v=3)
    sent_by(source, "other", 1, "binlog.000001")
    with pytest.raises(IngestError, match="E-SOURCE-REGRESSION"):
        lake.follow(source)


@pytest.mark.parametrize("reader", [{}, {"merge_engine": "spark"}], ids=["in the driver", "Spark"])
def test_what_comes_again_of_a_log_of_several_servers_is_not_refused(reopened, reader):
    source, lake = Source(), reopened(spark=reader)
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 1}])
    lake.follow(source)
    for value in range(2, 5):
        table.update(1, v=value)
        if value % 2 == 0:
            sent_by(source, "other", 1)
    lake.follow(source)
    lake.start()
    (report,) = lake.replay(source.log[-3:])
    assert report.entry.resent == 3
    table.update(1, v=9)
    lake.follow(source)
    assert [row.v for row in lake.table(table).collect()] == [9]


def before_the_tag(gtid):
    """A GTID's numbering as it was read before servers had tags."""
    return (gtid.partition(":")[0], int(gtid.rpartition(":")[2])) if gtid else None


MUTANTS = [
    Mutant(
        "a tag is part of the number",
        dedup,
        "numbered",
        lambda _: before_the_tag,
        lambda spark: test_in_a_new_epoch_numbers_compare_within_one_tag_of_one_server(
            spark, "uuid:app:1", True, False
        ),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant_is_killed(spark, mutant):
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by(spark)
