"""A table with a column that has no exact place in the lake is set aside; the others go on."""

from collections import Counter
from unittest.mock import patch

from ingest.model.position import Position
from ingest.model.specification import row
from ingest.model.start_facts import KafkaFacts
from ingest.source.resync import Requests
from ingest.start import gather_facts
from ingest.start.start_decision import Start, decide
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import SNAPSHOT, change, delete, insert, read, update
from tests.conformance.targets import SparkTarget

VECTOR = {"name": "e", "typeName": "VECTOR", "length": 3, "optional": True}


def schema(table, pos, *columns, kind="ALTER", snapshot="false"):
    """A record of the schema-change topic, as Debezium writes one."""
    every = [
        {"name": "id", "typeName": "INT", "optional": False},
        {"name": "v", "typeName": "VARCHAR", "length": 9, "optional": True},
        *columns,
    ]
    return {
        "source": {"file": "binlog.000001", "pos": pos, "row": 0, "snapshot": snapshot},
        "ddl": f"ALTER TABLE {table} …",
        "databaseName": "d",
        "tableChanges": [
            {
                "type": kind,
                "id": f'"d"."{table}"',
                "table": {"columns": every, "primaryKeyColumnNames": ["id"]},
            }
        ],
    }


class World:
    """Two tables; what becomes of the first is told in its schema records."""

    def __init__(self, spark, folder, records, changes, *, tables=("d.*",), known=True):
        histories = [
            History(True, 1, snapshots=[SNAPSHOT], records=[[Record(each) for each in changes]]),
            History(True, 1, snapshots=[SNAPSHOT], records=[[Record(insert(10, 1, "other"))]]),
        ]
        source = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": list(tables)}
        self.target = SparkTarget(spark, folder, *histories, source=source)
        log = self.target.log
        if not known:
            del log.catalog.versions[next(iter(sorted(log.catalog.versions)))]
        for record in records:
            log.catalog.add(record, 0, log.offset)
            log.offset += 1
        self.target.start()
        self.asked, self.said = [], []

    def take(self, *ends):
        for end in ends:
            requests = self.target.batches._again.requests
            requests.say = self.said.append
            with patch.object(Requests, "ask", lambda _, tables: self.asked.append(tables)):
                self.target.take({0: [end], 1: [1]})

    @property
    def gaps(self):
        return [g for g in self.target.batches.newest.gaps if g.is_open]

    def others_go_on(self):
        assert self.target.content(1) == Counter({row(id=1, v="other"): 1})


def test_a_new_table_that_cannot_be_read_is_named_and_nothing_of_it_is_kept(spark, tmp_path):
    made = schema("t0", 5, VECTOR, kind="CREATE", snapshot="true")
    world = World(spark, tmp_path, [made], [read(5, 1, "a"), insert(20, 2, "b")], known=False)
    world.take(1, 2)
    world.others_go_on()
    assert not world.target.content(0)
    (gap,) = world.gaps
    assert (gap.table, gap.position) == ("d.t0", Position(0, 1, 5, 0, 1))
    assert "column 'e' has the type VECTOR" in gap.reason
    assert "set aside, the others go on" in world.said[0]
    assert not any(world.asked), "to take it again would help nothing"
    assert world.target.batches.newest.resent == 0
    world.target.start()
    world.take(2)
    assert len(world.gaps) == 1
    world.target.remove()


def test_what_kafka_loses_of_a_table_that_has_no_row_yet_is_a_gap_of_that_table(spark, tmp_path):
    made = schema("t0", 5, VECTOR, kind="CREATE", snapshot="true")
    world = World(spark, tmp_path, [made], [read(5, 1, "a"), insert(20, 2, "b")], known=False)
    world.take(1)
    target = world.target
    kafka = {(f"h.d.t{n}", 0): KafkaFacts(earliest, 9, "id") for n, earliest in ((0, 5), (1, 0))}
    catalog = target.batches.definitions.streamed()
    start = decide(gather_facts.gather(spark, target.pipeline, kafka, catalog=catalog))
    assert isinstance(start, Start)
    assert start.entry.gaps[-1].table == "d.t0"
    target.batches.rewind(start.entry)
    with patch.object(Requests, "ask", lambda _, tables: world.asked.append(tables)):
        target.batches.ask_again()
    assert not any(world.asked), "set aside: to take it again would help nothing yet"
    target.remove()


def test_one_that_the_pipeline_file_excludes_is_passed_over_though_it_stands_in_kafka(
    spark, tmp_path
):
    made = schema("t0", 5, VECTOR, kind="CREATE", snapshot="true")
    tables = ("d.*", "!d.t0")
    changes = [read(5, 1, "a"), insert(20, 2, "b")]
    world = World(spark, tmp_path, [made], changes, tables=tables, known=False)
    world.take(2)
    world.others_go_on()
    assert not world.gaps
    assert not any(world.asked)
    world.target.remove()


def test_a_table_keeps_what_it_had_and_is_taken_again_once_the_column_is_gone(spark, tmp_path):
    changes = [
        insert(10, 1, "a"),
        update(30, 1, "a", "unread"),
        insert(31, 2, "unread"),
        change("delete", 50, (2, "unread")),
        insert(51, 3, "c"),
        delete(52, 1, "unread"),
    ]
    records = [schema("t0", 20, VECTOR), schema("t0", 40)]
    world = World(spark, tmp_path, records[:1], changes)
    world.take(1, 3)
    world.others_go_on()
    assert world.target.content(0) == Counter({row(id=1, v="a"): 1})
    (gap,) = world.gaps
    assert not any(world.asked)
    log = world.target.log
    log.catalog.add(records[1], 0, log.offset)
    log.offset += 1
    world.take(5)
    assert world.target.content(0) == Counter({row(id=1, v="a"): 1, row(id=3, v="c"): 1})
    assert world.asked[-1] == ["d.t0"]
    assert [one.reason for one in world.gaps] == [gap.reason]
    world.target.remove()


def test_both_sides_of_such_a_time_in_one_batch(spark, tmp_path):
    changes = [insert(10, 1, "a"), insert(30, 2, "unread"), insert(50, 3, "c")]
    world = World(spark, tmp_path, [schema("t0", 20, VECTOR), schema("t0", 40)], changes)
    world.take(3)
    assert world.target.content(0) == Counter({row(id=1, v="a"): 1, row(id=3, v="c"): 1})
    assert [gap.table for gap in world.gaps] == ["d.t0"]
    assert world.asked[-1] == ["d.t0"]
    world.target.remove()
