"""A record reader is a file and a line: three of them, made here, read a batch one after the other."""

from types import SimpleNamespace

import pytest

from ingest.batch import readers
from ingest.batch.readers import Reader
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest, SparkRecords
from ingest.batch.stage_times import Stopwatch
from ingest.changes.batch_facts import Counts
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.steps import TableFacts

AT = Position(0, 1, 9)
RANGES = {("a", 0): (0, 4), ("b", 0): (2, 5), ("c", 0): (1, 2), ("quiet", 0): (7, 7)}


class Log:
    """Records are said by their ranges."""

    def __init__(self):
        self.asked = []

    def read(self, ranges):
        self.asked.append(dict(ranges))
        return f"records of {sorted(topic for topic, _ in ranges)}"


def facts(topics):
    return {TableId("d", one): TableFacts.nothing(TableId("d", one), AT, AT) for one in topics}


def reading(*mine, tries=True):
    """Begins a reader of these topics. ``tries``: False for one that does not try to."""

    class Toy:
        def __init__(self, job):
            self.job, self.seen, self.released = job, [], 0

        def read(self, request, watch):
            self.seen.append((dict(request.note.ranges), request.spark.read))
            topics = sorted(request.topics & {*mine})
            left = dict.fromkeys(request.topics - {*mine}, f"not {mine}")
            watch.done("read")
            counts = Counts(len(topics), passed_over=1, waiting={(one, 0): 9 for one in topics})
            rows = dict.fromkeys(facts(topics), f"by {mine}")
            found = Reading(facts(topics), counts, rows, ties=[*topics])
            return (found if tries else None), left

        def release(self):
            self.released += 1

    return Toy


@pytest.fixture
def begin(monkeypatch):
    def begun(*toys):
        monkeypatch.setattr(readers, "READERS", toys)
        log = Log()
        return Reader(ReaderJob(None, SimpleNamespace(), log, None, (), None, collects=True)), log

    return begun


def request(log, ranges=RANGES):
    return ReadRequest(Note(1, "c", ranges=ranges), Catalog(), {}, SparkRecords(log.read), None)


def test_each_reader_is_asked_for_what_those_before_it_have_left_and_all_of_it_is_joined(begin):
    reader, log = begin(reading("a"), reading("b"), reading("a", "b", "c"))
    read = reader.read(request(log), Stopwatch())
    first, second, third = (one.seen for one in reader._readers)
    assert first == [(RANGES, log.read)]
    assert second == [({place: RANGES[place] for place in (("b", 0), ("c", 0))}, log.read)]
    assert third == [({("c", 0): (1, 2)}, log.read)]
    assert log.asked == []
    assert list(read.facts) == [TableId("d", one) for one in "abc"]
    assert [read.rows[TableId("d", one)] for one in "abc"] == ["by ('a',)", "by ('b',)", "by ('a', 'b', 'c')"]  # fmt: skip
    assert read.counts == Counts(3, 3, 0, {(one, 0): 9 for one in "abc"})
    assert (read.ties, read.left) == (("a", "b", "c"), {"c": "not ('b',)"})


def test_what_one_reader_reads_whole_nobody_else_is_asked_for(begin):
    reader, log = begin(reading("a", "b", "c"), reading())
    read = reader.read(request(log), Stopwatch())
    assert (len(read.facts), read.left, log.asked) == (3, {}, [])
    assert reader._readers[1].seen == []


def test_where_a_reader_has_read_nothing_the_next_one_is_asked_for_all_of_it(begin):
    for one in (reading(), reading(tries=False)):
        reader, log = begin(one, reading("a", "b", "c"))
        read = reader.read(request(log), Stopwatch())
        assert reader._readers[1].seen == [(RANGES, log.read)]
        assert (log.asked, set(read.left)) == ([], {"a", "b", "c"})


def test_a_batch_without_records_is_read_by_whoever_tries(begin):
    reader, log = begin(reading(tries=False), reading())
    read = reader.read(request(log, {}), Stopwatch())
    assert len(reader._readers[1].seen) == 1
    assert (read.facts, read.left) == ({}, {})


def test_every_reader_is_told_that_a_batch_is_over(begin):
    reader, _ = begin(reading("a", "b", "c"), reading())
    reader.release()
    assert [one.released for one in reader._readers] == [1, 1]
