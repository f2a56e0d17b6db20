"""A lake that commit b51fb81 has filled (tests/data/README.md) is brought over by the first start of today's code."""

import json
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.lake.delta.delta_sql import queried
from ingest.model.names import RESERVED_COLUMN, manifest_path
from ingest.start import upgrade
from ingest.targets import multiset_rows
from tests.conformance.targets import Crash
from tests.outside.log import Log
from tests.support.earlier_lake import COLUMNS, KEYLESS, Lake, unpack

DOUBTFUL = ["old.labels", "old.moments"]
"""Tables that only the source can put right."""


@pytest.fixture
def unpacked(tmp_path):
    return unpack("b51fb81", tmp_path)


@pytest.fixture
def lake(spark, unpacked):
    return Lake(spark, unpacked / "lake")


@pytest.fixture
def source(unpacked):
    """What MySQL held: table to rows of text."""
    return json.loads((unpacked / "mysql.json").read_text(encoding="utf-8"))["rows"]


def wrong_contents(table):
    """Rows whose content is not that of their values, and contents whose ordinals have holes."""
    rows = table.frame()
    fields = StructType([one for one in rows.schema.fields if one.name != RESERVED_COLUMN])
    made = multiset_rows.content(F.struct(*fields.names), fields)
    wrong = rows.filter(made != F.col("_ingest.content")).count()
    numbers = rows.groupBy("_ingest.content").agg(
        F.count("*").alias("n"),
        F.max("_ingest.ordinal").alias("top"),
        F.count_distinct("_ingest.ordinal").alias("each"),
    )
    return wrong, numbers.filter("n != top OR n != each").count()


def predicates(source):
    """Each of a row that MySQL holds."""
    rows = source["exact"]
    for id_, amount, price, name, *_ in [*rows[:2], *rows[2::6]]:
        whole = f"CAST('{id_}' AS DECIMAL(20,0))"
        yield f"id = {whole}"
        yield f"id IN ({whole}) AND amount >= CAST('{amount}' AS DECIMAL(38,10))"
        yield f"price = CAST('{price}' AS DECIMAL(20,4))"
        yield f"name = '{name}'"


def not_found(lake, source):
    """Predicates by which a reader does not find a row that is there: reader to predicates."""
    table, asked = lake.table("exact"), list(predicates(source))
    table.frame().createOrReplaceTempView("exact")
    parts = [f"SELECT {i} AS i, count(*) AS n FROM %s WHERE {one}" for i, one in enumerate(asked)]
    sql = " UNION ALL ".join(parts)
    by_spark = lake.spark.sql(sql.replace("%s", "exact")).collect()
    by_delta_rs = [
        row for one in parts for row in queried(DeltaTable(table.path), one.replace("%s", "rows"))
    ]
    return {
        "Spark": [asked[row.i] for row in by_spark if not row.n],
        "delta-rs": [asked[row["i"]] for row in by_delta_rs if not row["n"]],
    }


def test_readers_that_filter_find_every_row_that_they_missed_before(lake, source):
    before = not_found(lake, source)
    assert len(before["Spark"]) > 3, "the lake is not the one that it should be"
    assert len(before["delta-rs"]) > 3
    assert falsehoods(lake), "an outside reader tells that the log is false"
    lake.start()
    assert falsehoods(lake) == []
    assert not_found(lake, source) == {"Spark": [], "delta-rs": []}
    assert lake.table("exact").frame().count() == len(source["exact"])


def falsehoods(lake):
    return [one for name in COLUMNS for one in Log.read(lake.path / "old" / name).falsehoods()]


@pytest.mark.long  # what is brought over so was written by b51fb81 and before
def test_contents_of_rows_are_made_anew_where_they_were_made_in_another_way(lake, source):
    before = {name: wrong_contents(lake.table(name)) for name in KEYLESS}
    assert before["moments"][0] > 0
    assert before["ratios"][0] > 0
    versions = lake.versions()
    rows = {name: _values(lake.table(name)) for name in KEYLESS}
    assert rows["moments"] != _of(source["moments"]), "a row of MySQL stands there twice"
    lake.start()
    assert {wrong_contents(lake.table(name)) for name in KEYLESS} == {(0, 0)}
    assert {name: _values(lake.table(name)) for name in KEYLESS} == rows, "no row is touched"
    for name in ("days", "notes"):
        table = DeltaTable(str(lake.path / "old" / name))
        made = table.history(table.version() - versions[name] or 1)
        assert all(one["operation"] != "WRITE" for one in made), "right ones are not written anew"


def _values(table):
    rows = table.frame().drop(RESERVED_COLUMN).collect()
    return Counter(repr(tuple(row)) for row in rows)


def _of(rows):
    return Counter(repr(tuple(row)) for row in rows)


def test_a_table_that_may_hold_a_wrong_row_is_taken_again_and_it_is_said_once(lake):
    (said,) = lake.start()
    assert "old.moments is taken again" in said
    assert "old.labels is taken again" in said
    assert lake.gaps() == DOUBTFUL
    after = lake.versions()
    assert lake.start() == []
    assert lake.versions() == after
    assert lake.gaps() == DOUBTFUL


def test_where_no_table_can_be_taken_again_it_is_said_and_nothing_stops(lake):
    lake.takes_again = False
    (said,) = lake.start()
    assert "old.moments should be taken again" in said
    assert "old.labels should be taken again" in said
    assert lake.gaps() == []


@pytest.mark.parametrize(
    "dies_in",
    [
        "_statistics",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("entry", "_contents", "done")),
    ],
)
def test_a_start_that_dies_in_the_middle_is_followed_by_the_rest(lake, source, dies_in):
    whole = getattr(upgrade.Upgrade, dies_in)

    def dying(self, *given):
        whole(self, *given)
        raise Crash

    with patch.object(upgrade.Upgrade, dies_in, dying), pytest.raises(Crash):
        lake.start()
    lake.start()
    assert {wrong_contents(lake.table(name)) for name in KEYLESS} == {(0, 0)}
    assert not_found(lake, source) == {"Spark": [], "delta-rs": []}
    assert lake.gaps() == DOUBTFUL


def test_a_table_that_is_restored_to_what_it_was_before_is_brought_over_again(lake):
    before = lake.table("moments").version()
    lake.start()
    lake.table("moments").restore(before)
    assert wrong_contents(lake.table("moments")) != (0, 0)
    assert lake.start()
    assert wrong_contents(lake.table("moments")) == (0, 0)
    assert lake.start() == []


def test_every_checkpoint_is_newer_than_what_was_corrected_and_holds_no_long_text(lake):
    def texts(path):
        log = Path(path) / "_delta_log"
        named = json.loads((log / "_last_checkpoint").read_text())["version"]
        adds = pq.read_table(log / f"{named:020d}.checkpoint.parquet", columns=["add"])["add"]
        return named, "".join(one["stats"] or "" for one in adds.to_pylist() if one)

    own = [manifest_path(str(lake.path))]
    busy = [
        name for name in COLUMNS if name != "labels"
    ]  # with so many commits that there is a checkpoint
    paths = [*(str(lake.path / "old" / name) for name in busy), *own]
    exact = paths[0]
    assert "zlong " * 7 in texts(exact)[1], "the lake is not the one that it should be"
    before = {path: texts(path)[0] for path in paths}
    lake.start()
    assert "zlong " * 7 not in texts(exact)[1]
    for path in paths:
        log = Path(path) / "_delta_log"
        made = [
            int(file.stem)
            for file in log.glob("*.json")
            if '"CORRECT STATISTICS"' in file.read_text(encoding="utf-8")
        ]
        named, _ = texts(path)
        assert named >= max(made, default=0)
        assert named > before[path]
        assert made or path != exact
