"""Where what Kafka holds is not what was applied, a log that is filled from it holds no row that its table has not, and says where it begins."""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import date
from unittest.mock import patch

import pytest
from pyspark.errors import PySparkException

from ingest.batch.change_logs import ChangeLogs
from ingest.job.stream_failure import is_everybodys
from ingest.lake.delta import own_commits
from ingest.model.epochs import Epoch
from ingest.model.errors import IngestError
from ingest.model.names import RESERVED_COLUMN
from ingest.source.resync import Requests
from ingest.testing import lake as in_memory
from ingest.testing.debezium import Record, compact
from ingest.testing.lake import pipeline_at
from ingest.testing.source import Source
from tests.conformance.targets import Crash
from tests.spark.batch.test_change_log import SOURCE
from tests.spark.batch.test_change_log_filled import FROM_KAFKA, LOGGED, MIRROR
from tests.spark.batch.test_change_log_goes_on import torn
from tests.support.change_log import folded, frozen, log_of


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch):
    monkeypatch.setattr(Requests, "ask", lambda *_: None)


def again(lake, **settings):
    """The next start, with another pipeline file."""
    lake.pipeline = pipeline_at(lake.path, **settings)
    lake.start()


def held(lake, table):
    rows = [row.asDict() for row in lake.live(table).drop(RESERVED_COLUMN).collect()]
    return Counter(map(frozen, rows))


def told(lake, column="id"):
    """What a log says, and of which row."""
    rows = log_of(lake)
    return [(row["operation"], (row["after"] or row["before"] or {}).get(column)) for row in rows]


def dropped(source):
    """DROP TABLE d.t."""
    said = {
        "source": {
            "file": "binlog.000001",
            "pos": source._next().pos,
            "row": 0,
            "snapshot": "false",
        },
        "databaseName": "d",
        "ddl": "DROP TABLE `d`.`t`",
        "tableChanges": [{"type": "DROP", "id": '"d"."t"'}],
    }
    source.log.append(Record(source.name, compact(said)))


@pytest.fixture(params=[pytest.param("known", marks=pytest.mark.long), "filled"])
def first(request):
    """What is said of logs until the fill: they are there, as a control, or they are not."""
    return LOGGED if request.param == "known" else MIRROR


def test_a_drop_behind_which_nothing_came_is_in_it(logged, first):
    source, lake = Source(), logged(defaults=first)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    dropped(source)
    lake.follow(source)
    lake.settle()
    again(lake, defaults=FROM_KAFKA)
    assert folded(log_of(lake), ["id"]) == held(lake, table) == Counter()


def test_rows_that_an_empty_snapshot_did_not_find_are_gone_from_it(logged, first):
    source, lake = Source(), logged(defaults=first)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    table._rows.clear()
    table.snapshot()
    lake.follow(source)
    lake.settle()
    again(lake, defaults=FROM_KAFKA)
    assert folded(log_of(lake), ["id"]) == held(lake, table) == Counter()


def test_of_a_table_without_a_key_that_was_read_again_it_begins_with_that(logged, first):
    source, lake = Source(), logged(defaults=first)
    bag = source.table("d.t", {"n": "INT"}, rows=[{"n": 1}, {"n": 2}])
    bag.insert(n=3)
    bag.delete({"n": 1})
    lake.follow(source)
    bag.snapshot()
    lake.follow(source)
    lake.settle()
    again(lake, defaults=FROM_KAFKA)
    bag.delete({"n": 2})
    lake.follow(source)
    assert folded(log_of(lake)) == held(lake, bag) == Counter(map(frozen, bag.rows))


def test_of_a_table_without_a_key_that_is_read_twice_in_its_first_batch_the_log_begins_with_the_second(
    logged,
):
    source, lake = Source(), logged()
    bag = source.table("d.t", {"n": "INT"}, rows=[{"n": 1}, {"n": 2}])
    bag.insert(n=3)
    bag.delete({"n": 1})
    bag.snapshot()
    lake.follow(source)
    assert told(lake, "n") == [("begin", None), ("read", 2), ("read", 3)]
    assert folded(log_of(lake)) == held(lake, bag)


def test_what_another_server_has_sent_again_is_in_it_once(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    bag = source.table("d.t", {"n": "INT"}, rows=[{"n": 1}])
    lake.epochs = [Epoch(0, "uuid", "first", {})]
    lake.start()
    bag.insert(n=2)
    bag.insert(n=3)
    lake.follow(source)
    resent = source.log[-2]
    value = json.loads(resent.value)
    value["source"]["file"], value["source"]["pos"] = "binlog.000001", 4
    lake.epochs = [*lake.epochs, Epoch(1, "other", "failover", dict(lake.log.ends()))]
    lake.start()
    lake.replay([replace(resent, value=compact(value))])
    again(lake, defaults=FROM_KAFKA)
    assert told(lake, "n") == [("begin", None), ("insert", 2)]


@pytest.mark.parametrize("at_once", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_is_being_read_again_from_the_beginning_is_in_it_once(logged, at_once):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT"}, ["id"])
    for number in range(1, 9):
        table.insert(id=number)
    lake.follow(source)
    if at_once:
        lake.pipeline = pipeline_at(lake.path, defaults=FROM_KAFKA)
    lake.start(from_beginning=True)
    if not at_once:
        lake.apply({(table.topic, 0): 3})
        again(lake, defaults=FROM_KAFKA)
    lake.apply(lake.log.ends())
    table.insert(id=9)
    lake.follow(source)
    assert told(lake) == [("insert", number) for number in range(1, 10)]


@pytest.mark.parametrize("since", ["as then", pytest.param("no more", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["drop_table", "truncate"])
def test_behind_what_a_policy_ignores_it_begins(logged, kind, since):
    ignore = {"tables": {"d.t": {"ddl": {kind: "ignore"}}}}
    source, lake = Source(), logged(defaults=MIRROR, **ignore)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    if kind == "drop_table":
        dropped(source)
        table = source.table("d.t", {"id": "INT"}, ["id"])
        streamed = source.log[-1].value.replace(b'"snapshot":"true"', b'"snapshot":"false"')
        source.log[-1] = replace(source.log[-1], value=streamed)
    else:
        table.truncate()
    table.insert(id=3)
    lake.follow(source)
    lake.settle()
    again(lake, defaults=FROM_KAFKA, **(ignore if since == "as then" else {}))
    assert told(lake) == [("begin", None), ("insert", 3)]
    assert held(lake, table) == Counter({frozen({"id": 1}): 1, frozen({"id": 3}): 1})


def test_what_waited_in_a_topic_that_is_gone_hides_nothing_of_the_new_one(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT", "d": "DATE NOT NULL"}, ["id"])
    table.insert(id=1, d=date(1970, 1, 1))
    lake.follow(source, quarantine=True)
    facts = in_memory.KafkaFacts
    new_id = patch.object(type(lake.log), "topic_ids", lambda _, names: dict.fromkeys(names, "new"))
    with new_id, patch.object(in_memory, "KafkaFacts", lambda a, b, _: facts(a, b, "new")):
        lake.log._records.clear()
        table.insert(id=5, d=date(2020, 1, 1))
        lake.log.add(source.log[-1])
        lake._followed[source] += 1
        lake.start()
        lake.apply(lake.log.ends())
        again(lake, defaults=FROM_KAFKA)
    assert told(lake) == [("begin", None), ("insert", 5)]


def test_of_a_table_without_a_key_what_waits_comes_once_when_it_is_taken_in(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    rows = [{"n": 1, "d": date(2020, 1, 1)}]
    bag = source.table("d.t", {"n": "INT", "d": "DATE NOT NULL"}, rows=rows)
    bag.insert(n=2, d=date(1970, 1, 1))
    lake.follow(source, quarantine=True)
    again(lake, defaults=FROM_KAFKA, source={**SOURCE, "epoch_dates": "keep"})
    assert told(lake, "n") == [("read", 1)]
    lake.batches.replay()
    assert folded(log_of(lake)) == held(lake, bag) == Counter(map(frozen, bag.rows))


def test_a_table_of_which_all_waits_leaves_its_log_empty_and_says_nothing(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT", "d": "DATE NOT NULL"}, ["id"])
    table.insert(id=1, d=date(1970, 1, 1))
    lake.follow(source, quarantine=True)
    again(lake, defaults=FROM_KAFKA)
    assert not [said for said in lake.said if "change log" in said]
    assert lake.batches.newest.kind != "fill"


def test_behind_what_can_be_read_no_more_it_begins(logged):
    source, lake = Source(), logged(source={**SOURCE, "epoch_dates": "keep"}, defaults=MIRROR)
    table = source.table("d.t", {"id": "INT", "d": "DATE NOT NULL"}, ["id"])
    table.insert(id=1, d=date(2020, 1, 1))
    table.update(1, d=date(1970, 1, 1))
    table.insert(id=2, d=date(2020, 1, 1))
    lake.follow(source)
    again(lake, defaults=FROM_KAFKA)
    assert told(lake) == [("begin", None), ("insert", 2)]


def test_what_can_be_read_no_more_moves_no_later_beginning_back(logged):
    """An ignored TRUNCATE stands behind it, of which the rows stayed: the log begins there, and not with what came in between."""
    ignore = {"tables": {"d.t": {"ddl": {"truncate": "ignore"}}}}
    source, lake = Source(), logged(defaults=MIRROR, **ignore)
    table = source.table("d.t", {"id": "INT"}, ["id"])
    table.insert(id=1)
    table.insert(id=2)
    lake.follow(source)
    table.truncate()
    table.insert(id=3)
    lake.follow(source)
    lake.settle()
    of_table = lake.log._records[table.topic, 0]
    of_table[0] = replace(of_table[0], value=of_table[0].value.replace(b'"op":"c"', b'"op":"?"'))
    again(lake, defaults=FROM_KAFKA, **ignore)
    assert told(lake) == [("begin", None), ("insert", 3)]


@pytest.mark.parametrize("logs", [pytest.param(LOGGED, marks=pytest.mark.long), MIRROR])
def test_a_change_of_which_the_row_of_before_was_absent_is_in_it(logged, logs):
    """It is set aside to be told of; what came of it is in the table. A log that was there all along holds it, too."""
    source, lake = Source(), logged(defaults=logs)
    bag = source.table("d.t", {"n": "INT"}, rows=[{"n": 1}])
    bag.insert(n=2)
    source.log.pop()
    bag.update({"n": 2}, n=3)
    lake.follow(source, quarantine=True)
    assert lake.quarantined().count() == 1
    again(lake, defaults=FROM_KAFKA)
    assert told(lake, "n") == [("read", 1), ("update", 3)]
    assert held(lake, bag) == Counter(map(frozen, bag.rows))


def test_a_partition_that_kafka_has_lost_whole_leaves_a_mark(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT"}, ["id"])
    for number in range(1, 5):
        table.insert(id=number)
    source.log[1:] = [replace(one, partition=n % 2) for n, one in enumerate(source.log[1:])]
    lake.follow(source)
    lake.log.lost = {(table.topic, 1): lake.log.ends()[table.topic, 1]}
    again(lake, defaults=FROM_KAFKA)
    assert told(lake) == [("insert", 1), ("insert", 3), ("begin", None)], "4 is lost, too"


def test_behind_what_kafka_has_lost_in_between_it_begins_once_more(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    for number in range(2, 7):
        table.insert(id=number)
    lake.follow(source)
    del lake.log._records[table.topic, 0][3:]
    lake.start()
    table.insert(id=7)
    lake.follow(source)
    again(lake, defaults=FROM_KAFKA)
    assert told(lake) == [("read", 1), ("insert", 2), ("insert", 3), ("begin", None), ("insert", 7)]


def test_one_whose_commits_say_nothing_any_more_is_not_filled_again(logged):
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake = logged(defaults=FROM_KAFKA)
    lake.follow(source)
    with patch.object(own_commits, "log_held", return_value=None):
        lake.start()
    assert told(lake) == [("read", 1)]
    assert table.rows


@pytest.mark.parametrize("lost", [pytest.param("records", marks=pytest.mark.long), "the topic"])
def test_a_fill_that_was_torn_ends_though_kafka_has_its_records_no_more(logged, lost):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    table.insert(id=2)
    lake.follow(source)
    with suppress(Crash), torn("log_committed"):
        again(lake, defaults=FROM_KAFKA)
    if lost == "records":
        lake.log.lost = {(table.topic, 0): 2}
    else:
        lake.log._records[table.topic, 0].clear()
    with patch.object(ChangeLogs, "append", side_effect=ValueError("it is all there")):
        lake.start()
    assert lake.batches.newest.tables["d.t"].log is not None
    assert told(lake) == [("read", 1), ("insert", 2)]


def test_what_may_be_everybody_s_holds_the_others_once(logged):
    source, lake = Source(), logged(defaults=MIRROR)
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    other = source.table("d.u", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    read = type(lake.log).read

    def fails(self, ranges):
        if any(topic == table.topic and a < b for (topic, _), (a, b) in ranges.items()):
            raise PySparkException("org.apache.kafka.clients.consumer.OffsetOutOfRangeException")
        return read(self, ranges)

    lake.failures.is_everybodys = is_everybodys
    with patch.object(type(lake.log), "read", fails):
        with pytest.raises(PySparkException):
            again(lake, defaults=FROM_KAFKA)
        lake.start()
        assert "its change log" in lake.batches.newest.tables["d.t"].stopped
        other.insert(id=2)
        lake.follow(source)
    assert held(lake, other) == Counter(map(frozen, other.rows))


def test_it_needs_changes_that_are_known_by_their_position(tmp_path):
    with pytest.raises(IngestError, match="dedup: {by: position}"):
        pipeline_at(tmp_path, defaults=FROM_KAFKA, dedup={"by": "watermark"})
