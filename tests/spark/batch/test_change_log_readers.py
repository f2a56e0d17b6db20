"""Who reads a change log as a stream: which options it takes, and what it meets (docs/operations.md has the table)."""

from contextlib import contextmanager

import pytest
from pyspark.errors import StreamingQueryException

from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.maintenance.compaction import compact, files
from ingest.maintenance.file_layout import Rewrite
from ingest.testing.source import Source
from tests.support.change_log import in_order


@pytest.fixture
def lake(logged):
    return logged()


@pytest.fixture
def begun(lake, tmp_path):
    """A source, its table as the snapshot found it, and a reader of its log that has seen nothing."""
    source = Source()
    table = table_of(source)
    lake.follow(source)
    return source, table, Reader(lake, table, tmp_path)


class Reader:
    """A stream over a log, with a checkpoint of its own, that notes what it has seen. ``options``: of the reading."""

    def __init__(self, lake, table, folder, **options):
        self.session, self.folder, self.options = lake.session, folder, options
        self.path = lake.pipeline.change_log_path(table.name)
        self.rows = []

    @contextmanager
    def streaming(self, **trigger):
        """The query, as long as it runs."""
        stream = self.session.readStream.format("delta").options(**self.options)

        def take(rows, _):
            self.rows += [row.asDict(recursive=True) for row in rows.collect()]

        query = (
            stream.load(self.path)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        try:
            yield query
        finally:
            query.stop()

    def drain(self):
        """All that is there, then stop, as a reader from cron does."""
        with self.streaming(availableNow=True) as query:
            query.awaitTermination(120)

    @property
    def seen(self):
        """In the order in which a log is to be read."""
        return [
            (row["operation"], row["after"] and row["after"]["id"]) for row in in_order(self.rows)
        ]


def table_of(source):
    return source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 1, "v": 0}])


def test_a_stream_gets_each_change_once_also_when_files_are_put_in_order(lake, tmp_path):
    source = Source()
    table = table_of(source)
    for number in range(2, 6):
        table.insert(id=number, v=number)
        lake.follow(source)
    reader = Reader(lake, table, tmp_path)
    reader.drain()
    direct = within_reach(SparkTable(lake.session, reader.path), str(lake.path), lake.term)
    held = files(direct, None)
    assert len(held) == 4
    assert compact(direct, Rewrite(tuple(held), 1000, orders=False), [])
    direct.version()
    assert len(files(direct, None)) == 1
    table.insert(id=6, v=6)
    lake.follow(source)
    reader.drain()
    assert reader.seen == [("read", 1), *(("insert", number) for number in range(2, 7))]
    later = Reader(lake, table, tmp_path / "later")
    later.drain()
    assert later.seen == reader.seen, "who begins behind it reads the new file"


def grown(lake, source, table):
    table.insert(id=2, v=1)
    table.add_column("w", "INT", default=7)
    table.insert(id=3, v=1, w=2)
    lake.follow(source)


GROWN = [("read", 1), ("insert", 2), ("schema", None), ("insert", 3)]


def test_a_new_column_ends_a_stream_that_runs_once_and_from_its_checkpoint_it_goes_on(lake, begun):
    source, table, reader = begun
    with reader.streaming(processingTime="0 seconds") as query:
        query.processAllAvailable()
        grown(lake, source, table)
        with pytest.raises(StreamingQueryException, match="SCHEMA_CHANGED"):
            query.awaitTermination(120)
    reader.drain()
    assert reader.seen == GROWN


def test_who_drains_it_from_cron_meets_a_new_column_without_a_failure(lake, begun):
    source, table, reader = begun
    reader.drain()
    grown(lake, source, table)
    reader.drain()
    assert reader.seen == GROWN


def test_it_begins_where_it_is_told_to(lake, tmp_path):
    source = Source()
    table = table_of(source)
    lake.follow(source)
    table.insert(id=2)
    lake.follow(source)
    since = lake.batches.newest.tables["d.t"].log.version
    reader = Reader(lake, table, tmp_path, startingVersion=str(since))
    reader.drain()
    assert reader.seen == [("insert", 2)]


def test_a_stream_reads_on_while_the_table_is_taken_again_and_truncated(lake, begun):
    source, table, reader = begun
    reader.drain()
    table.snapshot()
    lake.follow(source)
    lake.settle()
    table.truncate()
    table.insert(id=5)
    lake.follow(source)
    reader.drain()
    assert reader.seen == [
        ("read", 1), ("read", 1), ("void", None), ("truncate", None), ("insert", 5)
    ]  # fmt: skip
