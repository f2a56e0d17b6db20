"""What Spark commits is read back: other readers find every row by a filter, and Spark passes files over."""

import random

import pytest

from ingest.lake.delta import read_back
from ingest.lake.delta.commit import Committer
from tests.outside import tables
from tests.outside.filters import READERS as OTHERS
from tests.outside.filters import differences
from tests.outside.log import Log
from tests.outside.predicates import drawn

SEED = 20_260


@pytest.fixture(scope="module")
def held():
    return tables.columns(random.Random(SEED))


@pytest.fixture(scope="module")
def sparked(spark, held, tmp_path_factory):
    """Of a few types: what Spark's statistics were misread of, and others."""
    kinds = {
        "BIT(1)",
        "DECIMAL(38,30)",
        "DOUBLE",
        "FLOAT",
        "DATETIME(6)",
        "BIGINT UNSIGNED",
        "VARCHAR(500)",
        "DATE",
    }
    few = [one for one in held if one.mysql in kinds]
    made, lake = tables.by_spark(spark, tmp_path_factory.mktemp("sparked"), few)
    return made, lake, drawn(few, random.Random(SEED), values=2)


def test_other_readers_find_every_row_in_a_table_by_spark(sparked):
    made, lake, asked = sparked
    # A text that begins with 32 times the greatest code point has no bound of Spark's, and pyarrow passes such a file over.
    plain = [one for one in asked if one.column.kind != "string"]
    knowing = [one for one in OTHERS if one != "pyarrow"]
    assert differences(made, asked, knowing) == differences(made, plain, ["pyarrow"]) == []
    log = Log.read(made.path)
    assert log.falsehoods() == []
    assert log.version == lake.table.version()
    assert log.markers == lake.table.markers()
    assert len(log.files) == len(lake.table.frame().inputFiles())
    made.checkpoint()
    assert differences(made, asked, knowing) == differences(made, plain, ["pyarrow"]) == []


def test_spark_passes_files_over_and_none_that_holds_a_row(spark, sparked):
    """Without passing over, the whole table; with it, each file that holds a row which the predicate is true of."""
    made, _, asked = sparked
    frame = spark.read.format("delta").load(str(made.path))
    where = {
        row.id: row.file for row in frame.selectExpr("id", "_metadata.file_path AS file").collect()
    }
    every, fewer = set(where.values()), 0
    for one in asked:
        opened = set(frame.filter(tables.by_name(frame, one)).inputFiles())
        assert {where[row] for row in one.right()} <= opened, str(one)
        fewer += opened < every
    assert fewer > len(asked) // 2


@pytest.fixture
def unread(spark, tmp_path, monkeypatch):
    """A lake whose job has died between a commit of Spark's and reading it back."""
    held = [tables.Column("c", "BIT(1)", "boolean", ["true"] * tables.ROWS)]
    lake = tables.SparkLake(spark, tmp_path, held)
    with monkeypatch.context() as dying:
        dying.setattr(read_back, "put_right", lambda *_: False)
        lake.append(tables.values(held, 0))
    return lake, tables.Made(tmp_path / "t", held), drawn(held, random.Random(1), values=1)


def test_a_commit_of_spark_s_that_was_not_read_back_is_when_it_is_made_again(unread):
    """The next job makes the batch again."""
    lake, made, asked = unread
    assert differences(made, asked, ["pyarrow"]), "the mutant is not met"
    lake.committer = Committer(1)
    lake.again()
    assert differences(made, asked, ["pyarrow"]) == []
    version = lake.table.version()
    lake.committer = Committer(1)
    lake.again()
    assert lake.table.version() == version


def test_what_a_job_has_not_read_back_its_successor_does_though_its_fence_came_between(unread):
    lake, made, asked = unread
    lake.committer = Committer(2)
    lake.committer.fence(lake.table, tables.APP)
    lake.again()
    assert differences(made, asked, ["pyarrow"]) == []
